"""Rows on their way to an output's topic: which partition each belongs to.

A writer's rows have the columns key, value, headers and partition, those that the query has. The partition of a row depends on
the row and the layout alone, never on the order in which rows come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kcontrol.errors import ConfigurationError
from kcontrol.wire.batches import partition_of
from kcontrol.wire.batches.columns import Ints

DIGEST_COLUMN = "kcontrol_digest"
"""What the digest is made of instead of the value, for outputs with a float tolerance."""
GIVEN_COLUMN = "partition"
"""The partition that a row brings."""
SHARD_COLUMN = "_shard"
"""Of rows that nodes have brought together: a hash of the columns by which they did, modulo the number of shards."""


@dataclass(frozen=True, slots=True)
class OutputTarget:
    """One output of a query, as its writers see it."""

    name: str
    topic: str
    partitions: int
    own: tuple[int, ...]
    """The partitions that this node may write."""
    digest: str
    compression: str = "none"


def place(rows: pa.RecordBatch, target: OutputTarget, own: Sequence[int]) -> pa.Array:
    """The output partition of each row: of its shard if it brings that, else its `partition`, else by its key as Kafka's
    clients do, else by its value.

    own: the partitions that the caller may write. Raises ConfigurationError when a row belongs to another.
    """
    own_array = np.asarray(own, dtype=np.int32)
    numbers = _placed(rows, target, own_array)
    _check_owned(numbers, own_array, target)
    return pa.array(numbers)


def addressed(
    rows: pa.RecordBatch, target: OutputTarget, node_of: Sequence[int]
) -> tuple[pa.RecordBatch, Ints]:
    """Rows that are delivered by the nodes that own their partitions: with their `partition` filled in, and for each row the
    node. A row with neither key nor partition goes to one of `target.own`, the sender's own partitions.

    node_of: by partition of the output, the node that writes it. Raises ConfigurationError when a row belongs to a partition
    that is not there.
    """
    numbers = _placed(rows, target, np.asarray(target.own or range(target.partitions), dtype=np.int32))
    nodes = np.asarray(node_of, dtype=np.int32)
    wrong = numbers[(numbers < 0) | (numbers >= len(nodes))]
    if len(wrong):
        raise ConfigurationError(
            f"output {target.name!r}: a row belongs to partition {wrong[0]} of topic {target.topic!r}, which has "
            f"{target.partitions} partitions"
        )
    column = pa.array(numbers)
    at = rows.schema.get_field_index(GIVEN_COLUMN)
    if at < 0:
        return rows.append_column(GIVEN_COLUMN, column), nodes[numbers]
    return rows.set_column(at, GIVEN_COLUMN, column), nodes[numbers]


def digest_rows(rows: pa.RecordBatch) -> pa.RecordBatch | None:
    """What the digest is made of instead of the rows themselves; None: of those."""
    if DIGEST_COLUMN not in rows.schema.names:
        return None
    columns = [name for name in ("key", "headers") if name in rows.schema.names]
    return rows.select([*columns, DIGEST_COLUMN]).rename_columns([*columns, "value"])


def _placed(rows: pa.RecordBatch, target: OutputTarget, own: Ints) -> Ints:
    """own: among which rows without key and partition are dealt out. Raises ConfigurationError when there are none."""
    names = rows.schema.names
    if not len(own):
        raise ConfigurationError(f"output {target.name!r}: this writer has rows but may write no partition")
    if SHARD_COLUMN in names:
        of_shard: Ints = np.asarray(rows.column(SHARD_COLUMN)) % np.int32(target.partitions)
        return of_shard
    if "value" in names and len(own) > 1:
        numbers = own[np.maximum(partition_of(rows.column("value"), len(own)), 0)]
    else:
        numbers = np.full(rows.num_rows, own[0], dtype=np.int32)
    if "key" in names:
        keys = rows.column("key")
        keyed = np.asarray(pc.is_valid(keys))
        numbers = np.where(keyed, partition_of(keys, target.partitions), numbers)
    if GIVEN_COLUMN in names:
        given = rows.column(GIVEN_COLUMN)
        numbers = np.where(np.asarray(pc.is_valid(given)), np.asarray(pc.fill_null(given, 0)), numbers)
    placed: Ints = numbers.astype(np.int32, copy=False)
    return placed


def _check_owned(numbers: Ints, own: Ints, target: OutputTarget) -> None:
    foreign = np.setdiff1d(numbers, own)
    if len(foreign):
        raise ConfigurationError(
            f"output {target.name!r}: a row belongs to partition {foreign[0]} of topic {target.topic!r}, "
            f"which has {target.partitions} partitions, of which this writer may write {own.tolist()}"
        )
