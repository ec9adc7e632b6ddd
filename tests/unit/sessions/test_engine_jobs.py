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
    RunStep,
    StepFinished,
)
from kcontrol.core.model import FailureKind, Layout, Reason, StepWork, Token
from kcontrol.errors import (
    CheckpointError,
    ConfigurationError,
    FencedError,
    InputGoneError,
    RetriableError,
    StepFailedError,
)
from kcontrol.sessions.engine_jobs import EngineJobs
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
        await asyncio.wait_for(enough.wait(), 10)
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
