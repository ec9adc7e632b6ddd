"""A node that is told its next step before it has read that the last one is committed: its engine is made ready for it, and
does nothing else before."""

from __future__ import annotations

from dataclasses import replace

from kcontrol.core.events import (
    AttemptWritten,
    CancelAttempt,
    EngineFailed,
    EngineOpened,
    FinishStep,
    MakeReady,
    OpenEngine,
    RunStep,
    StepFinished,
)
from kcontrol.core.model import CommandKind, FailureKind, NodePhase, NodeState, StepWork, Written
from tests.unit.core.drive import NodeDriver, only, published
from tests.unit.core.made import boundary
from tests.unit.core.test_node import RESULT, opened, work_of


def written() -> tuple[NodeDriver, StepWork]:
    """Step 1 is written."""
    driver = NodeDriver()
    driver.joined()
    opened(driver)
    work = work_of(driver, 1, 1)
    driver.command(CommandKind.STEP, 1, work)
    driver.feed(AttemptWritten(1, RESULT, driver.log.now_ms))
    return driver, work


def told() -> tuple[NodeDriver, StepWork, StepWork]:
    """And what comes next is told."""
    driver, work = written()
    following = work_of(driver, 2, 2)
    effects = driver.command(CommandKind.STEP, 2, following)
    assert effects == [MakeReady(following)]
    return driver, work, following


def finished(driver: NodeDriver, work: StepWork) -> list[object]:
    assert driver.see_step(boundary(work.step, token=work.token)) == [FinishStep(work.step)]
    return driver.feed(StepFinished(work.step, (work.step,), driver.log.now_ms))


def test_the_engine_is_made_ready_and_runs_it_once_the_boundary_was_read() -> None:
    driver, work, following = told()
    ready_ms = driver.log.now_ms
    assert driver.tick(after_ms=7) == []
    assert RunStep(following, None) in finished(driver, work)
    driver.tick(after_ms=30)
    (report,) = published(Written, driver.feed(AttemptWritten(2, RESULT, driver.log.now_ms)))
    assert report.times is not None
    assert (report.times.begun_ms, report.times.written_ms) == (ready_ms, ready_ms + 37)


def test_it_is_made_ready_once() -> None:
    driver, _, following = told()
    assert driver.tick() == []
    assert driver.command(CommandKind.STEP, 2, following) == []


def test_nothing_is_made_ready_for_another_step_than_the_next() -> None:
    driver, _ = written()
    assert driver.command(CommandKind.STEP, 3, work_of(driver, 3, 3)) == []


def test_if_other_work_is_asked_for_the_engine_is_opened_before() -> None:
    driver, work, following = told()
    other = replace(following, token=replace(following.token, attempt=7))
    assert driver.command(CommandKind.STEP, 2, other) == []
    effects = finished(driver, work)
    assert only(OpenEngine, effects).step == 1
    assert not [each for each in effects if isinstance(each, RunStep)]
    assert RunStep(other, None) in driver.feed(EngineOpened(1, driver.log.now_ms))


def test_what_opens_the_engine_takes_it_back() -> None:
    driver, _, _ = told()
    effects = driver.command(CommandKind.OPEN, 0)
    assert [type(each) for each in effects[:2]] == [CancelAttempt, OpenEngine]
    driver.feed(EngineOpened(0, driver.log.now_ms))
    again = work_of(driver, 1, 3)
    assert RunStep(again, None) in driver.command(CommandKind.STEP, 1, again)


def test_an_engine_that_fails_over_it_is_opened_as_ever() -> None:
    driver, work, _ = told()
    effects = driver.feed(EngineFailed(FailureKind.LOST, "its workers died", driver.log.now_ms, ()))
    assert published(NodeState, effects)[0].phase is NodePhase.CLOSED
    assert driver.see_step(boundary(1, token=work.token)) == []
    driver.command(CommandKind.OPEN, 0)
    effects = driver.feed(EngineOpened(0, driver.log.now_ms))
    assert only(RunStep, effects).work.step == 1


def test_what_another_attempt_has_made_of_it_is_run_again_by_an_engine_that_was_opened_before() -> None:
    driver, work, following = told()
    finished_by_other = replace(following.token, attempt=9)
    driver.see_step(boundary(1, token=work.token))
    driver.see_step(boundary(2, (6, 1), (7, 2), token=finished_by_other))
    effects = driver.feed(StepFinished(1, (1,), driver.log.now_ms))
    assert only(OpenEngine, effects).step == 1
    replayed = only(RunStep, driver.feed(EngineOpened(1, driver.log.now_ms)))
    assert (replayed.work.step, replayed.work.token) == (2, finished_by_other)
