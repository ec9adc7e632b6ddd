"""Rows to the partitions of one output: sealed batches for each, and the digest of what went into it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kcontrol.wire.batches.codec import BatchFormat, Codec, OpenBatch, SealedBatch
from kcontrol.wire.batches.columns import Ints, RecordColumns, bytes_column, record_columns
from kcontrol.wire.digest import Digest


@dataclass(frozen=True, slots=True)
class _Share:
    """The rows `order[start:stop]` of a batch belong to `partition`."""

    partition: int
    start: int
    stop: int


class PartitionedBatches:
    """Builds the batches of one writer: any number of partitions, each numbered as the format says."""

    def __init__(self, codec: Codec, batch_format: BatchFormat) -> None:
        self._codec = codec
        self._format = batch_format
        self._open: dict[int, OpenBatch] = {}

    def add(self, rows: pa.RecordBatch, partitions: Ints) -> Iterator[tuple[int, SealedBatch]]:
        """Rows with columns value, key and headers (the last two optional) into the partitions named, one a
        row.

        Yields (partition, batch) whenever one is full, in order within a partition. Raises
        ConfigurationError: see `record_columns`, and ValueError when there is not one partition a row.
        """
        columns = record_columns(rows)
        order, shares = _shares(columns, partitions)
        for share in shares:
            batch, index = self._batch(share.partition), share.start
            while (index := batch.append(columns, order, index, share.stop)) < share.stop:
                yield share.partition, batch.seal()

    def flush(self) -> Iterator[tuple[int, SealedBatch]]:
        """What is not full yet."""
        for partition, batch in sorted(self._open.items()):
            if batch.records:
                yield partition, batch.seal()

    def digests(self) -> dict[int, Digest]:
        """By partition, of all rows that were ever added."""
        return {partition: batch.digest for partition, batch in sorted(self._open.items())}

    def _batch(self, partition: int) -> OpenBatch:
        if partition not in self._open:
            self._open[partition] = self._codec.open_batch(self._format)
        return self._open[partition]


class PartitionedDigests:
    """What `PartitionedBatches.digests` would say, without keeping any bytes: for a replay,
    and for digests of other values."""

    def __init__(self, codec: Codec, batch_format: BatchFormat) -> None:
        self._codec = codec
        self._format = batch_format
        self._open: dict[int, OpenBatch] = {}

    def add(self, rows: pa.RecordBatch, partitions: Ints) -> None:
        """See `PartitionedBatches.add`."""
        columns = record_columns(rows)
        order, shares = _shares(columns, partitions)
        for share in shares:
            batch, index = (
                self._open.setdefault(share.partition, self._codec.open_batch(self._format)),
                share.start,
            )
            while (index := batch.append(columns, order, index, share.stop)) < share.stop:
                batch.discard()

    def digests(self) -> dict[int, Digest]:
        return {partition: batch.digest for partition, batch in sorted(self._open.items())}


def partition_of(codec: Codec, keys: pa.Array, partitions: int) -> Ints:
    """Kafka's murmur2 partition of each key (binary or text), -1 for null. partitions:
    how many there are, at least 1."""
    if partitions < 1:
        raise ValueError(f"a topic has at least one partition, not {partitions}")
    return codec.partition_of(bytes_column(keys, "key"), len(keys), partitions)


def _shares(columns: RecordColumns, partitions: Ints) -> tuple[Ints, Sequence[_Share]]:
    """Row numbers ordered by partition, the order within each kept, and which of them are whose."""
    if len(partitions) != columns.rows:
        raise ValueError(f"{columns.rows} rows need as many partition numbers, not {len(partitions)}")
    if columns.rows == 0:
        return np.empty(0, np.int32), []
    if partitions.min() < 0:
        raise ValueError(f"row {int(partitions.argmin())} has partition {int(partitions.min())}")
    counts = np.bincount(partitions)
    numbers = np.flatnonzero(counts)
    if len(numbers) == 1:
        order: Ints = np.arange(columns.rows, dtype=np.int32)
    else:
        order = np.argsort(partitions, kind="stable").astype(np.int32)
    stops = np.cumsum(counts[numbers])
    starts = stops - counts[numbers]
    return order, [
        _Share(*share) for share in zip(numbers.tolist(), starts.tolist(), stops.tolist(), strict=True)
    ]
