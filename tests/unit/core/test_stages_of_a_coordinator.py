"""A coordinator and a step that has stages: what it adds, what it looks at in each report, and what it commits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kcontrol.core.coordinator.table import State
from kcontrol.core.events import AddPartitions, CommitStep, PartitionsAdded, StepCommitted
from kcontrol.core.model import (
    Command,
    EventTimes,
    ExchangeLayout,
    ExchangeTaken,
    FailureKind,
    InputSlice,
    NodePhase,
    PipelineSpec,
    Reason,
    StepBoundary,
    StepWork,
    Watermark,
)
from kcontrol.core.step import exchange
from tests.unit.core.drive import CoordinatorDriver, only, published
from tests.unit.core.staged import SHARED, STAGED, run, sent, told

FIRST = sent(0, run(0, 5, 6), run(1, 6, 8, 2))
SECOND = sent(2, run(1, 0, 1, 4))
TAKEN = {0: (ExchangeTaken("x", 0, 1),), 1: (ExchangeTaken("x", 1, 6),)}


class Driver(CoordinatorDriver):
    """Of two nodes."""

    def __init__(self, spec: PipelineSpec = STAGED) -> None:
        super().__init__(spec)
        self.take_over()
        for number in (0, 1):
            self.join(number)
        for number in (0, 1):
            self.say(number, phase=NodePhase.CLOSED)
        for number in (0, 1):
            self.say(number)
        self.added: list[Any] = []

    def ask(self) -> StepWork:
        """Input arrives at node 0, and the step is asked of both."""
        self.added = self.receive(6, 0)
        commands = published(Command, self.feed(PartitionsAdded(self.log.now_ms)))
        work = commands[0].work
        assert work is not None
        for number in (0, 1):
            self.say(number, attempt=work.token)
        return work

    def stage(self, work: StepWork, number: int, **fields: Any) -> list[Any]:
        """A node's report of the first stage."""
        slices = (FIRST, SECOND)[number : number + 1]
        return self.see(replace(told(work.token, number, *slices, step=work.step), **fields))

    def last(self, work: StepWork, number: int, **fields: Any) -> list[Any]:
        """A node's report of the last stage."""
        part = next(part for part in work.division if part.partition == number)
        read = InputSlice("in", "input", "T1", number, part.from_, part.to, part.to - part.from_, "1" * 32)
        made = replace(told(work.token, number, stage=1, early=False, step=work.step), inputs=(read,))
        return self.see(replace(made, taken=TAKEN[number], **fields))

    def committed(self, work: StepWork, **fields: Any) -> StepBoundary:
        """All reports come, and are good."""
        for number in (0, 1):
            self.stage(work, number)
        self.last(work, 0, **fields)
        return only(CommitStep, self.last(work, 1)).boundary

    @property
    def failure(self) -> str:
        """Why the attempt was given up; '' while it was not."""
        found = self.state.trouble.failure
        return "" if self.state.at is State.ATTEMPTING or found is None else found.text


def test_what_may_be_sent_is_added_to_the_transaction() -> None:
    driver = Driver()
    work = driver.ask()
    assert work.layout.exchanges == (ExchangeLayout("x", 1, 1),)
    assert only(AddPartitions, driver.added).partitions == (
        *(("output", 0), ("output", 1)),
        *(("exchange.x", 0), ("exchange.x", 2)),
        ("kcontrol.p.steps", 0),
    )


def test_a_step_of_two_stages() -> None:
    driver = Driver()
    boundary = driver.committed(driver.ask())
    assert boundary.exchanges == (FIRST, SECOND)
    assert [piece.records for piece in boundary.inputs] == [1, 0]


def test_what_the_last_stage_sends_is_in_the_boundary_too() -> None:
    spec = replace(STAGED, stages=(0, 1, 2), queries=("x.send", "q", "r"))
    driver = Driver(spec)
    work = driver.ask()
    for number in (0, 1):
        driver.stage(work, number)
        driver.see(told(work.token, number, stage=1))
    driver.last(work, 0, stage=2)
    assert only(CommitStep, driver.last(work, 1, stage=2)).boundary.exchanges == (FIRST, SECOND)


@pytest.mark.parametrize("number", [0, 1])
def test_the_failure_of_an_early_stage_ends_the_attempt(number: int) -> None:
    driver = Driver()
    work = driver.ask()
    driver.stage(work, 1 - number)
    driver.stage(work, number, failure=FailureKind.QUERY, error="no such column")
    assert driver.failure == f"step 1, attempt 1: node {number}: no such column"


