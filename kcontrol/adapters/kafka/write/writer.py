"""Rows of a Spark task into output partitions, inside the step's transaction, which the coordinator owns.

The task encodes while earlier batches are on their way. What a writer reports (offsets, counts, digests) is
true only if `finish` returned it; whether it ever counts is decided by the transaction.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from kcontrol.adapters.kafka.client.background import client_for
from kcontrol.adapters.kafka.write.backlog import Backlog
from kcontrol.adapters.kafka.write.faults import OutputId, ProduceFaults
from kcontrol.adapters.kafka.write.queue import ProduceQueue
from kcontrol.adapters.kafka.write.turns import Turns
from kcontrol.core.model import FailureKind, OutputSlice
from kcontrol.errors import ConfigurationError, StepFailedError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.batches import (
    UNNUMBERED,
    BatchFormat,
    Compression,
    PartitionedBatches,
    PartitionedDigests,
    Producer,
    SealedBatch,
    default_codec,
)
from kcontrol.wire.batches.columns import Ints
from kcontrol.wire.digest import Digest, DigestKind

STEP_HEADER = "step"
_DIGEST_BUFFER_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class WriteLimits:
    """max_batch_bytes: uncompressed, unless a single record is larger. buffer_bytes:
    sent or waiting, not acknowledged.
    deadline_ms: a batch that is not acknowledged by then has failed."""

    max_batch_bytes: int = 1_000_000
    buffer_bytes: int = 32 << 20
    deadline_ms: int = 30_000


class TransactionWriter:
    """Writes one output's rows under the producer id and epoch of the attempt, to
    partitions that no other task writes, or with which it takes `turns`.

    output, topic, partition_count: of the output. now_ms: every record's timestamp. compression: 'none',
    'gzip', 'snappy', 'lz4' or 'zstd'. digest: 'exact', 'count', or 'float:TOLERANCE', which wants
    `digest_rows`. what: is written to, for messages.
    """

    def __init__(
        self, settings: ClusterSettings, transactional_id: str, producer_id: int, producer_epoch: int, step: int, now_ms: int,
        output: str, topic: str, partition_count: int, compression: str = "none", limits: WriteLimits | None = None,
        digest: str = "exact", turns: Turns | None = None, what: str = "output",
    ) -> None:  # fmt: skip
        limits = limits or WriteLimits()
        client, codec = client_for(settings), default_codec()
        batch_format = BatchFormat(
            producer=Producer(producer_id, producer_epoch),
            timestamp_ms=now_ms,
            extra_headers=((STEP_HEADER, str(step).encode()),),
            compression=compression_named(compression),
            max_batch_bytes=limits.max_batch_bytes,
            digest_kind=DigestKind.OUTPUT if digest == "exact" else DigestKind.NONE,
            digest_number=partition_count,
            first_sequence=0 if turns is None else UNNUMBERED,
        )
        self._output = OutputId(step, output, topic, what)
        self._partition_count = partition_count
        self._batches = PartitionedBatches(codec, batch_format)
        unsent = _unsent_format(DigestKind.OUTPUT, partition_count)
        self._rounded = PartitionedDigests(codec, unsent) if digest.startswith("float:") else None
        self._backlog = Backlog(limits.buffer_bytes)
        faults = ProduceFaults(client, self._output, codec, batch_format)
        self._client = client
        self._queue = ProduceQueue(
            client, self._output, transactional_id, faults, self._backlog, limits.deadline_ms, turns
        )

    def write(
        self, rows: pa.RecordBatch, partitions: Ints, digest_rows: pa.RecordBatch | None = None
    ) -> None:
        """Columns `value` and, if there, `key` and `headers`; one partition number a row.
        Waits while too much is under way.

        digest_rows: what the digest is made of instead of `rows`, row by row, with `digest='float:...'`.

        Raises FencedError: the attempt is over. StepFailedError: kind QUERY for rows that the topic does not
        take, LOST for a second writer. RetriableError, TopicError, ClusterError, ConfigurationError.
        """
        self._backlog.check()
        _check_partitions(partitions, self._partition_count, self._output)
        if self._rounded is not None:
            self._rounded.add(rows if digest_rows is None else digest_rows, partitions)
        for partition, batch in self._batches.add(rows, partitions):
            self._send(partition, batch)

    def seal(self) -> None:
        """Send what is there: rows that come later share no batch of Kafka with it. Raises as `write` does."""
        for partition, batch in self._batches.flush():
            self._send(partition, batch)

    def finish(self) -> list[OutputSlice]:
        """Send the rest, wait until all is acknowledged, and say what was written: a
        slice for each partition with rows.

        Raises as `write` does; then nothing was written that counts.
        """
        self.seal()
        self._backlog.wait_empty()
        digests = (self._rounded or self._batches).digests()
        return [
            self._slice(partition, progress.from_, progress.end, progress.records, digests[partition])
            for partition, progress in sorted(self._queue.partitions.items())
        ]

    def abort(self) -> None:
        """Send nothing more, from any thread; `write` and `finish` raise from now on.
        What has left may still arrive."""
        self._backlog.fail(
            StepFailedError(FailureKind.LOST, f"{self._output.output!r}: the writer was told to stop")
        )
        self._client.call(self._queue.stop)

    def _send(self, partition: int, batch: SealedBatch) -> None:
        self._backlog.add(len(batch.data))
        self._client.call(self._queue.put, partition, batch)

    def _slice(self, partition: int, from_: int, to: int, records: int, digest: Digest) -> OutputSlice:
        if digest.records != records:
            raise StepFailedError(
                FailureKind.LOST,
                f"{self._output.where(partition)}: {digest.records} rows became {records} records",
            )
        return OutputSlice(self._output.output, self._output.topic, partition, from_, to, records, digest.hex)


class DigestWriter:
    """A `TransactionWriter` that writes nothing: what a replay uses. Its slices have offsets 0 to 0."""

    def __init__(
        self, step: int, output: str, topic: str, partition_count: int, digest: str = "exact"
    ) -> None:
        self._output = OutputId(step, output, topic)
        self._partition_count = partition_count
        kind = DigestKind.NONE if digest == "count" else DigestKind.OUTPUT
        self._digests = PartitionedDigests(default_codec(), _unsent_format(kind, partition_count))

    def write(
        self, rows: pa.RecordBatch, partitions: Ints, digest_rows: pa.RecordBatch | None = None
    ) -> None:
        """See `TransactionWriter.write`."""
        _check_partitions(partitions, self._partition_count, self._output)
        self._digests.add(rows if digest_rows is None else digest_rows, partitions)

    def finish(self) -> list[OutputSlice]:
        """See `TransactionWriter.finish`."""
        output, topic = self._output.output, self._output.topic
        return [
            OutputSlice(output, topic, partition, 0, 0, digest.records, digest.hex)
            for partition, digest in self._digests.digests().items()
        ]

    def abort(self) -> None:
        """There is nothing to stop."""


def compression_named(name: str) -> Compression:
    """Raises ConfigurationError: there is no such compression."""
    try:
        return Compression[name.upper()]
    except KeyError as error:
        raise ConfigurationError(
            f"compression {name!r} must be one of {', '.join(kind.name.lower() for kind in Compression)}"
        ) from error


def _unsent_format(kind: DigestKind, partition_count: int) -> BatchFormat:
    """For digests alone: nothing else of a batch matters."""
    return BatchFormat(Producer(-1, -1), 0, (), Compression.NONE, _DIGEST_BUFFER_BYTES, kind, partition_count)


def _check_partitions(partitions: Ints, partition_count: int, output: OutputId) -> None:
    if len(partitions) and not 0 <= partitions.min() <= partitions.max() < partition_count:
        wrong = partitions[(partitions < 0) | (partitions >= partition_count)][0]
        raise StepFailedError(
            FailureKind.QUERY,
            f"{output.name}: a row is for partition {wrong}; topic {output.topic!r} has {partition_count}.",
        )
