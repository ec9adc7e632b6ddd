"""A Kafka in memory, as far as the ports can tell: logs, last stable offsets, and
transactions with their fencing.

One `MemoryKafka` is the cluster; the ports made from it are the processes that use it. It has no delays and
loses nothing unless it is told to.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from kcontrol.core.log.keys import BARRIER_KEY, key_of
from kcontrol.core.model import (
    Assignment,
    Checkpoint,
    ControlRecord,
    InputSpec,
    Logged,
    LoggedStep,
    PipelineSpec,
    StepBoundary,
    StepRecord,
    Tombstone,
)
from kcontrol.errors import CommitUnknownError, FencedError, RetriableError, UnseenRecordError
from kcontrol.sessions.ports import Kept, NextTransaction, Reach
from kcontrol.wire.keys import pipeline_of

STEPS = "steps"
NOWHERE = Reach("T1", (0, 0))


class Fate(Enum):
    OPEN = auto()
    VISIBLE = auto()
    HIDDEN = auto()


class Loss(Enum):
    """What becomes of the next commit."""

    ANSWER = auto()
    REQUEST = auto()


@dataclass
class Entry:
    """producer: who wrote it in a transaction; None: nobody did, or it is a marker."""

    value: Any
    fate: Fate
    timestamp_ms: int
    producer: tuple[int, int] | None = None


class MemoryPartition:
    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.entries: list[Entry] = []
        self._now_ms = now_ms
        self._changed = asyncio.Event()

    def append(self, value: Any, fate: Fate, producer: tuple[int, int] | None = None) -> int:
        self.entries.append(Entry(value, fate, self._now_ms(), producer))
        self.wake()
        return len(self.entries) - 1

    def wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def stable_end(self) -> int:
        """The last stable offset: where the first open transaction begins."""
        return next(
            (offset for offset, entry in enumerate(self.entries) if entry.fate is Fate.OPEN),
            len(self.entries),
        )

    async def changed(self) -> None:
        await self._changed.wait()


class Position:
    """A reader's place, shared by its tail and its reads to the end."""

    def __init__(self, partition: MemoryPartition) -> None:
        self._partition = partition
        self.offset = 0

    def take(self) -> list[tuple[int, Any]]:
        end = self._partition.stable_end()
        fresh = [(offset, self._partition.entries[offset]) for offset in range(self.offset, end)]
        self.offset = max(self.offset, end)
        return [(offset, entry.value) for offset, entry in fresh if entry.fate is Fate.VISIBLE]

    async def tail(self) -> AsyncIterator[list[tuple[int, Any]]]:
        while True:
            if chunk := self.take():
                yield chunk
            else:
                await self._partition.changed()


