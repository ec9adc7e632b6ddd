"""An agent's machine: when it speaks, when it keeps silent, what it starts and ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from kcontrol.core.cluster.agent import AgentMachine
from kcontrol.core.cluster.agent_limits import AgentLimits
from kcontrol.core.cluster.canonical import digest
from kcontrol.core.cluster.duties import Identity
from kcontrol.core.cluster.entries import (
    ClusterEntry,
    Configure,
    ConfirmSnapshot,
    Leave,
    Prepare,
    ProposeSnapshot,
    RaiseLevel,
    SubmitJob,
    TaskFailed,
)
from kcontrol.core.cluster.liveness import Beat
from kcontrol.core.cluster.model import ClusterPolicy, Mark, TaskSpec, Unit
from kcontrol.core.cluster.unit_ends import Hope, LeftOut
from kcontrol.core.cluster.work import RunningUnit, Work
from tests.unit.core.cluster.made import joins

LIMITS = AgentLimits()
BEAT_MS = ClusterPolicy().beat_ms
UNIT: Unit = ("job", "nodes", 0)


class Alone:
    """One agent and its log."""

    def __init__(
        self, before: str = "", earlier: tuple[str, ...] = (), left_out: Iterable[LeftOut] = ()
    ) -> None:
        me = Identity("a", "a-1", 2, earlier=earlier)
        self.now_ms = 1_000
        self.log: list[ClusterEntry] = []
        self.machine = AgentMachine(me, LIMITS, self.now_ms, before, left_out)

    def pass_ms(self, ms: int) -> None:
        self.now_ms += ms

    def read(self) -> None:
        while self.machine.next_offset < len(self.log):
            self.machine.read(self.machine.next_offset, self.log[self.machine.next_offset])
        self.machine.read_to_end(self.now_ms)

    def beat(self) -> Beat | None:
        beat = self.machine.beat(self.now_ms)
        if beat is not None:
            self.machine.beat_sent(self.now_ms)
            self.machine.hear(beat)
        return beat

    def speak(self) -> ClusterEntry | None:
        entry = self.machine.entry(self.now_ms)
        if entry is not None:
            self.log.append(entry)
            self.machine.appended()
            self.read()
        return entry

    def join(self) -> None:
        self.read()
        self.beat()
        assert isinstance(self.speak(), Prepare)

    def submit(self, nodes: int = 1) -> None:
        tasks = (TaskSpec("nodes", nodes, nodes),)
        self.log.append(SubmitJob("job", f"r{len(self.log)}", len(self.log) - 1, "p", tasks))
        self.read()

    def work(self, *running: RunningUnit) -> Work:
        return self.machine.work(running, self.now_ms)


def test_it_joins_once_it_has_read_the_log_and_hears_itself() -> None:
    alone = Alone()
    assert alone.speak() is None
    alone.read()
    assert alone.speak() is None
    alone.beat()
    assert alone.speak() == Prepare("a", "a-1", slots=2)
    assert alone.machine.replica.members == ("a",)
    assert alone.speak() is None


def test_it_goes_on_as_the_next_incarnation_without_hearing_itself() -> None:
    alone = Alone("a-0", ("a-0",))
    alone.log = [Prepare("a", "a-0")]
    alone.read()
    assert alone.speak() == Prepare("a", "a-1", "a-0", slots=2)


def test_another_process_of_its_name_is_waited_for_until_it_is_silent() -> None:
    alone = Alone()
    alone.log = [Prepare("a", "other")]
    alone.read()
    said = []
    for _ in range(7):
        alone.beat()
        alone.read()
        said.append(alone.speak())
        alone.pass_ms(BEAT_MS)
    taken = [one for one in said if one is not None]
    assert taken == [Prepare("a", "a-1", "other", True, 2)]
    assert said[:4] == [None] * 4


def test_what_is_under_way_is_not_said_twice_and_what_was_given_up_is_computed_anew() -> None:
    alone = Alone()
    alone.read()
    alone.beat()
    assert alone.machine.entry(alone.now_ms) is not None
    assert alone.machine.entry(alone.now_ms) is None
    alone.machine.not_appended(alone.now_ms, reads=True)
    assert alone.machine.entry(alone.now_ms) is not None


def test_who_can_not_read_the_log_neither_writes_nor_starts_and_falls_silent() -> None:
    alone = Alone()
    alone.join()
    alone.submit()
    assert [unit for unit, _ in alone.work().start] == [UNIT]
    alone.pass_ms(alone.machine.late_ms + 1)
    alone.machine.leave("asked to")
    assert alone.speak() is None
    assert alone.work().start == ()
    alone.pass_ms(LIMITS.unfit_ms)
    assert alone.machine.beat(alone.now_ms) is None
    alone.read()
    assert alone.machine.beat(alone.now_ms) is not None
    assert isinstance(alone.speak(), Leave)


def test_who_can_not_write_falls_silent_and_tries_again_later() -> None:
    alone = Alone()
    alone.join()
    for _ in range(5):
        alone.machine.not_appended(alone.now_ms, reads=True)
        alone.pass_ms(LIMITS.append_ms)
        alone.read()
    alone.machine.not_appended(alone.now_ms, reads=True)
    assert alone.machine.beat(alone.now_ms) is None
    alone.pass_ms(4 * LIMITS.unfit_ms)
    alone.read()
    assert alone.machine.beat(alone.now_ms) is not None


def test_a_beat_after_a_pause_says_so() -> None:
    alone = Alone()
    alone.read()
    first = alone.beat()
    assert first is not None
    assert first.gap
    assert alone.beat() is None
    alone.pass_ms(BEAT_MS)
    second = alone.beat()
    assert second is not None
    assert not second.gap
    alone.pass_ms(alone.machine.late_ms + 1)
    alone.read()
    third = alone.beat()
    assert third is not None
    assert third.gap


def test_it_speaks_for_the_incarnation_before_until_it_is_known_itself() -> None:
    alone = Alone(before="a-0")
    alone.read()
    first = alone.beat()
    assert first is not None
    assert first.before == "a-0"
    assert isinstance(alone.speak(), Prepare)
    alone.pass_ms(BEAT_MS)
    second = alone.beat()
    assert second is not None
    assert second.before == ""


def test_nothing_that_was_found_running_is_ended_before_the_log_was_read() -> None:
    alone = Alone("a-0", ("a-0",))
    alone.log = [Prepare("a", "a-0"), SubmitJob("job", "r", 0, "p", (TaskSpec("nodes", 1, 1),))]
    found = RunningUnit(UNIT, 1)
    assert alone.work(found) == Work()
    alone.read()
    assert alone.work(found) == Work()
    assert alone.work(RunningUnit(UNIT, 0)).stop == (RunningUnit(UNIT, 0),)


def test_who_wakes_up_and_was_given_up_for_dead_ends_what_it_runs() -> None:
    alone = Alone()
    alone.join()
    alone.submit()
    running = RunningUnit(UNIT, 1)
    assert alone.work(running) == Work()
    alone.log.append(Leave("a", "a-1", "a", "a-1", "silent"))
    alone.pass_ms(60_000)
    assert alone.work(running).stop == ()
    alone.read()
    assert alone.machine.removed
    assert alone.work(running).stop == (running,)
    alone.machine.begin("a-2", alone.now_ms)
    assert alone.work(running).stop == (running,)
    alone.beat()
    assert alone.speak() is None
    alone.pass_ms(2 * LIMITS.backoff_ms + LIMITS.longest_backoff_ms)
    alone.read()
    alone.beat()
    assert alone.speak() == Prepare("a", "a-2", slots=2)


def test_a_process_of_an_overtaken_entry_is_ended_whatever_entry_comes_later() -> None:
    """The unit is placed here again, by another entry: the process of the first matches none that comes
    after."""
    alone = Alone()
    alone.join()
    alone.submit()
    tasks = (TaskSpec("nodes", 1, 1),)
    alone.log.append(SubmitJob("job", "r9", len(alone.log) - 1, "another", tasks))
    alone.read()
    old = RunningUnit(UNIT, 1)
    assert alone.work(old).stop == (old,)
    assert [place.generation for _, place in alone.work(old).start] == [2]


def test_a_unit_that_moved_is_handed_over_and_ended_after_a_while() -> None:
    alone = Alone()
    alone.join()
    alone.submit(1)
    machine = alone.machine
    moved = {"job": {"nodes": (replace(machine.replica.places()[UNIT], agent="b"),)}}
    machine.replica = replace(machine.replica, allocations=moved)
    running = RunningUnit(UNIT, 1)
    assert alone.work(running).handed_over == (running,)
    lingering = replace(running, moved_ms=alone.now_ms)
    alone.pass_ms(LIMITS.handover_ms)
    assert alone.work(lingering).stop == (lingering,)


def test_a_unit_that_fails_three_times_is_reported_and_one_that_is_useless_at_once() -> None:
    alone = Alone()
    alone.join()
    alone.submit()
    for _ in range(2):
        alone.machine.unit_failed(UNIT, 1, "code 1")
        assert alone.speak() is None
    alone.machine.unit_failed(UNIT, 1, "code 1")
    assert alone.speak() == TaskFailed(*UNIT, 1, "a", "a-1", "code 1", False)
    alone.submit()
    alone.machine.unit_failed(UNIT, 1, "an old placement's", Hope.NOWHERE)
    assert alone.speak() is None


@pytest.mark.parametrize("hope", [Hope.ELSEWHERE, Hope.NOWHERE])
def test_what_failed_without_hope_is_reported_at_once_and_not_started_before_that_is_said(hope: Hope) -> None:
    alone = Alone()
    alone.join()
    alone.submit()
    assert alone.work().start
    alone.machine.unit_failed(UNIT, 1, "no Java", hope)
    assert not alone.work().start
    assert alone.speak() == TaskFailed(*UNIT, 1, "a", "a-1", "no Java", hope is Hope.NOWHERE)
    assert alone.machine.replica.jobs["job"].active == (hope is Hope.ELSEWHERE)


def test_a_unit_that_was_left_out_is_not_started_again_until_it_is_placed_anew() -> None:
    alone = Alone()
    alone.join()
    alone.submit()
    assert alone.machine.unit_left_out(UNIT, 1) == {LeftOut(UNIT, 1, 1)}
    assert alone.speak() is None
    assert not alone.work().start
    alone.submit()
    assert not alone.work().start, "the same again changes nothing"
    alone.submit(2)
    assert [unit for unit, _ in alone.work().start] == [UNIT, ("job", "nodes", 1)]
    generation = alone.machine.replica.places()[UNIT].generation
    left_out = alone.machine.unit_left_out(UNIT, generation)
    assert left_out == {LeftOut(UNIT, generation, 1)}, "the old one is forgotten"


@pytest.mark.parametrize(("founded_ms", "is_over"), [(0, True), (1_000, True), (2_000, False)])
def test_what_was_left_out_in_a_deleted_log_is_started_in_the_next(founded_ms: int, is_over: bool) -> None:
    """Though its placement there has the same number."""
    alone = Alone(left_out=[LeftOut(UNIT, 1, founded_ms)])
    alone.log.append(Prepare("a", "a-1", began_ms=1_000))
    alone.read()
    alone.submit()
    assert bool(alone.work().start) != is_over
    other = ("job", "nodes", 1)
    kept = {LeftOut(UNIT, 1, founded_ms)} if is_over else set()
    assert alone.machine.unit_left_out(other, 9) == {*kept, LeftOut(other, 9, 1_000)}


def test_what_was_left_out_is_remembered_before_the_log_was_read() -> None:
    """What has ended while no agent was there is heard of first."""
    alone = Alone(left_out=[LeftOut(UNIT, 1)])
    other = ("job", "nodes", 1)
    assert alone.machine.unit_left_out(other, 1) == {LeftOut(UNIT, 1), LeftOut(other, 1)}


def test_code_that_does_not_know_the_level_ends_and_applies_nothing() -> None:
    alone = Alone()
    alone.log = [RaiseLevel(2), Prepare("b", "b-1", levels=(1, 2))]
    alone.machine.read(0, alone.log[0])
    alone.machine.read(1, alone.log[1])
    assert "the cluster's level is 2, and this agent supports 1 to 1" in alone.machine.ended
    assert alone.machine.replica.offset == 0


def ended_by_marks(joined: str, gone: str = "") -> str:
    """Why it has ended that hears of another value from b and c, of whom these have joined, and these have left."""
    alone = Alone()
    alone.log = [Configure(ClusterPolicy(digest_every=1, snapshot_every=1)), *joins(joined)]
    alone.read()
    assert not alone.machine.ended
    at = alone.machine.replica.offset
    alone.log += [Leave(name, f"{name}-1", name, f"{name}-1", "asked to") for name in gone]
    alone.read()
    for name in "bc":
        alone.machine.hear(Beat(name, f"{name}-1", 0, False, at, Mark(at, "another value")))
    return alone.machine.ended


def test_who_differs_from_most_ends() -> None:
    assert "differs" in ended_by_marks("bc")


@pytest.mark.parametrize(("joined", "gone"), [("", ""), ("b", ""), ("bc", "c")])
def test_what_others_say_that_are_not_in_the_value_does_not_count(joined: str, gone: str) -> None:
    """They may have read another log, or have left it."""
    assert ended_by_marks(joined, gone) == ""


def test_a_member_alone_takes_a_snapshot_and_confirms_it() -> None:
    alone = Alone()
    alone.log = [Configure(ClusterPolicy(digest_every=1, snapshot_every=2))]
    alone.join()
    alone.submit()
    saved = alone.machine.saved
    assert saved is not None
    assert (saved.offset, saved.digest) == (2, digest(saved.replica))
    assert alone.speak() == ProposeSnapshot("a", "a-1", 2, saved.digest)
    assert alone.speak() == ConfirmSnapshot("a", "a-1", 2, saved.digest)
    assert alone.machine.replica.base == Mark(2, saved.digest)


def test_who_reads_from_a_snapshot_goes_on_where_it_ends() -> None:
    alone, late = Alone(), Alone("a-1", ("a-1",))
    alone.join()
    alone.submit()
    late.machine.restore(alone.machine.replica)
    assert late.machine.next_offset == len(alone.log)
    assert late.machine.replica == alone.machine.replica
