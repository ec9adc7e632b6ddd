"""Runs of batches to Arrow through the compiled loop: it sizes the outputs and makes arrays of what was
filled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kcontrol.wire.batches import compiled
from kcontrol.wire.batches.codec import Decoded, Run, decoded_schema
from kcontrol.wire.batches.columns import HEADERS_TYPE, Bytes, Ints, Longs, as_bytes
from kcontrol.wire.digest import Digest, DigestKind

_NAME_TYPE, _CONTENT_TYPE = (
    HEADERS_TYPE.value_type.field("key").type,
    HEADERS_TYPE.value_type.field("value").type,
)


def decode_runs(runs: Sequence[Run], kind: DigestKind, *, headers: bool) -> Decoded | None:
    """The rows of runs, or None if the reference codec has to read one of them."""
    data, table = _joined(runs)
    room = _Room.of(int(table[:, compiled.RECORDS].sum()), len(data), len(runs))
    status = compiled.decode(
        data, table, np.uint64(kind),
        room.key_ends, room.keys, room.key_valid, room.value_ends, room.values, room.value_valid,
        room.offsets, room.timestamps_us, room.timestamp_types, room.header_starts, room.counts, room.digests,
    )  # fmt: skip
    if status != compiled.DECODED:
        return None
    rows = int(room.counts[compiled.ROWS])
    arrays = [
        _bytes_array(pa.binary(), rows, room.key_ends, room.keys, room.key_valid),
        _bytes_array(pa.binary(), rows, room.value_ends, room.values, room.value_valid),
        _numbers(pa.int64(), rows, room.offsets),
        _numbers(pa.timestamp("us", tz="UTC"), rows, room.timestamps_us),
        _numbers(pa.int32(), rows, room.timestamp_types),
    ]
    if headers:
        arrays.append(_headers(data, rows, room))
    digests = [Digest(count, high << 64 | low) for low, high, count in room.digests.tolist()]
    return Decoded(pa.RecordBatch.from_arrays(arrays, schema=decoded_schema(headers=headers)), digests)


@dataclass(frozen=True, slots=True)
class _Room:
    """Where the loop writes. Memory that it does not touch is never really taken."""

    key_ends: Ints
    keys: Bytes
    key_valid: Bytes
    value_ends: Ints
    values: Bytes
    value_valid: Bytes
    offsets: Longs
    timestamps_us: Longs
    timestamp_types: Ints
    header_starts: Longs
    counts: Longs
    digests: npt.NDArray[np.uint64]

    @classmethod
    def of(cls, rows: int, size: int, runs: int) -> _Room:
        bitmap = rows // 8 + 1
        return cls(
            key_ends=_ends(rows),
            keys=np.empty(size, np.uint8),
            key_valid=np.zeros(bitmap, np.uint8),
            value_ends=_ends(rows),
            values=np.empty(size, np.uint8),
            value_valid=np.zeros(bitmap, np.uint8),
            offsets=np.empty(rows, np.int64),
            timestamps_us=np.empty(rows, np.int64),
            timestamp_types=np.empty(rows, np.int32),
            header_starts=np.empty(rows, np.int64),
            counts=np.zeros(4, np.int64),
            digests=np.zeros((runs, 3), np.uint64),
        )


def _joined(runs: Sequence[Run]) -> tuple[Bytes, Longs]:
    """The records of all batches in one piece and the table that `compiled.decode` takes."""
    pieces: list[memoryview] = []
    table: list[tuple[int, ...]] = []
    end = 0
    for number, run in enumerate(runs):
        for payload in run.payloads:
            batch, start = payload.batch, end
            end += len(payload.records)
            stamp = batch.max_timestamp_ms if batch.append_time else batch.first_timestamp_ms
            where = (start, end, batch.base_offset, batch.last_offset_delta, stamp, batch.records)
            table.append((*where, batch.append_time, run.first, run.to, number))
            pieces.append(payload.records)
    data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    return as_bytes(data), np.array(table, np.int64)


def _headers(data: Bytes, rows: int, room: _Room) -> pa.Array:
    count = int(room.counts[compiled.HEADERS])
    lists, name_ends, content_ends = _ends(rows), _ends(count), _ends(count)
    names = np.empty(int(room.counts[compiled.HEADER_KEY_BYTES]), np.uint8)
    contents = np.empty(int(room.counts[compiled.HEADER_VALUE_BYTES]), np.uint8)
    valid = np.zeros(count // 8 + 1, np.uint8)
    compiled.decode_headers(
        data, room.header_starts, rows, lists, name_ends, names, content_ends, contents, valid
    )
    fields = [
        _bytes_array(_NAME_TYPE, count, name_ends, names, None),
        _bytes_array(_CONTENT_TYPE, count, content_ends, contents, valid),
    ]
    structs = pa.StructArray.from_arrays(fields, fields=list(HEADERS_TYPE.value_type))
    return pa.ListArray.from_arrays(pa.array(lists, pa.int32()), structs, type=HEADERS_TYPE)


def _ends(rows: int) -> Ints:
    ends: Ints = np.empty(rows + 1, np.int32)
    ends[0] = 0
    return ends


def _bytes_array(kind: pa.DataType, rows: int, ends: Ints, data: Bytes, valid: Bytes | None) -> pa.Array:
    bitmap = None if valid is None else pa.py_buffer(valid)
    return pa.Array.from_buffers(kind, rows, [bitmap, pa.py_buffer(ends), pa.py_buffer(data)])


def _numbers(kind: pa.DataType, rows: int, numbers: Ints | Longs) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(numbers)], null_count=0)
