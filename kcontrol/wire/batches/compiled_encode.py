"""The open batch of one partition, filled by the compiled loop."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kcontrol.wire.batches import compiled
from kcontrol.wire.batches.codec import BatchFormat, SealedBatch, sealed_bytes
from kcontrol.wire.batches.columns import Bytes, Ints, Longs, RecordColumns, as_bytes
from kcontrol.wire.batches.compression import Compression, pack
from kcontrol.wire.batches.layout import HEADER_BYTES, TRANSACTIONAL, next_sequence, seal
from kcontrol.wire.digest import Digest, varint

_FIRST_CAPACITY_BYTES = 16 << 10


class CompiledOpenBatch:
    """See `OpenBatch`. Its buffer grows with what is in it, so that many partitions with few rows each cost
    little."""

    def __init__(self, batch_format: BatchFormat) -> None:
        self._format = batch_format
        self._extra = as_bytes(
            b"".join(_header(name, content) for name, content in batch_format.extra_headers)
        )
        self._limit = batch_format.max_batch_bytes
        self._buffer: Bytes = np.empty(min(_FIRST_CAPACITY_BYTES, self._limit), np.uint8)
        self._state: Longs = np.array([HEADER_BYTES, 0, 0, 0], np.int64)
        self._total: npt.NDArray[np.uint64] = np.zeros(2, np.uint64)
        self._sealed_records = 0
        self._sequence = batch_format.first_sequence

    @property
    def records(self) -> int:
        return int(self._state[compiled.COUNT])

    @property
    def digest(self) -> Digest:
        return Digest(self._sealed_records + self.records, int(self._total[1]) << 64 | int(self._total[0]))

    def append(self, columns: RecordColumns, order: Ints, index: int, stop: int) -> int:
        while index < stop:
            index = self._encode(columns, order, index, stop)
            if index == stop or not self._grow():
                break
        return index

    def seal(self) -> SealedBatch:
        records, size = self.records, int(self._state[compiled.POSITION])
        attributes = TRANSACTIONAL
        out: bytearray | memoryview = self._buffer.data[:size]
        compression = self._format.compression
        if compression is not Compression.NONE:
            packed = pack(compression, bytes(out[HEADER_BYTES:]))
            if len(packed) < size - HEADER_BYTES:
                attributes |= compression
                out = bytearray(HEADER_BYTES) + packed
        producer = (self._format.producer.producer_id, self._format.producer.producer_epoch, self._sequence)
        seal(out, len(out), records, attributes, self._format.timestamp_ms, producer)
        sealed = SealedBatch(
            sealed_bytes(out, self._sequence), records, self._sequence, int(self._state[compiled.LARGEST])
        )
        self._begin_next(records)
        return sealed

    def discard(self) -> None:
        """Forget the open batch's bytes; its records stay in the digest."""
        self._begin_next(self.records)

    def _begin_next(self, records: int) -> None:
        self._sealed_records += records
        self._sequence = next_sequence(self._sequence, records)
        self._state[:] = (HEADER_BYTES, 0, 0, 0)
        if len(self._buffer) > self._limit:
            self._buffer = np.empty(self._limit, np.uint8)

    def _encode(self, columns: RecordColumns, order: Ints, index: int, stop: int) -> int:
        headers = columns.headers
        added: int = compiled.encode(
            order, index, stop, *columns.keys, *columns.values, headers.lists,
            headers.names.ends, headers.names.data, headers.contents.ends, headers.contents.data, headers.contents.valid,
            self._extra, len(self._format.extra_headers), self._buffer, len(self._buffer), self._state,
            np.uint64(self._format.digest_kind), np.uint64(self._format.digest_number), self._total,
        )  # fmt: skip
        return added

    def _grow(self) -> bool:
        """Make room for the record that did not fit; False when the batch is full."""
        size = int(self._state[compiled.POSITION])
        needed = size + int(self._state[compiled.NEXT])
        capacity = min(max(2 * len(self._buffer), needed), self._limit)
        if self.records == 0:
            capacity = max(capacity, needed)
        if capacity < needed:
            return False
        grown = np.empty(capacity, np.uint8)
        grown[:size] = self._buffer[:size]
        self._buffer = grown
        return True


def _header(name: str, content: bytes) -> bytes:
    encoded = name.encode()
    return varint(len(encoded)) + encoded + varint(len(content)) + content
