"""Joining where it goes wrong: nobody was heard, somebody else speaks, and all others are dead."""

from __future__ import annotations

from collections.abc import Collection
from itertools import count

import pytest

from kcontrol.core.cluster.duties import Identity, duties
from kcontrol.core.cluster.entries import Abort, Accept, ClusterEntry, Leave, Notify, Prepare
from kcontrol.core.cluster.model import AgentStage, ClusterPolicy, Replica
from kcontrol.core.cluster.replica import apply
from tests.unit.core.cluster.made import after, hears, incarnation, joins, prepare, rejection, ring_of
from tests.unit.core.cluster.test_agent import BEAT_MS, LIMITS, Alone

BESIDE = ("a", "c")
"""Between whom `prepared` has its joiner: whom it will watch, and who watches that one."""


def prepared() -> Replica:
    """d is to come between c and a."""
    value = after(ring_of("abc", 2), prepare("d"))
    assert value.prepared == {"d": "a"}
    assert value.pairs["c"] == "a"
    return value


def says(
    value: Replica, name: str, silent: Collection[str] = (), unheard: Collection[str] = ()
) -> list[ClusterEntry]:
    return duties(value, Identity(name, incarnation(name), 1), hears(value, name, silent, unheard))


def accept(by: str) -> Accept:
    return Accept("d", "d-1", by, incarnation(by))


# --- whom a joiner is given ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "targets"), [(1, "abcabcabc"), (2, "aaabbbccc")])
def test_whom_it_will_watch_is_chosen_by_name_and_offset(level: int, targets: str) -> None:
    """Not by the order of joining, and not by the order of the ring."""
    found = ""
    for offset in range(9, 18):
        value = ring_of("cab", offset - 1).but(level=level)
        ask = Prepare("d", "d-1", slots=1, levels=(1, level))
        found += after(value, ask).prepared["d"]
    assert found == targets


# --- two phases -----------------------------------------------------------------------------------------


def test_a_joiner_notifies_once_it_hears_whom_it_will_watch() -> None:
    value = prepared()
    assert says(value, "d", unheard="a") == []
    assert says(value, "d", unheard="bc") == [Notify("d", "d-1")], "the others say nothing about it"


def test_a_joiner_is_accepted_once_its_watcher_hears_it_and_not_before_it_has_notified() -> None:
    value = prepared()
    assert says(value, "c") == []
    value = after(value, Notify("d", "d-1"))
    assert says(value, "c", unheard="d") == []
    assert says(value, "c", unheard="ab") == [accept("c")]
    assert says(value, "a") == says(value, "b") == [], "nobody else accepts it"


def test_only_the_watcher_of_whom_it_will_watch_accepts_a_joiner() -> None:
    value = after(prepared(), Notify("d", "d-1"))
    for by in "abd":
        assert "somebody else watches" in rejection(value, accept(by))
    assert after(value, accept("c")).stage("d") is AgentStage.MEMBER


@pytest.mark.parametrize("notified", [False, True], ids=["prepared", "accepted"])
def test_a_join_is_given_up_by_the_joiner_and_by_the_two_beside_it_and_by_nobody_else(notified: bool) -> None:
    value = prepared()
    value = after(value, Notify("d", "d-1")) if notified else value
    for by in ("d", *BESIDE):
        gone = after(value, Abort("d", "d-1", by, incarnation(by)))
        assert (gone.stage("d"), gone.members, gone.pairs) == (
            *(AgentStage.UNKNOWN, value.members, value.pairs),
        )
    assert "no part in this join" in rejection(value, Abort("d", "d-1", "b", "b-1"))


def test_who_waits_may_give_up_too() -> None:
    value = after(ring_of("ab"), prepare("c"), prepare("d"))
    assert value.waiting == ("d",)
    assert after(value, Abort("d", "d-1", "d", "d-1")).waiting == ()
    assert "no part in this join" in rejection(value, Abort("d", "d-1", "a", "a-1"))


# --- where all others are dead --------------------------------------------------------------------------


def until_joined(value: Replica, name: str) -> tuple[Replica, list[ClusterEntry]]:
    """What the only one that lives says, one entry after the other."""
    log: list[ClusterEntry] = []
    while due := says(value, name, silent=value.agents.keys() - {name}):
        assert len(log) < 20, log
        value, why = apply(value, value.offset + 1, due[0])
        assert not why, (due[0], why)
        log.append(due[0])
    return value, log


def test_who_comes_to_the_dead_reports_them_one_by_one_and_is_a_member_in_the_end() -> None:
    value, log = until_joined(ring_of("abc", 2), "d")
    gone = {entry.agent for entry in log if isinstance(entry, Leave)}
    assert (value.members, gone, len(log)) == (("d",), {"a", "b", "c"}, 4)


