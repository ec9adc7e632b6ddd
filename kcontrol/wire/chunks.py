"""Rows for other nodes as chunks: each is an Arrow IPC stream (schema and one batch) of rows for one node, and becomes one
record of Kafka.

Arrow carries any type, and many rows in one record cost a fraction of what a record a row costs. A chunk is no larger than
`CHUNK_BYTES`, unless a single row is: then that row is alone in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from kcontrol.errors import ConfigurationError, DamagedRecordError
from kcontrol.wire.batches.columns import Ints

CHUNK_BYTES = 900_000
"""So that a batch of Kafka, of at most a million bytes, holds a whole one."""
CHUNK_FORMAT = 1
"""Of what is described here; in a header of each record."""
COMPRESSIONS = ("none", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class RowChunk:
    """`rows` rows for one node, as an Arrow IPC stream."""

    node: int
    data: pa.Buffer
    rows: int


def pack(
    rows: pa.RecordBatch,
    nodes_of_rows: Ints,
    nodes: int,
    compression: str = "lz4",
    max_bytes: int = CHUNK_BYTES,
) -> Iterator[RowChunk]:
    """Chunks of all rows, by node in ascending order; rows for one node keep their order. Nothing for no
    rows.

    nodes_of_rows: for each row the node, 0 to `nodes` - 1. compression: of Arrow's buffers: 'none', 'lz4' or
    'zstd'. max_bytes: of a chunk that has more than one row.

    Raises ConfigurationError: there is no such compression, or Arrow can't write a column. ValueError: there
    is not one node a row, or one that is not there.
    """
    options = pa.ipc.IpcWriteOptions(compression=_codec(compression))
    counts = _counts(rows.num_rows, nodes_of_rows, nodes)
    ordered = _ordered(_plain(rows), nodes_of_rows, counts)
    at = 0
    for node, count in enumerate(counts.tolist()):
        for data, packed in _cut(ordered.slice(at, count), options, max_bytes):
            yield RowChunk(node, data, packed)
        at += count


def unpack(data: pa.Buffer | bytes | memoryview, schema: pa.Schema, where: str) -> Iterator[pa.RecordBatch]:
    """The rows of one chunk, in order, with exactly this schema: columns go by their places, types and
    nullability are cast.

    where: topic, partition and offset, for messages. Raises DamagedRecordError: these bytes are no chunk.
    ConfigurationError: the chunk has other columns, or values that can't be cast.
    """
    try:
        with pa.ipc.open_stream(data) as stream:
            batches = list(stream)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, EOFError) as error:
        raise DamagedRecordError(f"{where}: this is no chunk of an exchange: {error}") from error
    for batch in batches:
        if batch.num_rows:
            yield _as_declared(batch, schema, where)


def _codec(compression: str) -> str | None:
    if compression not in COMPRESSIONS:
        raise ConfigurationError(
            f"compression {compression!r} of an exchange must be one of {', '.join(COMPRESSIONS)}"
        )
    return None if compression == "none" else compression


def _counts(rows: int, nodes_of_rows: Ints, nodes: int) -> Ints:
    """How many rows are for each node."""
    if len(nodes_of_rows) != rows:
        raise ValueError(f"{rows} rows need as many nodes, not {len(nodes_of_rows)}")
    if rows and not 0 <= nodes_of_rows.min() <= nodes_of_rows.max() < nodes:
        wrong = nodes_of_rows[(nodes_of_rows < 0) | (nodes_of_rows >= nodes)][0]
        raise ValueError(f"a row is for node {wrong}; there are {nodes}")
    return np.bincount(nodes_of_rows, minlength=nodes).astype(np.int32)


def _ordered(rows: pa.RecordBatch, nodes_of_rows: Ints, counts: Ints) -> pa.RecordBatch:
    """By node, the order within each kept."""
    if np.count_nonzero(counts) <= 1 or not rows.num_columns:
        return rows
    # numpy sorts numbers of 8 and 16 bits by counting.
    small = nodes_of_rows.astype(np.uint8 if len(counts) <= 1 << 8 else np.uint16)
    try:
        return rows.take(pa.array(np.argsort(small, kind="stable")))
    except pa.ArrowNotImplementedError as error:
        raise _unfit(error) from error


def _plain(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Without dictionaries and views, which would bring along values that none of a chunk's rows has."""
    for index, field in enumerate(rows.schema):
        plain = _plain_type(field.type)
        if plain is not None:
            kept = pa.field(field.name, plain, field.nullable, field.metadata)
            rows = rows.set_column(index, kept, rows.column(index).cast(plain))
    return rows


def _plain_type(kind: pa.DataType) -> pa.DataType | None:
    """What to make of a column that should not be sent as it is; None: it should."""
    if pat.is_dictionary(kind):
        return kind.value_type
    if pat.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if pat.is_binary_view(kind) else None


def _cut(
    rows: pa.RecordBatch, options: pa.ipc.IpcWriteOptions, max_bytes: int
) -> Iterator[tuple[pa.Buffer, int]]:
    """Pieces of the rows, in order. What they take is guessed first, and seen when they are written."""
    if not rows.num_rows:
        return
    pieces = min(rows.num_rows, -(-rows.nbytes // max_bytes) or 1)
    if pieces == 1:
        data = _written(rows, options)
        if data.size <= max_bytes or rows.num_rows == 1:
            yield data, rows.num_rows
            return
        pieces = min(rows.num_rows, -(-data.size // max_bytes))
    size = -(-rows.num_rows // pieces)
    for at in range(0, rows.num_rows, size):
        yield from _cut(rows.slice(at, size), options, max_bytes)


def _written(rows: pa.RecordBatch, options: pa.ipc.IpcWriteOptions) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    try:
        with pa.ipc.new_stream(sink, rows.schema, options=options) as stream:
            stream.write_batch(rows)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _unfit(error) from error
    return sink.getvalue()


def _unfit(error: Exception) -> ConfigurationError:
    return ConfigurationError(
        f"an exchange can't carry these rows: {error}: leave the column out, or cast it before it is exchanged"
    )


def _as_declared(batch: pa.RecordBatch, schema: pa.Schema, where: str) -> pa.RecordBatch:
    if batch.schema.equals(schema, check_metadata=True):
        return batch
    if batch.schema.names != schema.names:
        raise ConfigurationError(
            f"{where}: the rows have the columns {', '.join(batch.schema.names) or 'none'}; the exchange declares "
            f"{', '.join(schema.names) or 'none'}: they were sent by another version of the query"
        )
    if not schema.names:
        return batch
    try:
        columns = [_cast(column, field) for column, field in zip(batch.columns, schema, strict=True)]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise ConfigurationError(
            f"{where}: the rows can't be brought to what the exchange declares: {error}"
        ) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    if not field.nullable and column.null_count:
        raise ValueError(f"column {field.name!r} holds nulls and is declared without")
    return column if column.type.equals(field.type) else column.cast(field.type)
