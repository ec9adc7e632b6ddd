"""A coordinator and a node that keeps state, on a Kafka in memory and a disk: whoever is killed, whatever is lost of the disk
and whatever is taken back, the committed output is what the input leads to, numbers too."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from kcontrol.adapters.kafka.write.writer import DigestWriter
from kcontrol.core.log.resets import resets_in
from kcontrol.core.log.steps_view import StepsView, evolve
from kcontrol.core.model import (
    Checkpoint,
    CheckpointSpec,
    InputRange,
    PipelineSpec,
    ReceivedPartition,
    Reset,
    StepBoundary,
    StepResult,
    StepWork,
)
from kcontrol.core.step.resetting import going_back, refused_standing, refused_step, void_checkpoints
from kcontrol.sessions.node import NodePorts, NodeSession
from kcontrol.sessions.ports import Arrivals
from kcontrol.settings.cluster import ClusterSettings
from tests.fakes.memory_kafka import STEPS, Fate, MemoryControlLog, MemoryStepsLog, MemoryTransaction
from tests.support.counting_engine import RETAINED, CountingEngine
from tests.support.dice import seeded
from tests.support.patience import HANG_MS, HANG_S
from tests.support.tallies import counted
from tests.unit.core.made import SPEC
from tests.unit.sessions.test_checkpoints_in_memory import Cluster, WallClock, killed

OUTPUT = "output"
ROWS_PER_STEP = 3


class _Writer(DigestWriter):
    """Writes in the step's transaction, in memory."""

    def __init__(self, cluster: Counting, work: StepWork) -> None:
        super().__init__(work.step, "out", OUTPUT, 2)
        self._cluster, self._work = cluster, work

    def write(self, rows: pa.RecordBatch, partitions: object, digest_rows: object = None) -> None:
        super().write(rows, partitions)  # type: ignore[arg-type]
        token = self._work.token
        values = [(self._work.step, value) for value in rows.column("value").to_pylist()]
        producer = token.producer_id, token.producer_epoch
        self._cluster.kafka.write("p", producer, OUTPUT, 0, values)


class _Engine(CountingEngine):
    def __init__(self, cluster: Counting, spec: PipelineSpec, life: int) -> None:
        super().__init__(ClusterSettings(bootstrap_servers="nowhere:1"), spec, life, cluster.disk, "log")
        self._cluster = cluster

    async def open(self, step: int, create: bool = False, checkpoint: Checkpoint | None = None) -> None:
        if not create and step not in self.openable():
            self._cluster.counts["restored"] += 1
        await super().open(step, create, checkpoint)

    async def run_step(self, work: StepWork, expected: StepBoundary | None) -> StepResult:
        result = await super().run_step(work, expected)
        self._cluster.counts["replayed"] += expected is not None
        return result

    def _read(self, part: InputRange) -> list[bytes]:
        return _rows(part.from_, part.to)

    def _writer(self, work: StepWork, writes: bool) -> DigestWriter:
        return _Writer(self._cluster, work) if writes else super()._writer(work, writes)  # type: ignore[return-value]


