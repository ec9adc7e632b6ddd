"""Engine calls go one at a time and in order, each is answered once, and a cancel overtakes them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from kcontrol.core.events import (
    AttemptWritten,
    CloseEngine,
    EngineClosed,
    EngineFailed,
    EngineOpened,
    FinishStep,
    NodeEvent,
    OpenEngine,
    RunStage,
    RunStep,
    StepFinished,
)
from kcontrol.core.model import FailureKind, Layout, Reason, StepWork, Token, Watermark
from kcontrol.errors import (
    CheckpointError,
    ConfigurationError,
    FencedError,
    InputGoneError,
    RetriableError,
    StepFailedError,
)
from kcontrol.sessions.engine_jobs import GRACE_MS, EngineJobs, time_limit
from tests.support.patience import HANG_S
from tests.unit.core.made import LIMITS
from tests.unit.core.staged import run, sent
from tests.unit.sessions.engines import RESULT, Clock, ScriptedEngine


def work(step: int) -> StepWork:
    return StepWork(step, Token(1, 1, 1, 1, (1,)), "id", 1, Reason.RECORDS, (), Layout((), 1, ()), ())


Scenario = Callable[[EngineJobs, ScriptedEngine], None]


def play(scenario: Scenario, answers: int, fail: BaseException | None = None) -> list[NodeEvent]:
    """Run jobs until `answers` events have come."""

    async def run() -> list[NodeEvent]:
        events: list[NodeEvent] = []
        engine = ScriptedEngine(fail)
        enough = asyncio.Event()

        def dispatch(event: NodeEvent) -> None:
            events.append(event)
            if len(events) == answers:
                enough.set()

        jobs = EngineJobs(engine, Clock(), dispatch, logging.getLogger("test"))
        running = asyncio.create_task(jobs.run())
        scenario(jobs, engine)
        await asyncio.wait_for(enough.wait(), HANG_S)
        running.cancel()
        return events

    return asyncio.run(run())


def test_calls_are_answered_in_order() -> None:
    def scenario(jobs: EngineJobs, engine: ScriptedEngine) -> None:
        jobs.put(OpenEngine(2, False))
        jobs.put(RunStep(work(3), None))
        jobs.put(FinishStep(3))
        engine.go.set()

    assert play(scenario, 3) == [EngineOpened(2, 7), AttemptWritten(3, RESULT, 7), StepFinished(3, (3, 2), 7)]


def test_a_cancel_voids_attempts_that_wait_in_line() -> None:
    def scenario(jobs: EngineJobs, engine: ScriptedEngine) -> None:
        jobs.put(OpenEngine(2, False))
        jobs.put(RunStep(work(3), None))
        jobs.cancel()
        jobs.put(CloseEngine())

    opened, failed, closed = play(scenario, 3)
    assert opened == EngineOpened(2, 7)
    assert isinstance(failed, EngineFailed)
    assert failed.kind is FailureKind.LOST
    assert closed == EngineClosed(7)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (StepFailedError(FailureKind.QUERY, "x"), FailureKind.QUERY),
        (StepFailedError(FailureKind.DIGEST, "x"), FailureKind.DIGEST),
        (FencedError("x"), FailureKind.FENCED),
        (RetriableError("x"), FailureKind.BROKER),
        (InputGoneError("x"), FailureKind.INPUT_GONE),
        (ConfigurationError("x"), FailureKind.QUERY),
        (CheckpointError("x"), FailureKind.LOST),
        (OSError("x"), FailureKind.LOST),
    ],
)
def test_a_failure_is_an_event_that_says_whose_fault_it_is(error: Exception, kind: FailureKind) -> None:
    def scenario(jobs: EngineJobs, engine: ScriptedEngine) -> None:
        jobs.put(RunStep(work(3), None))
        engine.go.set()

    assert play(scenario, 1, error) == [EngineFailed(kind, "x", 7, openable=(3, 2))]


def test_a_later_stage_is_asked_of_the_engine_and_its_watermarks_with_the_end() -> None:
    marks = (Watermark("q", (5,), 5),)
    asked = []

    def scenario(jobs: EngineJobs, engine: ScriptedEngine) -> None:
        asked.append(engine)
        jobs.put(RunStep(work(3), None))
        jobs.put(RunStage(3, 1, (sent(0, run(0, 5, 6)),)))
        jobs.put(FinishStep(3, marks))
        engine.go.set()

    assert play(scenario, 3) == [
        AttemptWritten(3, RESULT, 7),
        AttemptWritten(3, RESULT, 7, stage=1),
        StepFinished(3, (3, 2), 7),
    ]
    assert asked[0].calls == ["run 3", "stage 1 of 3: 1 runs", "finish 3"]
    assert asked[0].watermarks == marks


def test_a_cancel_voids_a_stage_that_waits_in_line() -> None:
    def scenario(jobs: EngineJobs, engine: ScriptedEngine) -> None:
        jobs.put(RunStage(3, 1, ()))
        jobs.cancel()

    [failed] = play(scenario, 1)
    assert isinstance(failed, EngineFailed)
    assert failed.error == "cancelled before it began"


def test_a_stage_has_a_steps_time() -> None:
    assert time_limit(RunStage(3, 1, ()), LIMITS) == ("running stage 1 of step 3", 30_000 + GRACE_MS)
