"""A coordinator and two nodes on a Kafka in memory, with engines that only remember: checkpoints from end to
end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import pytest

from kcontrol.core.coordinator.decide import CoordinatorState
from kcontrol.core.events import Exit
from kcontrol.core.model import (
    Checkpoint,
    CheckpointAnswer,
    CheckpointRequest,
    CheckpointSpec,
    Desired,
    DesiredMode,
    ExchangeSlice,
    InputSlice,
    InputSpec,
    LimitsSpec,
    LoggedStep,
    PipelineSpec,
    SavedFiles,
    Status,
    StepBoundary,
    StepResult,
    StepWork,
    Tombstone,
    Watermark,
)
from kcontrol.errors import RetriableError, SparkLostError
from kcontrol.sessions.coordinator import CoordinatorPorts, CoordinatorSession
from kcontrol.sessions.node import NodePorts, NodeSession
from kcontrol.sessions.ports import Arrivals
from kcontrol.sessions.restorable import limit
from tests.fakes.memory_kafka import STEPS, MemoryControlLog, MemoryKafka, MemoryStepsLog, MemoryTransaction
from tests.support.patience import HANG_MS, HANG_S
from tests.unit.core.made import SPEC

DEADLINE_S = HANG_S
TWO = replace(
    SPEC,
    nodes=2,
    # Nobody is taken for dead because the machine stood still.
    limits=replace(
        SPEC.limits,
        **{"heartbeat_timeout_ms": HANG_MS, "open_timeout_ms": HANG_MS},
        **{"step_timeout_ms": HANG_MS, "replay_timeout_ms": HANG_MS},
    ),
    inputs=(replace(SPEC.inputs[0], node_of=(0, 1)),),
    policy=replace(SPEC.policy, clock_ms=20),
    checkpoint=CheckpointSpec("memory:", 100, 2, 0),
)


class WallClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class NoInput:
    """A watcher that never sees anything: steps come by the clock."""

    async def arrivals(self) -> Arrivals:
        await asyncio.Event().wait()
        yield (), 0

    async def close(self) -> None: ...


class RememberingEngine:
    """Knows which steps it has; what it saves is in `store`, by manifest: the step."""

    def __init__(self, node: int, incarnation: int, steps: set[int], store: dict[str, int]) -> None:
        self.node = node
        self.incarnation = incarnation
        self.steps = steps
        self.store = store
        self.at = 0
        self.pinned = 0
        self.opened: list[tuple[int, bool]] = []
        """(step, whether from a checkpoint)"""

    def openable(self) -> tuple[int, ...]:
        return tuple(sorted(self.steps, reverse=True)[:3])

    async def restorable(self, checkpoints: Sequence[Checkpoint]) -> tuple[int, ...]:
        return tuple(one.step for one in checkpoints if one.parts[self.node].manifest in self.store)

    async def open(self, step: int, create: bool, checkpoint: Checkpoint | None = None) -> None:
        from_checkpoint = not create and step not in self.steps
        if from_checkpoint:
            assert checkpoint is not None
            assert self.store[checkpoint.parts[self.node].manifest] == step
        self.opened.append((step, from_checkpoint))
        self.steps.clear()
        self.steps.update({step} - {0})
        self.at = step

    async def run_step(self, work: StepWork, expected: StepBoundary | None) -> StepResult:
        assert work.step == self.at + 1
        return StepResult((), (), (), False)

    def make_ready(self, work: StepWork) -> None: ...

    async def run_stage(self, step: int, stage: int, received: Sequence[ExchangeSlice]) -> StepResult:
        raise AssertionError("there is one stage")

    async def finish_step(self, step: int, watermarks: Sequence[Watermark] = ()) -> None:
        self.steps.add(step)
        self.at = step

    async def pin(self, step: int) -> None:
        assert step == self.at
        self.pinned = step

    async def save(self, step: int, claim_epoch: int, location: str) -> SavedFiles:
        manifest = f"{location}{self.node}/{step}/{self.incarnation}/{claim_epoch}"
        self.store[manifest] = self.pinned
        return SavedFiles(manifest, 1, 1)

    async def drop_parts(self, kept: Sequence[Checkpoint]) -> None:
        named = {one.parts[self.node].manifest for one in kept}
        for manifest, step in list(self.store.items()):
            if f"memory:{self.node}/" in manifest and step <= kept[-1].step and manifest not in named:
                del self.store[manifest]

    def cancel(self) -> None: ...

    async def close(self) -> None: ...


class Cluster:
    """The logs, the store of checkpoints, and the processes."""

    def __init__(self) -> None:
        self.kafka = MemoryKafka()
        self.store: dict[str, int] = {}
        self.engines: list[RememberingEngine] = []
        self.tasks: list[asyncio.Task[object]] = []
        self.log: list[LoggedStep] = []

    async def begin(self, spec: PipelineSpec = TWO) -> None:
        await MemoryControlLog(self.kafka, "p").append([spec, Desired("p", DesiredMode.RUNNING, "r0")])
        self.coordinator()
        self.spawn(self._follow())

    def coordinator(self) -> asyncio.Task[object]:
        """One more, which takes over."""
        state = CoordinatorState.initial("p", transactional_id="t", steps_topic=f"p.{STEPS}")
        control, steps = MemoryControlLog(self.kafka, "p"), MemoryStepsLog(self.kafka, "p")
        session = CoordinatorSession(
            state, CoordinatorPorts(WallClock(), control, steps, MemoryTransaction(self.kafka, "p"))
        )
        self.spawn(self._push(session))
        return self.spawn(session.run())

    async def _push(self, session: CoordinatorSession) -> None:
        async for chunk in MemoryControlLog(self.kafka, "p").tail():
            for logged in chunk:
                session.push(logged.offset, logged)

    async def _follow(self) -> None:
        async for chunk in MemoryStepsLog(self.kafka, "p").tail():
            self.log += chunk

    def spawn(self, work: object) -> asyncio.Task[object]:
        task = asyncio.ensure_future(work)  # type: ignore[call-overload]
        self.tasks.append(task)
        return task  # type: ignore[no-any-return]

    def node(
        self, number: int, steps: set[int], kind: type[RememberingEngine] = RememberingEngine
    ) -> tuple[asyncio.Task[object], Callable[[], RememberingEngine]]:
        """A new incarnation of a node, on a disk that holds `steps`."""
        made: list[RememberingEngine] = []

        def engine(
            _spec: PipelineSpec, incarnation: int, _on_failure: Callable[[BaseException], None]
        ) -> RememberingEngine:
            made.append(kind(number, incarnation, steps, self.store))
            return made[0]

        def watch(
            _input: InputSpec,
            _from: Mapping[int, int],
            _takes: Callable[[int], bool],
            _read: Mapping[int, InputSlice],
        ) -> NoInput:
            return NoInput()

        control, log = MemoryControlLog(self.kafka, "p"), MemoryStepsLog(self.kafka, "p")
        task = self.spawn(NodeSession("p", number, NodePorts(WallClock(), control, log, engine, watch)).run())
        return task, lambda: made[0]

    def checkpoints(self) -> list[Checkpoint]:
        return [one.record for one in self.log if isinstance(one.record, Checkpoint)]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Look again whenever the log of steps may have grown."""
        while not holds():
            for task in self.tasks:
                if task.done() and not task.cancelled() and task.exception() is not None:
                    raise AssertionError("a process has died") from task.exception()
            await asyncio.sleep(0.005)

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