@dataclass
class TransactionState:
    producer_id: int
    epoch: int = -1
    added: set[tuple[str, int]] = field(default_factory=set)
    open_entries: list[tuple[MemoryPartition, Entry]] = field(default_factory=list)
    loss: Loss | None = None

    def check(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            raise FencedError("producer epoch is no longer valid")

    def end(self, fate: Fate, partition_of: Any) -> None:
        for _, entry in self.open_entries:
            entry.fate = fate
        for topic_partition in self.added:
            partition_of(*topic_partition).append(None, Fate.HIDDEN)  # the marker takes an offset
        self.open_entries.clear()
        self.added.clear()


class MemoryKafka:
    """now_ms: the clock that its records are stamped by. tells_epochs: the answer to a commit has the epoch of the
    next transaction (KIP-890)."""

    def __init__(self, now_ms: Callable[[], int] = lambda: 0, tells_epochs: bool = False) -> None:
        self.tells_epochs = tells_epochs
        self._partitions: dict[tuple[str, int], MemoryPartition] = defaultdict(
            lambda: MemoryPartition(now_ms)
        )
        self._producer_ids = itertools.count(1000)
        self._transactions: dict[str, TransactionState] = {}

    def partition(self, topic: str, number: int = 0) -> MemoryPartition:
        return self._partitions[topic, number]

    def transaction(self, pipeline: str) -> TransactionState:
        if pipeline not in self._transactions:
            self._transactions[pipeline] = TransactionState(next(self._producer_ids))
        return self._transactions[pipeline]

    def write(
        self, pipeline: str, producer: tuple[int, int], topic: str, number: int, values: Sequence[Any]
    ) -> list[int]:
        """What a process that has joined the transaction does."""
        state = self.transaction(pipeline)
        state.check(*producer)
        if (topic, number) not in state.added:
            raise FencedError(f"{topic}-{number} is not part of the transaction")
        partition = self.partition(topic, number)
        offsets = [partition.append(value, Fate.OPEN, producer) for value in values]
        state.open_entries += [(partition, partition.entries[offset]) for offset in offsets]
        return offsets


class MemoryControlLog:
    def __init__(self, kafka: MemoryKafka, pipeline: str | None) -> None:
        self._partition = kafka.partition("control")
        self._position = Position(self._partition)
        self._pipeline = pipeline

    async def append(self, records: Sequence[ControlRecord], forget: Sequence[str] = ()) -> list[int]:
        return [self._partition.append(value, Fate.VISIBLE) for value in (*records, *map(Tombstone, forget))]

    async def read_to_end(self) -> list[Logged]:
        return self._own(self._position.take())

    async def read_through(self, offset: int) -> list[Logged]:
        found = await self.read_to_end()
        if self._position.offset <= offset:
            raise RetriableError(f"there is nothing at offset {offset}")
        return found

    async def tail(self) -> AsyncIterator[list[Logged]]:
        async for chunk in self._position.tail():
            if logged := self._own(chunk):
                yield logged

    async def close(self) -> None:
        """Nothing is open."""

    @property
    def rejected_by(self) -> dict[str, int]:
        """Nobody can write anything else."""
        return {}

    def _own(self, chunk: list[tuple[int, Any]]) -> list[Logged]:
        entries = self._partition.entries
        mine = [(offset, value) for offset, value in chunk if self._pipeline in (None, _pipeline(value))]
        return [Logged(offset, entries[offset].timestamp_ms, value) for offset, value in mine]


class MemoryStepsLog:
    def __init__(self, kafka: MemoryKafka, pipeline: str) -> None:
        self._partition = kafka.partition(f"{pipeline}.{STEPS}")
        self._position = Position(self._partition)

    async def begin_at_checkpoint(self) -> Checkpoint | None:
        there = self._partition.entries[: self._partition.stable_end()]
        made = [one.value for one in there if one.fate is Fate.VISIBLE and isinstance(one.value, Checkpoint)]
        if not made or made[-1].begin_offset < 0:
            return None
        self._position.offset = made[-1].begin_offset
        return made[-1]

    def begin_at_start(self) -> None:
        self._position.offset = 0

    async def read_to_end(self) -> list[LoggedStep]:
        return [LoggedStep(offset, value) for offset, value in self._position.take()]

    @property
    def position(self) -> int:
        return self._position.offset

    async def read_settled(self, at_least: int) -> list[LoggedStep]:
        if self._partition.stable_end() < max(len(self._partition.entries), at_least):
            raise RetriableError("a transaction is open")
        return await self.read_to_end()

    def pass_over(self, offset: int) -> None:
        self._position.offset = max(self._position.offset, offset)

    async def tail(self) -> AsyncIterator[list[LoggedStep]]:
        async for chunk in self._position.tail():
            yield [LoggedStep(offset, value) for offset, value in chunk]

    async def close(self) -> None:
        """Nothing is open."""

    async def read_range(self, from_: int, to: int) -> list[LoggedStep]:
        entries = enumerate(self._partition.entries[: min(to, self._partition.stable_end())])
        return [
            LoggedStep(at, entry.value) for at, entry in entries if at >= from_ and entry.fate is Fate.VISIBLE
        ]


class MemorySource:
    """The ProjectionSource of a cluster whose control topic has one partition."""

    def __init__(self, kafka: MemoryKafka, reach: Reach = NOWHERE) -> None:
        """reach: what is said of the topic of every input, which can be changed: `reaches`."""
        self._kafka = kafka
        self.reaches = reach
        self.has: dict[str, Kept | str] = {}
        """What is said of topics when it is asked what Kafka has of them."""

    async def partitions(self) -> int:
        return 1

    async def control(self, _partition: int) -> MemoryControlLog:
        return MemoryControlLog(self._kafka, None)

    def steps(self, pipeline: str) -> MemoryStepsLog:
        return MemoryStepsLog(self._kafka, pipeline)

    async def reach(self, _pipeline: str, _item: InputSpec) -> Reach:
        return self.reaches

    async def ends(self, topics: Collection[str]) -> dict[str, Reach | str]:
        return {} if self.reaches is NOWHERE else dict.fromkeys(topics, self.reaches)

    async def close(self) -> None:
        """Nothing is open."""

    async def kept(self, topics: Collection[str]) -> dict[str, Kept | str]:
        return {topic: self.has.get(topic, "nobody knows") for topic in topics}

    async def prepare(self, spec: PipelineSpec) -> None:
        """All topics are there."""


class MemoryTransaction:
    def __init__(self, kafka: MemoryKafka, pipeline: str) -> None:
        self._kafka = kafka
        self._pipeline = pipeline
        self._state = kafka.transaction(pipeline)
        self._log_end = 0

    @property
    def log_end(self) -> int:
        return self._log_end

    async def init_producer(self, timeout_ms: int) -> tuple[int, int]:
        self._state.end(Fate.HIDDEN, self._kafka.partition)
        self._state.epoch += 1
        return self._state.producer_id, self._state.epoch

    async def add_partitions(
        self, producer_id: int, producer_epoch: int, partitions: Sequence[tuple[str, int]]
    ) -> None:
        self._state.check(producer_id, producer_epoch)
        self._state.added.update(partitions)

    async def commit_step(
        self,
        producer_id: int,
        producer_epoch: int,
        boundary: StepBoundary,
        expected_offset: int,
        forget: Sequence[str] = (),
    ) -> NextTransaction | None:
        return self._commit((producer_id, producer_epoch), boundary, expected_offset, forget)

    async def commit_checkpoint(
        self,
        producer_id: int,
        producer_epoch: int,
        checkpoint: Checkpoint | None,
        expected_offset: int,
        forget: Sequence[str],
        assignment: Assignment | None = None,
    ) -> None:
        records = [each for each in (checkpoint, assignment) if each is not None]
        self._commit((producer_id, producer_epoch), records[0], expected_offset, forget, records[1:])

    async def prove_end(self, producer_id: int, producer_epoch: int) -> None:
        topic = f"{self._pipeline}.{STEPS}"
        await self.add_partitions(producer_id, producer_epoch, [(topic, 0)])
        producer, values = (producer_id, producer_epoch), [Tombstone(BARRIER_KEY)]
        self._log_end = self._kafka.write(self._pipeline, producer, topic, 0, values)[-1] + 1

    def _commit(
        self,
        producer: tuple[int, int],
        record: StepRecord,
        expected_offset: int,
        forget: Sequence[str],
        more: Sequence[StepRecord] = (),
    ) -> NextTransaction | None:
        values = [record, *more, *map(Tombstone, forget)]
        offsets = self._kafka.write(self._pipeline, producer, f"{self._pipeline}.{STEPS}", 0, values)
        self._log_end = offsets[-1] + 1
        if offsets[0] != expected_offset:
            raise UnseenRecordError(
                f"it came to lie at offset {offsets[0]}, but what was read ended at {expected_offset}"
            )
        loss, self._state.loss = self._state.loss, None
        if loss is not Loss.REQUEST:
            self._state.end(Fate.VISIBLE, self._kafka.partition)
        if loss is not None:
            raise CommitUnknownError("the answer was lost")
        if not self._kafka.tells_epochs:
            return None
        self._state.epoch += 1
        return NextTransaction((self._state.producer_id, self._state.epoch), offsets[0], offsets[-1] + 2)

    async def close(self) -> None:
        """Nothing is open."""


def _pipeline(value: ControlRecord | Tombstone) -> str:
    return pipeline_of(value.key if isinstance(value, Tombstone) else key_of(value))
