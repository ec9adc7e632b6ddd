"""The codec in plain Python: slow, easy to check, and the last word on what damaged or unusual bytes mean.

Writes through aiokafka's batch builder; reads with `kcontrol.wire.batches.records` (which
says why not aiokafka's parser).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from kcontrol.wire.batches.codec import (
    BatchFormat,
    Decoded,
    OpenBatch,
    Run,
    SealedBatch,
    decoded_schema,
    sealed_bytes,
)
from kcontrol.wire.batches.columns import BytesColumn, Ints, RecordColumns
from kcontrol.wire.batches.compression import Compression, pack
from kcontrol.wire.batches.layout import HEADER_BYTES, TRANSACTIONAL, next_sequence, seal
from kcontrol.wire.batches.records import parse
from kcontrol.wire.digest import EMPTY, Digest, DigestKind, Headers, record_digest
from kcontrol.wire.murmur2 import partition_of

_MAGIC = 2
_UNBOUNDED = 1 << 30


class ReferenceCodec:
    """See `Codec`."""

    name = "reference"

    def decode(self, runs: Sequence[Run], kind: DigestKind, *, headers: bool) -> Decoded:
        rows: list[tuple[object, ...]] = []
        digests = [_decode(run, kind, rows, headers=headers) for run in runs]
        schema = decoded_schema(headers=headers)
        columns = zip(*rows, strict=True) if rows else [()] * len(schema)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        return Decoded(pa.RecordBatch.from_arrays(arrays, schema=schema), digests)

    def open_batch(self, batch_format: BatchFormat) -> OpenBatch:
        return ReferenceOpenBatch(batch_format)

    def partition_of(self, keys: BytesColumn, rows: int, partitions: int) -> Ints:
        found = (_item(keys, row) for row in range(rows))
        return np.array([-1 if key is None else partition_of(key, partitions) for key in found], np.int32)

    def warm(self) -> None:
        """Nothing is compiled."""


def _decode(run: Run, kind: DigestKind, rows: list[tuple[object, ...]], *, headers: bool) -> Digest:
    """Add the rows of a run."""
    digest = EMPTY
    for payload in run.payloads:
        append_time = payload.batch.append_time
        for record in parse(payload.records, payload.batch, run.where):
            if run.first <= record.offset < run.to:
                row = (record.key, record.value, record.offset, record.timestamp_ms * 1000, int(append_time))
                rows.append((*row, _header_rows(record.headers)) if headers else row)
                content = (record.key, record.value, record.headers, record.timestamp_ms, append_time)
                digest += record_digest(kind, record.offset, *content)
    return digest


class ReferenceOpenBatch:
    """See `OpenBatch`."""

    def __init__(self, batch_format: BatchFormat) -> None:
        self._format = batch_format
        self._digest = EMPTY
        self._sequence = batch_format.first_sequence
        self._records = 0
        self._largest = 0
        self._builder = self._new_builder()

    @property
    def records(self) -> int:
        return self._records

    @property
    def digest(self) -> Digest:
        return self._digest

    def append(self, columns: RecordColumns, order: Ints, index: int, stop: int) -> int:
        kind, number = self._format.digest_kind, self._format.digest_number
        for position in range(index, stop):
            row = int(order[position])
            key, value, own = _item(columns.keys, row), _item(columns.values, row), _own_headers(columns, row)
            headers = [*own, *self._format.extra_headers]
            timestamp_ms = self._format.timestamp_ms
            size = self._builder.size_in_bytes(self._records, timestamp_ms, key, value, headers)
            if self._records and self._builder.size() + size > self._format.max_batch_bytes:
                return position
            self._builder.append(self._records, timestamp_ms, key, value, headers)
            self._records += 1
            self._largest = max(self._largest, size)
            self._digest += record_digest(kind, number, key, value, own)
        return stop

    def seal(self) -> SealedBatch:
        out = self._builder.build()
        compression, attributes = self._format.compression, TRANSACTIONAL
        packed = pack(compression, bytes(out[HEADER_BYTES:]))
        if len(packed) < len(out) - HEADER_BYTES:
            attributes |= compression
            out = bytearray(HEADER_BYTES) + packed
        producer = self._format.producer
        numbers = (producer.producer_id, producer.producer_epoch, self._sequence)
        seal(out, len(out), self._records, attributes, self._format.timestamp_ms, numbers)
        sealed = SealedBatch(sealed_bytes(out, self._sequence), self._records, self._sequence, self._largest)
        self.discard()
        return sealed

    def discard(self) -> None:
        """Forget the open batch's bytes; its records stay in the digest."""
        self._sequence = next_sequence(self._sequence, self._records)
        self._records = 0
        self._largest = 0
        self._builder = self._new_builder()

    def _new_builder(self) -> Any:
        producer = self._format.producer
        identity = (producer.producer_id, producer.producer_epoch, self._sequence)
        return DefaultRecordBatchBuilder(_MAGIC, Compression.NONE, 1, *identity, _UNBOUNDED)


def _header_rows(headers: Headers) -> list[dict[str, str | bytes | None]]:
    return [{"key": name, "value": content} for name, content in headers]


def _own_headers(columns: RecordColumns, row: int) -> list[tuple[str, bytes | None]]:
    headers = columns.headers
    if not len(headers.lists):
        return []
    numbers = range(int(headers.lists[row]), int(headers.lists[row + 1]))
    return [
        ((_item(headers.names, number) or b"").decode(), _item(headers.contents, number))
        for number in numbers
    ]


def _item(column: BytesColumn, row: int) -> bytes | None:
    if len(column.valid) and not column.valid[row]:
        return None
    return column.data[column.ends[row] : column.ends[row + 1]].tobytes()
