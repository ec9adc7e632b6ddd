"""A node whose step has stages, event by event: what it waits for, what it asks its engine, and what it reports."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kcontrol.core.events import (
    AttemptWritten,
    CancelAttempt,
    EngineFailed,
    EngineOpened,
    FinishStep,
    OpenEngine,
    RunStage,
    RunStep,
    StepFinished,
)
from kcontrol.core.model import (
    CommandKind,
    ExchangeTaken,
    FailureKind,
    InputRange,
    Layout,
    NodeJoin,
    NodePhase,
    NodeState,
    PipelineSpec,
    Reason,
    StepResult,
    StepWork,
    Token,
    Watermark,
    Written,
)
from kcontrol.core.node.table import NodeStage
from tests.unit.core.drive import NodeDriver, only, published
from tests.unit.core.made import boundary
from tests.unit.core.staged import DELIVERED, STAGED, run, sent, told

SENT = sent(0, run(0, 5, 6), run(1, 6, 8, 2))
TAKEN = (ExchangeTaken("x", 0, 3),)


class Driver(NodeDriver):
    """Node 0 of two."""

    def __init__(self, spec: PipelineSpec = STAGED) -> None:
        super().__init__(spec)
        self.other = self.log.end
        self.see(NodeJoin("p", 1, "v", "host", 2))
        self.joined()
        self.command(CommandKind.CREATE)
        self.feed(EngineOpened(0, self.log.now_ms))
        self.attempts = 0
        self.effects: list[Any] = []
        """Of the last step that it was told to make."""

    def begin(self) -> StepWork:
        """It is told to make step 1."""
        self.attempts += 1
        lives = (self.incarnation, self.other)
        token = Token(self.epoch, self.attempts, 7, self.attempts, lives)
        parts = (InputRange("in", "input", "T1", 0, 5, 6), InputRange("in", "input", "T1", 1, 0, 1))
        work = StepWork(1, token, "t", 5_000, Reason.RECORDS, parts, Layout((), 4, ()), ((0,),))
        self.effects = self.command(CommandKind.STEP, 1, work)
        return work

    def wrote(self, stage: int = 0, **fields: Any) -> list[Any]:
        """The engine has."""
        result = replace(StepResult(boundary(1).inputs, (), (), False), **fields)
        return self.feed(AttemptWritten(1, result, self.log.now_ms, stage))


def test_the_next_stage_begins_when_all_reports_were_read_the_own_one_too() -> None:
    driver = Driver()
    work = driver.begin()
    report = only(Written, published(Written, driver.wrote(sent=(SENT,))))
    assert report == told(work.token, 0, SENT)
    assert driver.state.at is NodeStage.AWAITING
    other = sent(2, run(1, 0, 1), run(0, 1, 4, 2))
    assert not driver.see(told(work.token, 1, other))
    assert only(RunStage, driver.see(report)) == RunStage(
        1, 1, (replace(SENT, runs=SENT.runs[:1]), replace(other, runs=other.runs[1:]))
    )
    assert driver.state.at is NodeStage.RECEIVING


def test_the_last_stage_is_reported_with_all_that_the_step_did() -> None:
    driver = Driver()
    work = driver.begin()
    driver.wrote(sent=(SENT,))
    driver.see(told(work.token, 1))
    driver.see(told(work.token, 0, SENT))
    report = only(Written, published(Written, driver.wrote(1, taken=TAKEN)))
    assert (report.stage, report.early, report.sent, report.taken) == (1, False, (), TAKEN)
    assert report.inputs == boundary(1).inputs
    assert report.times is not None
    assert driver.state.at is NodeStage.WRITTEN


def test_three_stages() -> None:
    driver = Driver(DELIVERED)
    work = driver.begin()
    second = sent(0, run(0, 2, 3), exchange="y")
    for stage, piece in ((0, SENT), (1, second)):
        report = only(Written, published(Written, driver.wrote(stage, sent=(piece,))))
        assert (report.stage, report.early, report.sent) == (stage, True, (piece,))
        driver.see(told(work.token, 1, stage=stage))
        asked = only(RunStage, driver.see(report))
    assert asked == RunStage(1, 2, (replace(SENT, runs=SENT.runs[:1]), second))
    assert not only(Written, published(Written, driver.wrote(2))).early


def test_reports_that_come_while_the_own_stage_still_runs_are_enough_afterwards() -> None:
    driver = Driver()
    work = driver.begin()
    assert not driver.see(told(work.token, 1))
    report = only(Written, published(Written, driver.wrote()))
    assert only(RunStage, driver.see(report)).received == ()


def test_a_report_of_another_attempt_is_not_waited_for() -> None:
    driver = Driver()
    work = driver.begin()
    report = only(Written, published(Written, driver.wrote()))
    driver.see(report)
    older = replace(work.token, attempt=0)
    assert not driver.see(told(older, 1))
    assert not driver.see(told(work.token, 1, failure=FailureKind.QUERY))
    assert driver.state.at is NodeStage.AWAITING


def test_while_it_waits_it_says_that_it_runs() -> None:
    driver = Driver()
    work = driver.begin()
    driver.wrote()
    said = only(NodeState, published(NodeState, driver.tick(1_000)))
    assert (said.phase, said.attempt, said.step) == (NodePhase.RUNNING, work.token, 0)


@pytest.mark.parametrize("at", [NodeStage.AWAITING, NodeStage.RECEIVING])
def test_it_is_taken_back_when_it_is_told_to_open(at: NodeStage) -> None:
    driver = _at(Driver(), at)
    effects = driver.command(CommandKind.OPEN, 0)
    assert [type(one) for one in effects if isinstance(one, CancelAttempt | OpenEngine)] == [
        CancelAttempt,
        OpenEngine,
    ]
    if at is NodeStage.RECEIVING:
        driver.feed(EngineFailed(FailureKind.LOST, "cancelled", driver.log.now_ms))
    driver.feed(EngineOpened(0, driver.log.now_ms))
    again = driver.begin()
    assert only(RunStep, driver.effects) == RunStep(again, None)


@pytest.mark.parametrize("at", [NodeStage.AWAITING, NodeStage.RECEIVING])
def test_the_boundary_of_another_attempt_takes_it_back(at: NodeStage) -> None:
    driver = _at(Driver(), at)
    made = boundary(1, token=replace(boundary(1).token, attempt=9), nodes=2)
    assert only(OpenEngine, driver.see_step(made)) == OpenEngine(0, True)


@pytest.mark.parametrize(
    ("at", "stage", "early"),
    [(NodeStage.WRITING, 0, True), (NodeStage.AWAITING, 1, False), (NodeStage.RECEIVING, 1, False)],
)
def test_a_failure_is_reported_as_that_of_the_stage_that_can_not_be(
    at: NodeStage, stage: int, early: bool
) -> None:
    """The report of a stage that was written stands: somebody may have read it."""
    driver = _at(Driver(), at)
    report = only(
        Written, published(Written, driver.feed(EngineFailed(FailureKind.LOST, "gone", driver.log.now_ms)))
    )
    assert (report.stage, report.early, report.failure, report.error) == (
        stage,
        early,
        FailureKind.LOST,
        "gone",
    )
    assert driver.state.at is NodeStage.CLOSED


def test_the_boundarys_watermarks_are_for_the_engine() -> None:
    driver = _at(Driver(), NodeStage.RECEIVING)
    work = driver.state.work
    assert work is not None
    driver.wrote(1)
    marks = (Watermark("q", (5,), 5),)
    made = replace(boundary(1, token=work.token, nodes=2), watermarks=marks)
    assert only(FinishStep, driver.see_step(made)) == FinishStep(1, marks)


def test_a_replay_has_no_stages_and_the_boundarys_watermarks() -> None:
    driver = Driver()
    marks = (Watermark("q", (5,), 5),)
    made = replace(boundary(1, nodes=2), watermarks=marks, exchanges=(SENT,))
    assert only(RunStep, driver.see_step(made)).expected == made
    assert only(FinishStep, driver.wrote()) == FinishStep(1, marks)
    driver.feed(StepFinished(1, (1,), driver.log.now_ms))
    assert driver.state.at is NodeStage.IDLE


def _at(driver: Driver, at: NodeStage) -> Driver:
    work = driver.begin()
    if at is not NodeStage.WRITING:
        report = only(Written, published(Written, driver.wrote()))
        if at is NodeStage.RECEIVING:
            driver.see(report)
            driver.see(told(work.token, 1))
    assert driver.state.at is at
    return driver
