"""The parts of a task by themselves, without Spark: what broker and machine give at best, and
what our own work takes of it.

Every part handles the same records of the same topic, with kcontrol's own client over one connection. Beside
the time of a part stands the processor time of this process (all its threads) and of the broker: on a machine
of few cores they share it.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import psutil
import pyarrow as pa

from bench.process_kinds import processor_s
from bench.topics import create_topics, delete_topics
from kcontrol.adapters.kafka.client.background import client_for
from kcontrol.adapters.kafka.client.protocol import topic_id_text
from kcontrol.adapters.kafka.read.fetch_range import Chunk, RangeFetcher, RangeId, parse_topic_id
from kcontrol.adapters.kafka.read.fetching import ReadLimits
from kcontrol.adapters.kafka.read.ranges import RangeReader
from kcontrol.adapters.kafka.transaction.owner import KafkaTransaction
from kcontrol.adapters.kafka.write.backlog import Backlog
from kcontrol.adapters.kafka.write.faults import OutputId, ProduceFaults
from kcontrol.adapters.kafka.write.queue import ProduceQueue
from kcontrol.adapters.kafka.write.writer import TransactionWriter, WriteLimits
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.batches import (
    BatchFormat,
    Compression,
    Fetched,
    PartitionedBatches,
    Producer,
    SealedBatch,
    default_codec,
)
from kcontrol.wire.batches.columns import Ints
from kcontrol.wire.digest import DigestKind
from kcontrol.wire.names import Names

TIMEOUT_MS = 60_000
STEP = ("step", b"1")


@dataclass(frozen=True)
class Alone:
    """One part. bytes: of record batches that it moved or made."""

    part: str
    records: int
    bytes: int
    seconds: float
    own_cpu_s: float
    broker_cpu_s: float

    @property
    def records_per_s(self) -> float:
        return self.records / self.seconds

    @property
    def cpu_us_per_record(self) -> float:
        """Of this process."""
        return 1e6 * self.own_cpu_s / self.records


class Parts:
    """Measures one part after the other on the first `records` of a topic that is spread evenly over its
    partitions."""

    def __init__(
        self, bootstrap_servers: str, broker_pid: int, topic: str, partitions: int, records: int
    ) -> None:
        self._settings = ClusterSettings(bootstrap_servers=bootstrap_servers)
        self._broker = psutil.Process(broker_pid)
        self._client = client_for(self._settings)
        self._topic = topic
        self._records = records
        self._ranges = [(partition, 0, records // partitions) for partition in range(partitions)]
        self._topic_id = self._client.start(self._ask_topic_id()).result()

    def measure(self) -> list[Alone]:
        """Each part twice: the first time only warms up. Raises RuntimeError when records are missing."""
        rows = [batch.select(["key", "value"]) for batch in self._decoded()]
        size = sum(len(batch.data) for _, batch in self._sealed(rows, (0, 0)))
        found = []
        for _ in range(2):
            found = [
                self._timed("fetch, checksums", size, self._fetch),
                self._timed("fetch, decode", size, lambda: sum(batch.num_rows for batch in self._decoded())),
                self._timed(
                    "encode", size, lambda: sum(batch.records for _, batch in self._sealed(rows, (0, 0)))
                ),
                self._produce(size, rows),
                self._write(size, rows),
            ]
        return found

    def _timed(self, part: str, size: int, work: Callable[[], int]) -> Alone:
        broker_s, own_s, began = processor_s(self._broker), time.process_time(), time.perf_counter()
        done = work()
        seconds, own_s = time.perf_counter() - began, time.process_time() - own_s
        broker_s = processor_s(self._broker) - broker_s
        if done != self._records:
            raise RuntimeError(f"{part}: {done} records instead of {self._records}")
        return Alone(part, done, size, seconds, own_s, broker_s)

    def _fetch(self) -> int:
        """Each chunk is asked for when the one before has come, as a task does."""
        limits, seen = ReadLimits(), 0
        for wanted in (
            RangeId("alone", self._topic, parse_topic_id(self._topic_id), *each) for each in self._ranges
        ):
            fetcher = RangeFetcher(self._client, wanted, limits.fetch_max_bytes, limits.deadline_ms)
            pending: Future[Chunk] | None = self._client.start(fetcher.fetch(wanted.from_))
            while pending is not None:
                chunk = pending.result()
                fetched = Fetched(chunk.records, wanted.where)
                position = fetched.next_offset(chunk.position)
                pending = self._client.start(fetcher.fetch(position)) if position < wanted.to else None
                seen += min(position, wanted.to) - chunk.position
        return seen

    def _decoded(self) -> Iterator[pa.RecordBatch]:
        return RangeReader(self._settings).read_each("alone", self._topic, self._topic_id, self._ranges)

    def _sealed(
        self, rows: list[pa.RecordBatch], producer: tuple[int, int]
    ) -> Iterator[tuple[int, SealedBatch]]:
        made = PartitionedBatches(default_codec(), self._format(producer))
        for batch, partitions in self._placed(rows):
            yield from made.add(batch, partitions)
        yield from made.flush()

    def _placed(self, rows: list[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, Ints]]:
        """A whole batch goes to one partition, as rows do that stay where they were read."""
        for number, batch in enumerate(rows):
            yield batch, np.full(batch.num_rows, number % len(self._ranges), np.int32)

    def _format(self, producer: tuple[int, int]) -> BatchFormat:
        size = WriteLimits().max_batch_bytes
        return BatchFormat(
            Producer(*producer), 0, (STEP,), Compression.NONE, size, DigestKind.OUTPUT, len(self._ranges)
        )

    def _produce(self, size: int, rows: list[pa.RecordBatch]) -> Alone:
        """Batches that are made before the time begins."""
        with self._transaction() as (topic, transactional_id, producer):
            sealed = list(self._sealed(rows, producer))
            backlog, output = Backlog(WriteLimits().buffer_bytes), OutputId(1, "alone", topic)
            faults = ProduceFaults(self._client, output, default_codec(), self._format(producer))
            queue = ProduceQueue(self._client, output, transactional_id, faults, backlog, TIMEOUT_MS)

            def send() -> int:
                for partition, batch in sealed:
                    backlog.add(len(batch.data))
                    self._client.call(queue.put, partition, batch)
                backlog.wait_empty()
                return sum(progress.records for progress in queue.partitions.values())

            return self._timed("produce", size, send)

    def _write(self, size: int, rows: list[pa.RecordBatch]) -> Alone:
        with self._transaction() as (topic, transactional_id, producer):
            partitions = len(self._ranges)
            writer = TransactionWriter(
                self._settings, transactional_id, *producer, 1, 0, "alone", topic, partitions
            )

            def write() -> int:
                for batch in self._placed(rows):
                    writer.write(*batch)
                return sum(each.records for each in writer.finish())

            return self._timed("encode, produce", size, write)

    @contextmanager
    def _transaction(self) -> Iterator[tuple[str, str, tuple[int, int]]]:
        """A new topic, a transactional id, and the producer of a transaction that may
        write to it; aborted at the end."""
        name = f"bench-alone-{uuid.uuid4().hex[:8]}"
        topics = (
            name,
            Names(self._settings.prefix).steps_topic(name),
        )  # a transaction begins with a look at the log
        create_topics(self._settings.bootstrap_servers, *topics, partitions=len(self._ranges))
        try:
            producer = asyncio.run(self._begin(name))
            yield name, Names(self._settings.prefix).transactional_id(name), producer
            asyncio.run(self._begin(name))  # aborts the one before
        finally:
            delete_topics(self._settings.bootstrap_servers, *topics)

    async def _begin(self, name: str) -> tuple[int, int]:
        transaction = KafkaTransaction(self._settings, name)
        try:
            producer = await transaction.init_producer(TIMEOUT_MS)
            await transaction.add_partitions(
                *producer, [(name, partition) for partition, _, _ in self._ranges]
            )
            return producer
        finally:
            await transaction.close()

    async def _ask_topic_id(self) -> str:
        return topic_id_text((await self._client.rpc.topic(self._topic)).topic_id)
