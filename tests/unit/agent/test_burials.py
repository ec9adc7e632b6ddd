"""Agents that have a coordinator take those of hosts that are gone out of the group of coordinators."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import pytest

from kcontrol.adapters.kafka.logs.cluster_log import LogCutError
from kcontrol.apps.agent.burials import FORGOTTEN_AFTER_S, Burials
from kcontrol.apps.coordinator_presence import CoordinatorPresence
from kcontrol.core.cluster.coordinators import gone_coordinators
from kcontrol.core.cluster.entries import ClusterEntry, Configure, Drain, Leave, Prepare
from kcontrol.core.cluster.model import ClusterPolicy, Mark, Replica
from kcontrol.core.cluster.ring import watchers
from kcontrol.errors import AccessError, RetriableError
from kcontrol.wire.cluster import StampedEntry
from tests.support.patience import HANG_S
from tests.unit.agent.session import Log, Part, Session
from tests.unit.core.cluster.made import after, joined, joins

DEAD = Leave("b", "b-1", "a", "a-1", "silent")
NAME = CoordinatorPresence(Path("anywhere"), "b").client_id
"""In the group, of a coordinator that agent b has started."""

AWAY, HANGS = RetriableError("away"), TimeoutError()


class Group:
    """fails: what the first calls raise; HANGS: they get no answer."""

    def __init__(self, *fails: Exception) -> None:
        self.fails, self.asked = list(fails), list[list[str]]()
        self.now_s = 0.0

    async def remove(self, client_ids: Collection[str]) -> list[str]:
        self.asked.append([*client_ids])
        error = self.fails.pop(0) if self.fails else None
        if error is HANGS:
            await asyncio.Event().wait()
        if error is not None:
            raise error
        return [*client_ids]

    def burials(self) -> Burials:
        made = Burials(self.remove, lambda: self.now_s)
        made.add(["b"])
        return made


def bury(burials: Burials, agents: Collection[str] = (), *, may_act: bool = True) -> None:
    asyncio.run(burials.bury(agents, may_act))


def test_who_is_gone_is_buried_once() -> None:
    group = Group()
    burials = group.burials()
    bury(burials)
    bury(burials)
    assert group.asked == [[NAME]]


def test_nobody_is_buried_by_old_news() -> None:
    group = Group()
    burials = group.burials()
    bury(burials, may_act=False)
    assert group.asked == []
    bury(burials)
    assert group.asked == [[NAME]]


def test_who_is_back_is_left_alone() -> None:
    group = Group()
    burials = group.burials()
    bury(burials, may_act=False)
    bury(burials, ["a", "b"])
    bury(burials)
    assert group.asked == []


@pytest.mark.parametrize(("fault", "told"), [(AWAY, RetriableError), (HANGS, TimeoutError)])
def test_a_group_that_does_not_answer_is_asked_again(
    fault: Exception, told: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kcontrol.apps.agent.burials.TIMEOUT_S", 0.01)
    group = Group(fault)
    burials = group.burials()
    with pytest.raises(told):
        bury(burials)
    bury(burials)
    bury(burials)
    assert group.asked == [[NAME], [NAME]]


def test_a_group_that_an_agent_may_not_ask_is_left_to_kafka() -> None:
    group = Group(AccessError("no right"))
    burials = group.burials()
    bury(burials)
    bury(burials)
    assert group.asked == [[NAME]]


def test_after_a_while_nobody_is_buried_any_more() -> None:
    """Kafka has missed them long ago; who is in the group then is somebody else."""
    group = Group()
    burials = group.burials()
    group.now_s = FORGOTTEN_AFTER_S
    bury(burials)
    assert group.asked == []


def gone(before: Replica, agent: str, *entries: ClusterEntry) -> Collection[str]:
    """Whom this agent has to bury once it has read these."""
    return gone_coordinators(before, after(before, *entries), (None, *entries), agent)


def test_only_who_has_a_coordinator_sees_to_the_others() -> None:
    before = joined("abc")
    assert [place.agent for place in before.coordinators] == ["a", "b"]
    assert [place.agent for place in after(before, DEAD).coordinators] == ["a", "c"]
    assert gone(before, "a", DEAD) == gone(before, "c", DEAD) == {"b"}
    one = Configure(ClusterPolicy(coordinators=1))
    assert gone(before, "c", one, DEAD) == frozenset()


def test_who_lives_is_not_buried() -> None:
    before = joined("abc")
    assert gone(before, "a") == frozenset()
    again = Prepare("b", "b-2", slots=1, previous="b-1")
    assert gone(before, "a", again) == frozenset()
    assert gone(before, "a", DEAD, Prepare("b", "b-2", slots=1)) == frozenset()


def test_who_sees_to_its_own_coordinator_is_not_buried() -> None:
    """It ends it, in order; out of the group it would be cut off in the middle of a step."""
    before = joined("abc")
    assert gone(before, "a", Drain("b", True)) == frozenset()
    assert gone(before, "a", Leave("b", "b-1", "b", "b-1", "asked to")) == frozenset()
    silent = Leave("b", "b-1", watchers(before)["b"], f"{watchers(before)['b']}-1", "silent")
    assert gone(before, "a", Leave("c", "c-1", "c", "c-1", "asked to"), silent) == {"b"}


@pytest.mark.parametrize("cut", [False, True])
def test_an_agent_buries_who_goes_while_it_looks_and_nobody_of_long_ago(tmp_path: Path, cut: bool) -> None:
    """cut: it begins with a snapshot, and reads the rest."""
    before = joined("abc")
    before = before.but(base=Mark(before.offset, "confirmed"))

    async def snapshot() -> Replica:
        return before

    async def play() -> None:
        group = Group()
        log = CutLog([*joins("abc"), DEAD], before.offset + 1 if cut else 0)
        with Session(tmp_path, log, burials=Burials(group.remove), store=Part(newest=snapshot)) as session:

            def has_read() -> bool:
                return session.machine.has_read and session.machine.replica.offset == len(log.entries) - 1

            running = asyncio.create_task(session.session.run())
            try:
                await _until(running, has_read)
                assert [place.agent for place in session.machine.replica.coordinators] == ["a", "c"]
                log.entries.append(Leave("c", "c-1", "a", "a-1", "silent"))
                await _until(running, lambda: group.asked != [])
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
        assert group.asked == [[NAME.removesuffix("b") + "c"]]

    asyncio.run(play())


class CutLog(Log):
    """begin: what is before this offset was deleted."""

    def __init__(self, entries: Sequence[ClusterEntry], begin: int) -> None:
        super().__init__(entries)
        self._begin = begin

    async def read_to_end(self) -> list[StampedEntry]:
        if self.read < self._begin:
            raise LogCutError(self._begin)
        return await super().read_to_end()


async def _until(running: asyncio.Task[str], holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(HANG_S):
        while not holds():
            assert not running.done(), running.exception()
            await asyncio.sleep(0.01)
