"""Rows for other nodes as chunks: each is an Arrow IPC stream (schema and one batch) of rows for one node, and becomes one
record of Kafka.

Arrow carries any type, and many rows in one record cost a fraction of what a record a row costs. A chunk is no larger than
`CHUNK_BYTES`, unless a single row is: then that row is alone in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from kcontrol.wire.batches.columns import Ints

CHUNK_BYTES = 900_000
"""So that a batch of Kafka, of at most a million bytes, holds a whole one."""
CHUNK_FORMAT = 1
"""Of what is described here; in a header of each record."""
COMPRESSIONS = ("none", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class Chunk:
    """`rows` rows for one node, as an Arrow IPC stream."""

    node: int
    data: pa.Buffer
    rows: int


def pack(
    rows: pa.RecordBatch, nodes_of_rows: Ints, nodes: int, compression: str = "lz4", max_bytes: int = CHUNK_BYTES
) -> Iterator[Chunk]:
    """Chunks of all rows, by node in ascending order; rows for one node keep their order. Nothing for no rows.

    nodes_of_rows: for each row the node, 0 to `nodes` - 1. compression: of Arrow's buffers: 'none', 'lz4' or 'zstd'.
    max_bytes: of a chunk that has more than one row.

    Raises ConfigurationError: there is no such compression, or Arrow can't write a column. ValueError: there is not one node
    a row, or one that is not there.
    """
    raise NotImplementedError


def unpack(data: pa.Buffer | bytes | memoryview, schema: pa.Schema, where: str) -> Iterator[pa.RecordBatch]:
    """The rows of one chunk, in order, with exactly this schema: names as they were packed, types and nullability cast.

    where: topic, partition and offset, for messages. Raises DamagedRecordError: these bytes are no chunk.
    ConfigurationError: the chunk has other columns, or values that can't be cast.
    """
    raise NotImplementedError
