"""Kafka record batches v2 to Arrow and back, with the digests of what is in them.

`Fetched` reads the bytes of a fetch; `PartitionedBatches` makes the batches of a transaction;
`PartitionedDigests` only counts and hashes. The loops over records are compiled
(`kcontrol.wire.batches.compiled`), with a reference in plain Python.
"""

from __future__ import annotations

import pyarrow as pa

from kcontrol.wire.batches import flat_json, lines, plain_json
from kcontrol.wire.batches.codec import (
    BatchFormat,
    Codec,
    Decoded,
    Producer,
    Run,
    SealedBatch,
    codec_named,
    decoded_schema,
    default_codec,
    default_codec_name,
)
from kcontrol.wire.batches.columns import HEADERS_TYPE, Ints
from kcontrol.wire.batches.compression import Compression
from kcontrol.wire.batches.fetch import Fetched
from kcontrol.wire.batches.layout import UNNUMBERED, Batch, first_batch_bytes, next_sequence
from kcontrol.wire.batches.partitions import PartitionedBatches, PartitionedDigests
from kcontrol.wire.batches.partitions import partition_of as _partition_of

__all__ = [
    "HEADERS_TYPE",
    "UNNUMBERED",
    "Batch",
    "BatchFormat",
    "Codec",
    "Compression",
    "Decoded",
    "Fetched",
    "Ints",
    "PartitionedBatches",
    "PartitionedDigests",
    "Producer",
    "Run",
    "SealedBatch",
    "codec_named",
    "decoded_schema",
    "default_codec",
    "default_codec_name",
    "first_batch_bytes",
    "next_sequence",
    "partition_of",
    "warm",
]


def partition_of(keys: pa.Array, partitions: int) -> Ints:
    """Kafka's default partition of each key (murmur2), -1 for null: one int32 a row."""
    return _partition_of(default_codec(), keys, partitions)


def warm() -> None:
    """Import and compile what tasks need, before the first task: called once by the
    process that forks the workers."""
    default_codec().warm()
    plain_json.warm()
    flat_json.warm()
    lines.warm()
