"""An engine and a clock that do what a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kcontrol.core.model import (
    Checkpoint,
    ExchangeSlice,
    FailureKind,
    SavedFiles,
    StepBoundary,
    StepResult,
    StepWork,
    Watermark,
)
from kcontrol.errors import StepFailedError

RESULT = StepResult((), (), (), False)


class ScriptedEngine:
    """Writes down what it is asked; `run_step` and `run_stage` wait until it is let go or cancelled."""

    def __init__(self, fail: BaseException | None = None) -> None:
        self.calls: list[str] = []
        self.fail = fail
        self.go = asyncio.Event()
        self.cancelled = False
        self.watermarks: tuple[Watermark, ...] = ()

    def openable(self) -> tuple[int, ...]:
        return (3, 2)

    async def open(self, step: int, create: bool, checkpoint: Checkpoint | None = None) -> None:
        self.calls.append(f"open {step} {create}")
        self.cancelled = False

    async def run_step(self, work: StepWork, expected: StepBoundary | None) -> StepResult:
        self.calls.append(f"run {work.step}")
        await self.go.wait()
        if self.fail is not None:
            raise self.fail
        if self.cancelled:
            raise StepFailedError(FailureKind.LOST, "cancelled")
        return RESULT

    def make_ready(self, work: StepWork) -> None:
        self.calls.append(f"ready for {work.step}")

    async def run_stage(self, step: int, stage: int, received: Sequence[ExchangeSlice]) -> StepResult:
        self.calls.append(f"stage {stage} of {step}: {sum(len(piece.runs) for piece in received)} runs")
        await self.go.wait()
        if self.fail is not None:
            raise self.fail
        return RESULT

    async def finish_step(self, step: int, watermarks: Sequence[Watermark] = ()) -> None:
        self.calls.append(f"finish {step}")
        self.watermarks = tuple(watermarks)

    async def restorable(self, checkpoints: Sequence[Checkpoint]) -> tuple[int, ...]:
        return tuple(one.step for one in checkpoints)

    async def pin(self, step: int) -> None:
        self.calls.append(f"pin {step}")

    async def save(self, step: int, claim_epoch: int, location: str) -> SavedFiles:
        return SavedFiles("", 0, 0)

    async def drop_parts(self, kept: Sequence[Checkpoint]) -> None: ...

    def cancel(self) -> None:
        self.cancelled = True
        self.go.set()

    async def close(self) -> None:
        self.calls.append("close")


class Clock:
    def now_ms(self) -> int:
        return 7

    def monotonic_ms(self) -> int:
        return 7