def play(scenario: Callable[[Cluster], object]) -> None:
    async def run() -> None:
        cluster = Cluster()
        try:
            await scenario(cluster)  # type: ignore[misc]
        finally:
            await cluster.end()

    asyncio.run(asyncio.wait_for(run(), DEADLINE_S))


async def killed(task: asyncio.Task[object]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def test_checkpoints_are_made_and_old_ones_go_with_their_steps_and_files() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.begin()
        cluster.node(0, set())
        cluster.node(1, set())
        await cluster.until(lambda: len(cluster.checkpoints()) >= 4)
        made = cluster.checkpoints()
        assert [one.node for one in made[0].parts] == [0, 1]
        boundaries = {one.offset: one.record for one in cluster.log if isinstance(one.record, StepBoundary)}
        assert [boundaries[one.boundary_offset].step for one in made] == [one.step for one in made]
        gone = [one.record.key for one in cluster.log if isinstance(one.record, Tombstone)]
        assert {f"checkpoint/{made[0].step}", "step/1"} <= set(gone)
        await cluster.until(lambda: made[0].parts[0].manifest not in cluster.store)

    play(scenario)


def test_a_node_whose_disk_was_wiped_comes_back_from_a_checkpoint() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.begin()
        cluster.node(0, set())
        task, _ = cluster.node(1, set())
        await cluster.until(lambda: len(cluster.checkpoints()) >= 2)
        await killed(task)
        before = len(cluster.checkpoints())
        _, engine = cluster.node(1, set())
        await cluster.until(lambda: len(cluster.checkpoints()) >= before + 2)
        step, from_checkpoint = engine().opened[0]
        assert from_checkpoint
        assert step in [one.step for one in cluster.checkpoints()]
        assert cluster.checkpoints()[-1].parts[1].incarnation == engine().incarnation

    play(scenario)


class UnclosableEngine(RememberingEngine):
    """Its Spark has gone."""

    async def close(self) -> None:
        raise SparkLostError("the JVM has ended")


def test_a_node_ends_as_it_was_told_although_its_engine_can_not_be_closed() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.begin()
        cluster.node(0, set())
        replaced, _ = cluster.node(1, set(), UnclosableEngine)
        await cluster.until(lambda: len(cluster.checkpoints()) >= 1)
        cluster.node(1, set())
        ended = await replaced
        assert isinstance(ended, Exit)
        assert ended.replaced

    play(scenario)


def test_a_new_coordinator_begins_at_a_checkpoint_and_knows_what_the_one_before_knew() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.begin()
        cluster.node(0, set())
        cluster.node(1, set())
        await cluster.until(lambda: len(cluster.checkpoints()) >= 3)
        before = cluster.checkpoints()
        cluster.coordinator()
        await cluster.until(lambda: len(cluster.checkpoints()) >= len(before) + 3)
        made = cluster.checkpoints()
        assert made[-1].claim_epoch > before[-1].claim_epoch
        gone = [one.record.key for one in cluster.log if isinstance(one.record, Tombstone)]
        assert [f"checkpoint/{one.step}" for one in made[:-2]] == [
            key for key in gone if key.startswith("checkpoint/")
        ]
        dropped = [int(key.removeprefix("step/")) for key in gone if key.startswith("step/")]
        assert dropped == list(range(1, made[-1].first_step)), "each once, in order, by whichever coordinator"

    play(scenario)


def test_a_node_that_can_open_no_checkpoint_reads_the_whole_log() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.begin(replace(TWO, checkpoint=CheckpointSpec("memory:", 100, 2, -1)))
        cluster.node(0, set())
        task, _ = cluster.node(1, set())
        await cluster.until(lambda: len(cluster.checkpoints()) >= 4)
        await killed(task)
        for manifest in [one for one in cluster.store if one.startswith("memory:1/")]:
            del cluster.store[manifest]
        before = len(cluster.checkpoints())
        _, engine = cluster.node(1, set())
        await cluster.until(lambda: len(cluster.checkpoints()) >= before + 2)
        assert engine().opened[0] == (0, False)

    play(scenario)


def test_a_request_is_answered_with_the_step_that_is_saved() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.begin(replace(TWO, checkpoint=CheckpointSpec("memory:", 3_600_000, 2, -1)))
        cluster.node(0, set())
        cluster.node(1, set())
        await cluster.until(lambda: len(cluster.log) >= 3)
        control = MemoryControlLog(cluster.kafka, "p")
        await control.append([CheckpointRequest("p", "now")])
        async for chunk in control.tail():
            answers = [
                answer for one in chunk if isinstance(one.record, Status) for answer in one.record.answers
            ]
            if answers:
                break
        await cluster.until(lambda: bool(cluster.checkpoints()))
        assert answers[0] == CheckpointAnswer("now", cluster.checkpoints()[0].step, "")
        assert answers[0].step >= 3

    play(scenario)


class Unreadable(RememberingEngine):
    async def restorable(self, checkpoints: Sequence[Checkpoint]) -> tuple[int, ...]:
        raise RetriableError("the store is away")


class Silent(RememberingEngine):
    async def restorable(self, checkpoints: Sequence[Checkpoint]) -> tuple[int, ...]:
        await asyncio.Event().wait()
        raise AssertionError("nothing ever comes of it")


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (Unreadable, "the store is away"),
        (Silent, r"has not answered for 90 ms \(save_timeout\), looking which checkpoints can be opened"),
    ],
)
@pytest.mark.parametrize("wiped", [False, True])
def test_a_node_needs_the_store_only_if_it_needs_a_checkpoint(
    wiped: bool, kind: type[RememberingEngine], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def briefly(limits: LimitsSpec, needed: bool) -> tuple[str, int]:
        setting, most_ms = limit(limits, needed)
        return setting, most_ms // 1_000

    monkeypatch.setattr("kcontrol.sessions.restorable.limit", briefly)

    async def scenario(cluster: Cluster) -> None:
        await cluster.begin()
        cluster.node(0, set())
        disk: set[int] = set()
        task, _ = cluster.node(1, disk)
        await cluster.until(lambda: len(cluster.checkpoints()) >= 2)
        await killed(task)
        before = len(cluster.log)
        task, _ = cluster.node(1, set() if wiped else disk, kind)
        if not wiped:
            await cluster.until(lambda: len(cluster.log) >= before + 3)
            return
        with pytest.raises(ExceptionGroup) as error:
            await task
        cluster.tasks.remove(task)
        assert error.group_contains(RetriableError, match=why)

    play(scenario)