class Counting(Cluster):
    """Of one pipeline with one partition of input, whose rows are named after their offsets."""

    def __init__(self, home: Path) -> None:
        super().__init__()
        self.disk = home / "work"
        self.counts: Counter[str] = Counter()
        self.there = 0
        """Rows of the input."""
        self._more = asyncio.Event()
        item = replace(SPEC.inputs[0], start_offsets=(0,), node_of=(0,))
        self.spec = replace(
            SPEC,
            inputs=(item,),
            policy=replace(SPEC.policy, max_delay_ms=10, max_records=ROWS_PER_STEP),
            # Nothing hangs here, and nobody is silent: on a machine that is busy a call takes as long as it takes.
            limits=replace(
                SPEC.limits,
                **{"heartbeat_timeout_ms": HANG_MS, "open_timeout_ms": HANG_MS},
                **{"step_timeout_ms": HANG_MS, "replay_timeout_ms": HANG_MS},
            ),
            layout=replace(SPEC.layout, shuffle_partitions=2),
            checkpoint=CheckpointSpec(str(home / "checkpoints"), 50, 100, -1),
        )

    def feed(self, rows: int) -> None:
        self.there += rows
        self._more.set()
        self._more = asyncio.Event()

    async def arrivals(self) -> Arrivals:
        while True:
            more = self._more
            yield (ReceivedPartition(0, "T1", 0, self.there),), 0
            await more.wait()

    async def close(self) -> None:
        """As a watcher of input."""

    def counting_node(self) -> asyncio.Task[object]:
        control, log = MemoryControlLog(self.kafka, "p"), MemoryStepsLog(self.kafka, "p")
        engines: Callable[..., _Engine] = lambda spec, life, _: _Engine(self, spec, life)  # noqa: E731
        ports = NodePorts(WallClock(), control, log, engines, lambda *_: self)
        return self.spawn(NodeSession("p", 0, ports).run())

    @property
    def boundaries(self) -> list[StepBoundary]:
        return [one.record for one in self.log if isinstance(one.record, StepBoundary)]

    async def until_all_is_read(self) -> None:
        await self.until(lambda: bool(self.boundaries) and self.boundaries[-1].inputs[0].to == self.there)

    async def take_back(self, chosen: Callable[[Sequence[int]], int]) -> None:
        """What `kcontrol reset` does, to one of the steps that it would not refuse, if there is one."""
        steps = StepsView("p")
        for one in await MemoryStepsLog(self.kafka, "p").read_to_end():
            steps = evolve(steps, one)
        may = [
            step
            for step in range(1, steps.step)
            if not (refused_step(self.spec, steps, step) or refused_standing(self.spec, steps, step))
        ]
        if not may:
            return
        to_step, last = chosen(may), self.boundaries[-1]
        made = steps.made_by(to_step)
        back = next(one for one in self.boundaries if one.step == made)
        transaction = MemoryTransaction(self.kafka, "p")
        producer = await transaction.init_producer(1_000)
        await transaction.add_partitions(*producer, [(f"p.{STEPS}", 0)])
        reset = Reset(to_step, "a wrong rate", "a test", f"reset-{last.step}", ())
        boundary = going_back(last, back, reset, producer, -1, WallClock().now_ms())
        end = len(self.kafka.partition(f"p.{STEPS}").entries)
        await transaction.commit_step(*producer, boundary, end, void_checkpoints(steps, to_step))
        self.counts["made void"] += last.step - to_step
        await self.until(lambda: self.boundaries[-1] == boundary)

    def output(self) -> list[bytes]:
        """Of committed steps that count."""
        void = {step for each in resets_in(self.boundaries) for step in each.steps}
        return [
            entry.value[1]
            for entry in self.kafka.partition(OUTPUT).entries
            if entry.fate is Fate.VISIBLE and entry.value[0] not in void
        ]


def _rows(from_: int, to: int) -> list[bytes]:
    return [f"row {offset}".encode() for offset in range(from_, to)]


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing crashes but what is cancelled."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def test_state_is_what_the_input_leads_to_whoever_is_killed_and_whatever_is_taken_back(
    tmp_path: Path,
) -> None:
    dice = seeded()

    async def story() -> None:
        cluster = Counting(tmp_path)
        try:
            await cluster.begin(cluster.spec)
            leader, node = cluster.tasks[-2], cluster.counting_node()
            cluster.feed(ROWS_PER_STEP * (RETAINED + 10))
            await cluster.until_all_is_read()
            await cluster.until(lambda: bool(cluster.checkpoints()))
            for what in ("kill", "lose", "take over", "reset", "kill", "reset", "lose", "reset", "kill"):
                cluster.feed(dice.randrange(20))
                await asyncio.sleep(dice.random() / 20)
                if what == "take over":
                    leader = cluster.coordinator()
                    continue
                await killed(node)
                if what == "reset":
                    await killed(leader)
                    await cluster.take_back(dice.choice)
                    leader = cluster.coordinator()
                if what == "lose" or dice.random() < 0.2:
                    shutil.rmtree(cluster.disk)
                node = cluster.counting_node()
                if dice.random() < 0.5:
                    await cluster.until_all_is_read()
            cluster.feed(1)
            await cluster.until_all_is_read()
            assert cluster.output() == counted("p", _rows(0, cluster.there))[0]
            assert cluster.counts["restored"], cluster.counts
            assert cluster.counts["made void"], cluster.counts
        finally:
            await cluster.end()

    asyncio.run(asyncio.wait_for(story(), 2 * HANG_S))