def test_who_waits_reports_the_dead_that_none_but_it_can_see() -> None:
    value = after(ring_of("ab", 2), prepare("c"), prepare("d"))
    assert value.stage("d") is AgentStage.WAITING
    assert [type(one) for one in says(value, "d", silent="a")] == [Leave], "one is dead: that one"
    assert says(value, "d", silent="c") == [], "of joiners those beside them see to that"
    value, log = until_joined(value, "d")
    assert value.members == ("d",)
    assert {entry.agent for entry in log if isinstance(entry, Leave)} == {"a", "b", "c"}


def test_an_agent_that_hears_nobody_but_itself_is_a_member_after_a_while() -> None:
    """The whole way, by its beats: it takes the patience of who misses most."""
    alone = Alone()
    alone.log = joins("bcd")
    said: list[ClusterEntry] = []
    for beats in count(1):
        alone.read()
        alone.beat()
        while entry := alone.speak():
            said.append(entry)
        if alone.machine.replica.members == ("a",):
            break
        assert beats < 100, said
        alone.pass_ms(BEAT_MS)
    assert [type(one) for one in said] == [Prepare, Leave, Leave, Leave]
    assert beats > alone.machine.replica.policy.silent_after_many


@pytest.mark.parametrize("in_touch", [True, False])
def test_who_is_out_of_touch_says_of_nobody_that_it_is_dead(in_touch: bool) -> None:
    """Its own beats have not come back lately, so others may not have come either."""
    alone = Alone()
    alone.log = joins("ab")
    for _ in range(ClusterPolicy().silent_after + 1):
        alone.read()
        alone.beat()
        alone.pass_ms(BEAT_MS)
    alone.pass_ms(0 if in_touch else alone.machine.late_ms)
    alone.read()
    assert alone.speak() == (Leave("b", "b-1", "a", "a-1", "silent") if in_touch else None)


# --- when an agent joins --------------------------------------------------------------------------------


def test_nothing_is_said_before_the_log_was_read_for_the_first_time() -> None:
    """Though it hears itself: what it knows is nothing yet."""
    alone = Alone()
    alone.log = joins("b")
    assert alone.beat() is not None
    assert alone.speak() is None
    alone.read()
    assert alone.speak() == Prepare("a", "a-1", slots=2)


class Removed(Alone):
    """Again and again it is a member, and given up for dead."""

    def __init__(self, removals: int, newest: str, member_ms: int) -> None:
        """member_ms: how long it was one the last time. newest: its incarnation after that."""
        super().__init__()
        longest_ms = 2 * LIMITS.longest_backoff_ms
        for life in range(removals):
            self.pass_ms(longest_ms)
            self.join()
            self.pass_ms(member_ms if life == removals - 1 else BEAT_MS)
            who = self.machine.me.who
            self.log.append(Leave(*who, *who, "silent"))
            self.read()
            assert self.machine.removed
            self.machine.begin(newest if life == removals - 1 else f"a-{life + 2}", self.now_ms)

    def joins_after(self, ms: int) -> bool:
        self.pass_ms(ms)
        self.read()
        assert self.beat() is not None
        return isinstance(self.speak(), Prepare)


NEWEST = [f"a-{number}" for number in range(100, 116)]
"""Incarnations: each draws its own time."""


@pytest.mark.parametrize(
    ("removals", "member_ms", "longest_ms"),
    [
        (1, BEAT_MS, 4_000),
        (2, BEAT_MS, 8_000),
        (3, BEAT_MS, 16_000),
        (7, BEAT_MS, 256_000),
        (8, BEAT_MS, LIMITS.longest_backoff_ms),
        (20, BEAT_MS, LIMITS.longest_backoff_ms),
        (3, LIMITS.longest_backoff_ms + 1, LIMITS.backoff_ms),
    ],
)
def test_each_time_it_was_removed_it_waits_longer_before_it_joins_again(
    removals: int, member_ms: int, longest_ms: int
) -> None:
    """Up to twice as long each time, until it was a member for long."""
    least_ms = LIMITS.backoff_ms // 2
    assert all(Removed(removals, one, member_ms).joins_after(least_ms + longest_ms) for one in NEWEST)
    assert not any(Removed(removals, one, member_ms).joins_after(least_ms - 1) for one in NEWEST)
    soon = [Removed(removals, one, member_ms).joins_after(least_ms + longest_ms // 2) for one in NEWEST]
    assert {True, False} == set(soon), "half of the time is too short for some, and not for others"
