"""Carries out the node's engine effects: one call at a time, in order, each answered by exactly one event.

A cancel overtakes everything: it reaches the running attempt at once and voids the attempts that still wait
in line, so that nothing that was asked before the cancel can write after it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kcontrol.core.events import (
    AttemptWritten,
    CloseEngine,
    EngineClosed,
    EngineFailed,
    EngineOpened,
    FinishStep,
    NodeEvent,
    OpenEngine,
    PinStep,
    RunStage,
    RunStep,
    StepFinished,
    StepPinned,
)
from kcontrol.core.failures import kind_of
from kcontrol.core.model import FailureKind, LimitsSpec, StepWork
from kcontrol.core.retry import DEFAULT_LIMITS
from kcontrol.errors import HungError, KcontrolError
from kcontrol.sessions.checkpoint_parts import CheckpointParts
from kcontrol.sessions.health import Health
from kcontrol.sessions.ports import Clock, Engine

GRACE_MS = 5_000
"""What a call may take beyond the time that the engine gives itself."""

EngineEffect = OpenEngine | RunStep | RunStage | FinishStep | PinStep | CloseEngine


def time_limit(effect: EngineEffect, limits: LimitsSpec) -> tuple[str, int]:
    """What is asked, for people, and in how many milliseconds it must be answered. Whatever comes next waits
    for Spark's record of the step before, for a step's time at most."""
    match effect:
        case OpenEngine(step, _, checkpoint):
            restoring_ms = 0 if checkpoint is None else limits.save_timeout_ms
            return f"opening step {step}", limits.open_timeout_ms + restoring_ms + GRACE_MS
        case RunStep(work, expected):
            what = "running" if expected is None else "replaying"
            running_ms = limits.step_timeout_ms if expected is None else limits.replay_timeout_ms
            return f"{what} step {work.step}", running_ms + limits.step_timeout_ms + GRACE_MS
        case RunStage(step, stage):
            return f"running stage {stage} of step {step}", limits.step_timeout_ms + GRACE_MS
        case FinishStep(step):
            return f"finishing step {step}", limits.step_timeout_ms + GRACE_MS
        case PinStep(step):
            return f"pinning step {step}", limits.pin_timeout_ms + limits.step_timeout_ms + GRACE_MS
        case CloseEngine():
            return "closing", limits.open_timeout_ms + GRACE_MS


class EngineJobs:
    """The line of work before one engine. `run` is to be kept running as a task of the session."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        dispatch: Callable[[NodeEvent], None],
        log: logging.Logger,
        limits: LimitsSpec = DEFAULT_LIMITS,
        health: Health | None = None,
    ) -> None:
        """health: told what the engine does, so that threads may judge it."""
        self.hung = False
        """The engine has not answered in time: it must not be waited for again."""
        self._limits = limits
        self._health = health or Health()
        self.parts = CheckpointParts(engine, clock, dispatch, log)
        self._engine = engine
        self._clock = clock
        self._dispatch = dispatch
        self._log = log
        self._waiting: asyncio.Queue[tuple[int, EngineEffect]] = asyncio.Queue()
        self._cancels = 0
        self._busy = False

    def put(self, effect: EngineEffect) -> None:
        """Carry out `effect` after all that were put before."""
        if isinstance(effect, OpenEngine | CloseEngine):
            self.cancel()
        self._waiting.put_nowait((self._cancels, effect))

    def make_ready(self, work: StepWork) -> None:
        """What can be done for a step before it is asked for, beside what is; an engine that can do nothing does nothing."""
        self._engine.make_ready(work)

    def cancel(self) -> None:
        """End the running attempt and every attempt in line."""
        self._cancels += 1
        self._engine.cancel()

    def failed_while_idle(self, error: BaseException) -> None:
        """The engine died with no call under way; during a call, that call says so itself."""
        if not self._busy and self._waiting.empty():
            self._dispatch(self._failure(error))

    async def run(self) -> None:
        """Work until cancelled. Raises HungError when the engine does not answer in
        time: it can't be used any more."""
        while True:
            cancels, effect = await self._waiting.get()
            self._busy = True
            try:
                event = await self._in_time(
                    effect, voided=isinstance(effect, RunStep | RunStage) and cancels != self._cancels
                )
            finally:
                self._busy = False
            self._dispatch(event)

    async def _in_time(self, effect: EngineEffect, voided: bool) -> NodeEvent:
        what, limit_ms = time_limit(effect, self._limits)
        with self._health.at_work(what, limit_ms + GRACE_MS):
            try:
                async with asyncio.timeout(limit_ms / 1000) as deadline:
                    return await self._carry_out(effect, voided)
            except TimeoutError as error:
                if not deadline.expired():
                    raise
                self.hung = True
                raise HungError(
                    f"Spark has not answered for {limit_ms} ms, {what}: its JVM, or a process of its, "
                    "hangs. This incarnation of the node ends; start the node again, unless a supervisor "
                    "does"
                ) from error

    async def _carry_out(self, effect: EngineEffect, voided: bool) -> NodeEvent:
        if voided:
            return EngineFailed(FailureKind.LOST, "cancelled before it began", self._now_ms())
        try:
            return await self._call(effect)
        except Exception as error:  # noqa: BLE001 - whatever Spark raises is an event for the state machine, which counts it
            failure = self._failure(error)
            # The queries run on without a pin; if they don't, the next call says so.
            return (
                StepPinned(effect.step, failure.error, failure.now_ms)
                if isinstance(effect, PinStep)
                else failure
            )

    async def _call(self, effect: EngineEffect) -> NodeEvent:
        match effect:
            case OpenEngine(step, create, checkpoint):
                await self._engine.open(step, create, checkpoint)
                return EngineOpened(step, self._now_ms())
            case RunStep(work, expected):
                result = await self._engine.run_step(work, expected)
                return AttemptWritten(work.step, result, self._now_ms())
            case RunStage(step, stage, received):
                result = await self._engine.run_stage(step, stage, received)
                return AttemptWritten(step, result, self._now_ms(), stage)
            case FinishStep(step, watermarks):
                await self._engine.finish_step(step, watermarks)
                return StepFinished(step, self._engine.openable(), self._now_ms())
            case PinStep(step):
                # Half of what the coordinator waits for: it is to hear why.
                await self.parts.end_saving(self._limits.pin_timeout_ms / 2_000)
                await self._engine.pin(step)
                return StepPinned(step, "", self._now_ms())
            case CloseEngine():
                await self._engine.close()
                return EngineClosed(self._now_ms())

    def _failure(self, error: BaseException) -> EngineFailed:
        kind = kind_of(error)
        foreseen = isinstance(error, KcontrolError)
        self._log.warning(
            "engine: %s: %s", kind.value, error or type(error).__name__, exc_info=None if foreseen else error
        )
        return EngineFailed(kind, str(error) or type(error).__name__, self._now_ms(), self._openable())

    def _openable(self) -> tuple[int, ...] | None:
        try:
            return self._engine.openable()
        except OSError as error:  # The disk may be why the engine failed.
            self._log.warning("the working directory can't be listed: %s", error)
            return None

    def _now_ms(self) -> int:
        return self._clock.monotonic_ms()