def test_a_failure_of_another_attempt_does_not() -> None:
    driver = Driver()
    work = driver.ask()
    other = replace(work.token, attempt=7)
    driver.see(told(other, 0, failure=FailureKind.QUERY))
    assert driver.state.at is State.ATTEMPTING


def test_slices_that_are_not_the_nodes_own_end_it_at_once() -> None:
    driver = Driver()
    work = driver.ask()
    driver.stage(work, 0, sent=(replace(FIRST, partition=2),))
    assert driver.failure == "step 1, attempt 1: node 0 sent to exchange x partition 2, which is not its own"


def test_nothing_is_committed_that_was_not_taken_as_it_was_sent() -> None:
    driver = Driver()
    work = driver.ask()
    for number in (0, 1):
        driver.stage(work, number)
    driver.last(work, 0)
    assert not driver.failure
    driver.see(
        replace(
            told(work.token, 1, stage=1, early=False),
            inputs=_read(work, 1),
            taken=(ExchangeTaken("x", 1, 5),),
        )
    )
    assert driver.failure == "step 1, attempt 1: node 1 took 5 rows of exchange x, but 6 were sent to it"


def test_nothing_is_committed_while_the_report_of_a_stage_is_missing() -> None:
    """Although its author has gone on: somebody else's log may hold it no longer."""
    driver = Driver()
    work = driver.ask()
    driver.stage(work, 0)
    driver.last(work, 0)
    driver.last(work, 1)
    assert driver.failure == "step 1, attempt 1: node 1 has not said what it sent in stage 0"


def test_a_last_stage_that_sends_where_it_should_not() -> None:
    driver = Driver()
    work = driver.ask()
    for number in (0, 1):
        driver.stage(work, number)
    driver.last(work, 0, sent=(FIRST,))
    assert "in stage 1, where it sends nothing there" in driver.failure


def test_who_is_behind_is_named_when_it_takes_too_long() -> None:
    driver = Driver()
    work = driver.ask()
    driver.stage(work, 1)
    for _ in range(29):
        driver.tick(1_000)
        for number in (0, 1):
            driver.say(number, attempt=work.token)
    assert driver.failure == ""
    driver.tick(1_001)
    assert driver.failure == "step 1, attempt 1: node 0 has not written within 30000 ms"


def test_more_runs_than_a_record_takes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert exchange.MOST_RUNS == 5_000
    monkeypatch.setattr("kcontrol.core.coordinator.attempt.MOST_RUNS", 2)
    driver = Driver()
    work = driver.ask()
    for number in (0, 1):
        driver.stage(work, number)
    driver.last(work, 0)
    driver.last(work, 1)
    assert driver.state.trouble.halt.startswith(
        "step 1, attempt 1: what its nodes sent each other lies in 3 runs, and a step's record takes 2: submit"
    )


def test_one_watermark_is_folded_and_makes_one_empty_step() -> None:
    """What nodes say of their own watermarks is not looked at."""
    driver = Driver(SHARED)
    work = driver.ask()
    for number in (0, 1):
        driver.stage(work, number)
    driver.last(work, 0, event_times=(EventTimes("q", 0, (100, 0)),))
    made = only(CommitStep, driver.last(work, 1, event_times=(EventTimes("q", 1, (0, 60)),))).boundary
    assert made.watermarks == (Watermark("q", (90, 60), 60),)
    assert made.watermark_moved
    driver.see_step(made)
    driver.feed(StepCommitted(1, driver.log.now_ms))
    driver.ready()
    for number in (0, 1):
        driver.say(number)
    again = published(Command, driver.feed(PartitionsAdded(driver.log.now_ms)))[0].work
    assert again is not None
    assert again.reason is Reason.WATERMARK
    for number in (0, 1):
        driver.say(number, attempt=again.token)
        driver.stage(again, number, sent=())
    still = {"event_times": (), "watermark_moved": True}
    for number in (0, 1):
        report = told(again.token, number, stage=1, early=False, step=2)
        effects = driver.see(replace(report, inputs=_read(again, number), **still))  # type: ignore[arg-type]
    last = only(CommitStep, effects).boundary
    assert (last.watermarks, last.watermark_moved) == (made.watermarks, False)


def test_event_times_of_what_there_is_not() -> None:
    driver = Driver(SHARED)
    work = driver.ask()
    for number in (0, 1):
        driver.stage(work, number)
    driver.last(work, 0, event_times=(EventTimes("q", 0, (100,)),))
    assert "reports event times of 1 watermarks of query q on node 0, where there are 2" in driver.failure


def _read(work: StepWork, number: int) -> tuple[InputSlice, ...]:
    part = next(part for part in work.division if part.partition == number)
    return (InputSlice("in", "input", "T1", number, part.from_, part.to, part.to - part.from_, "1" * 32),)
