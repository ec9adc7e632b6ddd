"""A pipeline as a cluster knows it, told by hand: its definition, nodes, steps and status,
without Spark or a coordinator.

The same world is played in memory and on a real Kafka, through the ports of the sessions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kcontrol.core.model import (
    Checkpoint,
    Claim,
    ControlRecord,
    InputSpec,
    NodeJoin,
    NodePhase,
    NodeState,
    OutputSlice,
    PipelinePhase,
    Received,
    ReceivedPartition,
    Reset,
    Skipped,
    SkippedRange,
    Status,
    StepBoundary,
)
from kcontrol.sessions.ports import ControlLog, OwnedStepsLog, Transaction
from tests.fakes.memory_kafka import STEPS, MemoryControlLog, MemoryKafka, MemoryStepsLog, MemoryTransaction
from tests.support.owning import commit
from tests.support.patience import HANG_MS
from tests.unit.core.made import SPEC, boundary

_LIMITS = replace(SPEC.limits, heartbeat_timeout_ms=5 * HANG_MS, silence_timeout_ms=6 * HANG_MS)
LED = replace(SPEC, limits=_LIMITS)
"""What is told here is told once, and a machine may take its time until somebody asks: nobody is silent meanwhile."""
NO_DIGEST = "0" * 32


class Told:
    """One pipeline `p` with the input `in` (topic `input`, partitions 0 and 1 from the
    offsets 5 and 0) and output `out`.

    spec: what `begin` submits.
    """

    def __init__(
        self,
        control: ControlLog,
        transaction: Transaction,
        steps: OwnedStepsLog,
        partitions: list[tuple[str, int]],
    ) -> None:
        self.control = control
        self._transaction = transaction
        self._log = steps
        self._partitions = partitions
        self._next: tuple[int, ...] = (5, 0)
        self.spec = SPEC
        self.steps = 0
        self.incarnation = -1
        self.epoch = -1

    @property
    def input(self) -> InputSpec:
        """The one that there is."""
        return self.spec.inputs[0]

    def reads(self, item: InputSpec) -> None:
        """From `begin` on."""
        self.spec = replace(self.spec, inputs=(item,))

    async def say(self, *records: ControlRecord) -> int:
        """Write control records; the offset of the last."""
        return (await self.control.append(records))[-1]

    async def begin(self, listens: str = "") -> None:
        """Definition, claim, node, status. listens: where the node does."""
        self.epoch = await self.say(self.spec, Claim("p", "u", "host-a", 41))
        self.incarnation = await self.say(NodeJoin("p", 0, "n", "host-b", 42, listens))
        await self.node(NodePhase.RUNNING)
        await self.status()

    async def node(self, phase: NodePhase, step: int = 0, error: str = "") -> int:
        return await self.say(
            NodeState("p", 0, self.incarnation, phase, step, None, 1, 1, 1, (), error, 1, 0)
        )

    async def status(
        self,
        phase: PipelinePhase = PipelinePhase.RUNNING,
        reason: str = "",
        acknowledged: tuple[str, ...] = (),
        **more: object,
    ) -> int:
        said = Status("p", self.epoch, phase, self.steps, reason, acknowledged, 0, "", ())
        return await self.say(replace(said, **more))  # type: ignore[arg-type]

    async def received(self, *to: int) -> int:
        parts = tuple(
            ReceivedPartition(partition, self.input.topic_id, 0, end) for partition, end in enumerate(to)
        )
        return await self.say(Received("p", 0, self.incarnation, "in", self.steps + 1, parts, 1, 1))

    async def step(
        self,
        *to: int,
        wrote: tuple[int, int] = (0, 0),
        forget: tuple[str, ...] = (),
        skipped: tuple[SkippedRange, ...] = (),
        read: Mapping[int, int] | None = None,
        bad: int = 0,
    ) -> StepBoundary:
        """Commit the next step: input up to these offsets, by partition, and output [from, to) of partition
        0.

        skipped: ranges that it passes over, each from where the step before ended. read: by partition, the
        number of records among its offsets; others held one each. bad: records that it left out.
        """
        self.steps += 1
        begins = {one.partition: one.to for one in skipped}
        before = (*self._next, *(0,) * (len(to) - len(self._next)))
        begun = tuple(begins.get(partition, offset) for partition, offset in enumerate(before))
        made = replace(
            boundary(self.steps, begun, to),
            skipped_ranges=skipped,
            outputs=(OutputSlice("out", "output", 0, *wrote, wrote[1] - wrote[0], NO_DIGEST),),
        )
        inputs = tuple(
            replace(one, records=(read or {}).get(one.partition, one.records)) for one in made.inputs
        )
        made = replace(made, inputs=inputs, skipped=(Skipped("in", bad),) if bad else ())
        producer = await self._transaction.init_producer(HANG_MS)
        await self._transaction.add_partitions(*producer, self._partitions)
        await commit(self._transaction, self._log, producer, made, forget)
        self._next = to
        return made

    async def reset(self, to_step: int, *to: int) -> StepBoundary:
        """Take the steps after this one back. to: up to which offsets it has read, by partition."""
        self.steps += 1
        made = replace(boundary(self.steps, to, to), reset=Reset(to_step, "a wrong rate", "ana", "r1", ()))
        producer = await self._transaction.init_producer(HANG_MS)
        await self._transaction.add_partitions(*producer, self._partitions)
        await commit(self._transaction, self._log, producer, made)
        self._next = to
        return made

    def continue_after(self, steps: int, next_from: tuple[int, int]) -> None:
        """Go on where another has left off."""
        self.steps, self._next = steps, next_from

    async def checkpoint(self, made: Checkpoint) -> None:
        """Record one."""
        producer = await self._transaction.init_producer(HANG_MS)
        await self._transaction.add_partitions(*producer, self._partitions)
        await commit(self._transaction, self._log, producer, made)


def told_in(kafka: MemoryKafka) -> Told:
    """The pipeline, told in memory; nobody of it falls silent."""
    found = Told(
        MemoryControlLog(kafka, "p"),
        MemoryTransaction(kafka, "p"),
        MemoryStepsLog(kafka, "p"),
        [(f"p.{STEPS}", 0)],
    )
    found.spec = LED
    return found
