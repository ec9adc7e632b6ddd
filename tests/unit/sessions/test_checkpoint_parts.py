"""Saving beside the steps: answered once, ended before the next pin, and never the end of a node."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from kcontrol.core.events import FinishStep, NodeEvent, PartSaved, PinStep, SavePart, StepFinished, StepPinned
from kcontrol.core.model import Checkpoint, LimitsSpec, SavedFiles, Watermark
from kcontrol.core.retry import DEFAULT_LIMITS
from kcontrol.errors import ConfigurationError
from kcontrol.sessions.engine_jobs import EngineJobs
from tests.support.patience import HANG_S
from tests.unit.core.made import checkpoint
from tests.unit.sessions.engines import Clock, ScriptedEngine

FILES = SavedFiles("m", 1, 2)


class SavingEngine(ScriptedEngine):
    """Saves when it is let go, and says in which order things happened."""

    def __init__(self, fail: BaseException | None = None) -> None:
        super().__init__(fail)
        self.answers = asyncio.Event()
        self.answers.set()
        """Where it is saved, something does."""
        self.dropped = asyncio.Event()
        self.finished = asyncio.Event()

    async def finish_step(self, step: int, watermarks: Sequence[Watermark] = ()) -> None:
        self.finished.set()

    async def pin(self, step: int) -> None:
        self.calls.append(f"pin {step}")
        if self.fail is not None:
            raise self.fail

    async def save(self, step: int, claim_epoch: int, location: str) -> SavedFiles:
        self.calls.append(f"save {step} {claim_epoch} {location}")
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            await self.answers.wait()
            self.calls.append(f"ended {step}")
            raise
        if self.fail is not None:
            raise self.fail
        return FILES

    async def drop_parts(self, kept: Sequence[Checkpoint]) -> None:
        self.calls.append(f"drop all but {[one.step for one in kept]}")
        self.dropped.set()
        if self.fail is not None:
            raise self.fail


Scenario = Callable[[EngineJobs, SavingEngine], Awaitable[None]]


def play(
    scenario: Scenario,
    answers: int,
    fail: BaseException | None = None,
    limits: LimitsSpec = DEFAULT_LIMITS,
) -> tuple[list[NodeEvent], list[str]]:
    """The events, and the calls, until so many answers have come and the scenario is over."""

    async def run() -> tuple[list[NodeEvent], list[str]]:
        events: list[NodeEvent] = []
        engine = SavingEngine(fail)
        enough = asyncio.Event()

        def dispatch(event: NodeEvent) -> None:
            events.append(event)
            if len(events) == answers:
                enough.set()

        jobs = EngineJobs(engine, Clock(), dispatch, logging.getLogger("test"), limits)
        running = asyncio.create_task(jobs.run())
        await scenario(jobs, engine)
        if answers:
            await enough.wait()
        running.cancel()
        await jobs.parts.close()
        return events, engine.calls

    return asyncio.run(asyncio.wait_for(run(), HANG_S))


def test_a_part_is_saved_beside_the_line_of_work() -> None:
    async def scenario(jobs: EngineJobs, engine: SavingEngine) -> None:
        jobs.parts.save(SavePart(3, 5, 7, "file:///c"))
        jobs.put(FinishStep(4))
        await engine.finished.wait()
        engine.go.set()

    assert play(scenario, 2)[0] == [StepFinished(4, (3, 2), 7), PartSaved(5, 7, FILES, "", 7)]


def test_what_fails_is_an_answer_too() -> None:
    async def scenario(jobs: EngineJobs, engine: SavingEngine) -> None:
        jobs.parts.save(SavePart(3, 5, 7, "file:///c"))
        engine.go.set()

    assert play(scenario, 1, ConfigurationError("no such bucket"))[0] == [
        PartSaved(5, 7, None, "no such bucket", 7)
    ]
    assert play(scenario, 1, OSError())[0] == [PartSaved(5, 7, None, "OSError", 7)]


def test_a_pin_that_fails_is_not_the_failure_of_the_engine() -> None:
    async def scenario(jobs: EngineJobs, engine: SavingEngine) -> None:
        jobs.put(PinStep(3))

    assert play(scenario, 1, OSError("disk full"))[0] == [StepPinned(3, "disk full", 7)]


def test_saving_has_ended_before_the_next_pin_and_is_not_answered() -> None:
    async def scenario(jobs: EngineJobs, engine: SavingEngine) -> None:
        jobs.parts.save(SavePart(3, 5, 7, "file:///c"))
        await asyncio.sleep(0)
        jobs.put(PinStep(4))

    events, calls = play(scenario, 1)
    assert events == [StepPinned(4, "", 7)]
    assert calls == ["save 3 5 file:///c", "ended 3", "pin 4"]


def test_saving_that_does_not_end_costs_checkpoints_and_not_the_node() -> None:
    """Where the files go, a disk or a server hangs: Spark does not, and goes on."""

    async def scenario(jobs: EngineJobs, engine: SavingEngine) -> None:
        engine.answers.clear()
        jobs.parts.save(SavePart(3, 5, 7, "file:///c"))
        await asyncio.sleep(0)
        for step in (4, 5):
            jobs.put(PinStep(step))
            jobs.put(FinishStep(step + 1))
            await engine.finished.wait()
            engine.finished.clear()
        engine.answers.set()
        jobs.put(PinStep(6))

    events, calls = play(scenario, 5, limits=replace(DEFAULT_LIMITS, pin_timeout_ms=2))
    why = "what was being saved before was given up, and has not ended within 0.001 s: the place of checkpoints does not answer"
    assert events == [
        *(StepPinned(4, why, 7), StepFinished(5, (3, 2), 7)),
        *(StepPinned(5, why, 7), StepFinished(6, (3, 2), 7)),
        StepPinned(6, "", 7),
    ]
    assert calls == ["save 3 5 file:///c", "ended 3", "pin 6"]


def test_a_node_that_ends_saves_no_longer() -> None:
    async def scenario(jobs: EngineJobs, engine: SavingEngine) -> None:
        jobs.parts.save(SavePart(3, 5, 7, "file:///c"))
        await asyncio.sleep(0)

    assert play(scenario, 0) == ([], ["save 3 5 file:///c", "ended 3"])


def test_deleting_is_not_answered_and_may_fail() -> None:
    async def scenario(jobs: EngineJobs, engine: SavingEngine) -> None:
        jobs.parts.drop([checkpoint(4, 1), checkpoint(8, 1)])
        await engine.dropped.wait()

    for fail in (None, OSError("away")):
        assert play(scenario, 0, fail) == ([], ["drop all but [4, 8]"])
