"""The Engine port on the simulated engine: calls that take a while, can be cancelled, hang or fail.

As in Spark's, a call whose caller has gone is still carried out, until it is cancelled or the engine is
closed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from random import Random

from kcontrol.core.events import (
    AttemptWritten,
    CancelAttempt,
    CloseEngine,
    DropParts,
    EngineFailed,
    FinishStep,
    MakeReady,
    NodeEvent,
    OpenEngine,
    PinStep,
    RunStage,
    RunStep,
    SavePart,
    StepPinned,
)
from kcontrol.core.model import (
    Checkpoint,
    ExchangeSlice,
    FailureKind,
    PipelineSpec,
    SavedFiles,
    StepBoundary,
    StepResult,
    StepWork,
    Watermark,
)
from kcontrol.errors import CheckpointError, StepFailedError
from tests.simulation.directory import Directory
from tests.simulation.engine import SimulatedEngine
from tests.simulation.invariants import Violation, require
from tests.simulation.sessions.ledger import Ledger
from tests.simulation.sessions.network import Network
from tests.simulation.specs import shard_sizes
from tests.simulation.world import StoredPart, World

_SLOWEST_SAVE = 12


class SessionsEngine:
    """One life's engine."""

    def __init__(
        self,
        world: World,
        network: Network,
        number: int,
        incarnation: int,
        spec: PipelineSpec,
        directory: Directory,
        random: Random,
        on_failure: Callable[[BaseException], None],
        ledger: Ledger,
    ) -> None:
        self.inner = SimulatedEngine(world, number, incarnation, directory, random)
        self.inner.spec = spec
        self.hangs_until = 0.0
        """No call goes on before this time."""
        self.pause_ms = 4.0
        """How long a small part of a call takes on average."""
        self.opens_after: Callable[[], Awaitable[None]] | None = None
        """As of SparkEngine."""
        self._world = world
        self._network = network
        self._random = random
        self._on_failure = on_failure
        self._ledger = ledger
        self._saving: list[int] = []
        """Steps of which a part is being saved."""
        self._callers: deque[object] = deque()
        self._answers: dict[object, NodeEvent] = {}

    def fail(self, kind: FailureKind) -> None:
        """The queries die, during a call or between two."""
        self.inner.fail(kind)
        answer = self.inner.answers.pop()
        assert isinstance(answer, EngineFailed)
        if self._callers:
            self._answers[self._callers.popleft()] = answer
        else:
            self._on_failure(StepFailedError(answer.kind, answer.error))

    # --- the port -------------------------------------------------------------------------------------------

    def openable(self) -> tuple[int, ...]:
        return self.inner._openable()

    async def restorable(self, checkpoints: Sequence[Checkpoint]) -> tuple[int, ...]:
        await self._pause()
        return self._checked(lambda: self.inner.restorable(tuple(checkpoints)))

    async def open(self, step: int, create: bool, checkpoint: Checkpoint | None = None) -> None:
        if self.opens_after is not None:
            await self.opens_after()
            self.opens_after = None
        await self._call(OpenEngine(step, create, checkpoint))

    async def run_step(self, work: StepWork, expected: StepBoundary | None) -> StepResult:
        answer = await self._call(RunStep(work, expected))
        assert isinstance(answer, AttemptWritten)
        return answer.result

    def make_ready(self, work: StepWork) -> None:
        self.inner.ask(MakeReady(work))

    async def run_stage(self, step: int, stage: int, received: Sequence[ExchangeSlice]) -> StepResult:
        answer = await self._call(RunStage(step, stage, tuple(received)))
        assert isinstance(answer, AttemptWritten)
        return answer.result

    async def finish_step(self, step: int, watermarks: Sequence[Watermark] = ()) -> None:
        await self._call(FinishStep(step, tuple(watermarks)))

    async def pin(self, step: int) -> None:
        self._checked(
            lambda: require(
                not self._saving, "a pin replaces one whose saving has ended", (step, self._saving)
            )
        )
        answer = await self._call(PinStep(step))
        if isinstance(answer, StepPinned) and answer.error:
            raise CheckpointError(answer.error)

    async def save(self, step: int, claim_epoch: int, location: str) -> SavedFiles:
        self._saving.append(step)
        try:
            for _ in range(1 + int(self._random.random() * _SLOWEST_SAVE)):
                await self._pause()
        finally:
            self._saving.remove(step)
        if self.inner.trouble is SavePart:
            self.inner.trouble = None
            raise CheckpointError("saving failed")
        name = f"{step}/{self.inner.number}/{self.inner.incarnation}/{claim_epoch}"
        saved = SavedFiles(name, 1, 1, shard_sizes(self.inner.spec))
        self._world.store[saved.manifest] = StoredPart(
            self.inner.number,
            step,
            self.inner.pinned,
            self.inner.spec.layout.shuffle_partitions,
            self.inner.incarnation,
        )
        return saved

    async def drop_parts(self, kept: Sequence[Checkpoint]) -> None:
        await self._pause()
        self._checked(lambda: self.inner._drop(DropParts(tuple(kept))))

    def cancel(self) -> None:
        self.inner.ask(CancelAttempt())

    async def close(self) -> None:
        self.cancel()
        await self._call(CloseEngine())

    # --- how it works ---------------------------------------------------------------------------------------

    async def _call(self, effect: object) -> NodeEvent:
        me = object()
        self._callers.append(me)
        self.inner.ask(effect)
        while me not in self._answers:
            await self._pause()
            if me not in self._answers:
                self._checked(self._advance)
                while self.inner.answers:
                    self._answers[self._callers.popleft()] = self.inner.answers.popleft()
        answer = self._answers.pop(me)
        if isinstance(answer, EngineFailed):
            raise StepFailedError(answer.kind, answer.error)
        return answer

    def _advance(self) -> None:
        doing = self.inner.queue[0] if self.inner.queue else None
        if isinstance(doing, RunStep | RunStage) and not self.inner.cancelled:
            work = doing.work if isinstance(doing, RunStep) else self.inner.ran
            if work is not None:
                self._ledger.work(work)
        self.inner.advance()

    async def _pause(self) -> None:
        if self._network.is_over:
            raise StepFailedError(FailureKind.LOST, "the schedule is over")
        loop = self._network.loop
        await asyncio.sleep(
            max(self._random.random() * self.pause_ms * 2 / 1000, self.hangs_until - loop.time())
        )

    def _checked(self, do: Callable[[], object]) -> object:
        """A violation must end the schedule; the sessions would take it for a failure of Spark's."""
        if self._network.is_over:
            raise StepFailedError(FailureKind.LOST, "the schedule is over")
        try:
            return do()
        except (Violation, AssertionError, LookupError) as error:
            self._network.loop.fail(error)
            raise
