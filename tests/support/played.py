"""Pipelines as a person would find them, played by hand on a Kafka in memory: many nodes, inputs
and partitions, and any state.

`Told` says the least that a test of the interface needs; this says what a page is made for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kcontrol.core.model import (
    EMPTY_DIGEST,
    BadRecords,
    Checkpoint,
    Claim,
    ControlRecord,
    InputSlice,
    InputSpec,
    Layout,
    NodeJoin,
    NodePhase,
    NodeState,
    OutputLayout,
    OutputSlice,
    OutputSpec,
    PipelinePhase,
    PipelineSpec,
    Reason,
    Received,
    ReceivedPartition,
    Reset,
    SavedPart,
    SkippedRange,
    SourceSplit,
    Status,
    StepBoundary,
    Token,
)
from kcontrol.core.step.resetting import going_back
from tests.fakes.memory_kafka import STEPS, MemoryControlLog, MemoryKafka, MemoryStepsLog, MemoryTransaction
from tests.support.owning import commit
from tests.unit.core.made import SPEC

TIMEOUT_MS = 30_000


def spec_of(name: str, *, nodes: int, inputs: Mapping[str, int], outputs: Mapping[str, int]) -> PipelineSpec:
    """inputs, outputs: their numbers of partitions, by name."""
    return replace(
        SPEC,
        pipeline=name,
        fingerprint=hashlib.sha256(name.encode()).hexdigest()[:32],
        nodes=nodes,
        layout=replace(SPEC.layout, shuffle_partitions=4 * nodes),
        inputs=tuple(
            InputSpec(
                *(
                    each,
                    f"web.{each}",
                    f"T-{each}",
                    (0,) * count,
                    tuple(p % nodes for p in range(count)),
                    "json",
                ),
                *(BadRecords.HALT, "", "user"),
            )
            for each, count in inputs.items()
        ),
        outputs=tuple(
            OutputSpec(each, f"web.{each}", f"T-{each}", count, "user", "json", "exact")
            for each, count in outputs.items()
        ),
    )


@dataclass(frozen=True)
class Work:
    """What a step did. read, wrote: records by name of the input or output, and
    partition; the same number of offsets.
    skip: offsets that are passed over before it reads. Milliseconds: waiting since the commit before,
    preparing until the transaction was open, working until the commit."""

    read: Mapping[tuple[str, int], int]
    wrote: Mapping[tuple[str, int], int]
    reason: Reason = Reason.RECORDS
    waiting_ms: int = 200
    preparing_ms: int = 3
    working_ms: int = 40
    attempt: int = 1
    skip: Mapping[tuple[str, int], int] = field(default_factory=dict)


class Played:
    """One pipeline. `now_ms`: the time of its last step."""

    def __init__(self, kafka: MemoryKafka, spec: PipelineSpec, now_ms: int) -> None:
        self.spec = spec
        self.name = spec.pipeline
        self.now_ms = now_ms
        self.steps = 0
        self.control = MemoryControlLog(kafka, self.name)
        self._transaction = MemoryTransaction(kafka, self.name)
        self._log = MemoryStepsLog(kafka, self.name)
        self._read = dict.fromkeys(((i.name, p) for i in spec.inputs for p in range(len(i.start_offsets))), 0)
        self._written = dict.fromkeys(((o.name, p) for o in spec.outputs for p in range(o.partitions)), 0)
        self._incarnations: list[int] = []
        self._first = 1
        self.epoch = -1
        self._led: Status | None = None
        self._states: dict[int, NodeState] = {}
        self.silent: set[int] = set()
        """Nodes that don't say again how they are."""

    async def say(self, *records: ControlRecord) -> int:
        """Write control records; the offset of the last."""
        return (await self.control.append(records))[-1]

    async def begin(self, coordinator: str, hosts: Sequence[str], *, steps: int = 0, offset: int = 0) -> None:
        """Definition, claim and nodes. steps: so many were committed and dropped from the log before, and
        every partition was read and written up to `offset`."""
        self.epoch = await self.say(self.spec, Claim(self.name, f"u-{self.name}", coordinator, 7))
        for node, host in enumerate(hosts):
            self._incarnations.append(
                await self.say(NodeJoin(self.name, node, f"n{node}", host, 1200 + node))
            )
        self.steps, self._first = steps, steps + 1
        for places in (self._read, self._written):
            places.update(dict.fromkeys(places, offset))

    async def node(
        self, node: int, phase: NodePhase = NodePhase.RUNNING, error: str = "", step: int | None = None
    ) -> None:
        """It says how it is."""
        done = self.steps if step is None else step
        life = self._incarnations[node]
        said = NodeState(self.name, node, life, phase, done, None, self.epoch, self.epoch, 1, (), error, 1, 0)
        self._states[node] = said
        await self.say(said)

    async def status(
        self, phase: PipelinePhase = PipelinePhase.RUNNING, reason: str = "", **more: object
    ) -> int:
        """What the coordinator says of it."""
        said = Status(self.name, self.epoch, phase, self.steps, reason, (), 0, "", ())
        self._led = replace(said, **more)  # type: ignore[arg-type]
        return await self.say(self._led)

    async def repeat(self) -> None:
        """Nodes, and the coordinator of a pipeline that runs, say again what they said
        last, as they do all the time."""
        states = [said for node, said in self._states.items() if node not in self.silent]
        led = self._led if self._led is not None and self._led.phase is PipelinePhase.RUNNING else None
        if states or led is not None:
            await self.say(*states, *([led] if led is not None else []))

    async def receive(self, input_name: str, more: int) -> None:
        """So many offsets of each partition wait beyond the last step."""
        partitions = [p for name, p in self._read if name == input_name]
        for node, life in enumerate(self._incarnations):
            own = tuple(
                ReceivedPartition(p, f"T-{input_name}", 0, self._read[input_name, p] + more)
                for p in partitions
                if p % self.spec.nodes == node
            )
            await self.say(Received(self.name, node, life, input_name, self.steps + 1, own, more, more * 100))

    async def step(self, work: Work) -> StepBoundary:
        """Commit the next step."""
        self.steps += 1
        due_ms = self.now_ms + work.waiting_ms
        opened_ms = due_ms + work.preparing_ms
        self.now_ms = opened_ms + work.working_ms
        skipped = tuple(self._pass_over(name, p, count) for (name, p), count in work.skip.items())
        inputs = tuple(self._slice_of_input(name, p, work.read.get((name, p), 0)) for name, p in self._read)
        outputs = tuple(
            self._slice_of_output(name, p, work.wrote.get((name, p), 0)) for name, p in self._written
        )
        producer = await self._transaction.init_producer(TIMEOUT_MS)
        made = StepBoundary(
            pipeline=self.name,
            step=self.steps,
            token=Token(self.epoch, work.attempt, 4_007, producer[1], tuple(self._incarnations)),
            now_ms=due_ms,
            reason=work.reason,
            fingerprint=self.spec.fingerprint,
            nodes=self.spec.nodes,
            inputs=inputs,
            outputs=outputs,
            layout=self._layout(inputs),
            paused_inputs=(),
            opened_ms=opened_ms,
            committed_ms=self.now_ms,
            skipped=(),
            watermark_moved=False,
            skipped_ranges=skipped,
        )
        await self._transaction.add_partitions(*producer, [(f"{self.name}.{STEPS}", 0)])
        await commit(self._transaction, self._log, producer, made)
        return made

    async def reset(self, back: StepBoundary, last: StepBoundary, why: str) -> StepBoundary:
        """Take the steps after `back` back, `last` being the last one."""
        self.steps += 1
        self._read |= {(piece.input, piece.partition): piece.to for piece in back.inputs}
        producer = await self._transaction.init_producer(TIMEOUT_MS)
        wanted = Reset(back.step, why, "ana", f"reset-{self.steps}", ())
        made = going_back(last, back, wanted, producer, self.epoch, self.now_ms + 1)
        self.now_ms = made.now_ms
        await self._transaction.add_partitions(*producer, [(f"{self.name}.{STEPS}", 0)])
        await commit(self._transaction, self._log, producer, made)
        return made

    async def checkpoint(self, took_ms: int, size_bytes: int, request_id: str = "") -> None:
        """Of the last step."""
        where = f"s3://state/{self.name}"
        parts = tuple(
            SavedPart(node, life, f"{where}/{node}", 40, size_bytes // len(self._incarnations))
            for node, life in enumerate(self._incarnations)
        )
        begun_ms = self.now_ms
        made = Checkpoint(
            *(self.name, self.steps, self.epoch, 0, where, parts, begun_ms, begun_ms + took_ms, request_id),
            **{"first_step": self._first, "resized_step": 0, "begin_offset": -1},
        )
        producer = await self._transaction.init_producer(TIMEOUT_MS)
        await self._transaction.add_partitions(*producer, [(f"{self.name}.{STEPS}", 0)])
        await commit(self._transaction, self._log, producer, made)

    def _slice_of_input(self, name: str, partition: int, records: int) -> InputSlice:
        begin = self._read[name, partition]
        self._read[name, partition] = end = begin + records
        digest = _digest(f"{self.name}{name}{partition}{begin}") if records else EMPTY_DIGEST
        return InputSlice(name, f"web.{name}", f"T-{name}", partition, begin, end, records, digest)

    def _pass_over(self, name: str, partition: int, count: int) -> SkippedRange:
        begin = self._read[name, partition]
        self._read[name, partition] = end = begin + count
        return SkippedRange(
            name, f"web.{name}", f"T-{name}", partition, begin, end, "ann@console", self.now_ms, f"s{begin}"
        )

    def _slice_of_output(self, name: str, partition: int, records: int) -> OutputSlice:
        begin = self._written[name, partition]
        end = begin + records
        # A transaction's marker takes an offset too.
        self._written[name, partition] = end + bool(records)
        digest = _digest(f"{self.name}{name}{partition}{begin}") if records else EMPTY_DIGEST
        return OutputSlice(name, f"web.{name}", partition, begin, end, records, digest)

    def _layout(self, inputs: Sequence[InputSlice]) -> Layout:
        splits = tuple(
            SourceSplit(each.input, task, each.partition, each.from_, each.to)
            for task, each in enumerate(each for each in inputs if each.records)
        )
        return Layout(
            splits, 2, tuple(OutputLayout(o.name, o.partitions, 2, o.digest) for o in self.spec.outputs)
        )


def _digest(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
