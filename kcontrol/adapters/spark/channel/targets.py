"""Rows on their way to a topic: which output each belongs to, and which partition.

A writer's rows have the columns that `query/outputs.py` gives them: key, value, headers, partition and output, those that
the query has. The partition of a row depends on the row and the layout alone, never on the order in which
rows come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from kcontrol.errors import ConfigurationError
from kcontrol.wire.batches import partition_of

OUTPUT_COLUMN = "output"
DIGEST_COLUMN = "kcontrol_digest"
"""What the digest is made of instead of the value, for outputs with a float tolerance."""
PARTITION_COLUMN = "kcontrol_partition"

NOTHING_TYPE = StructType([])
"""Of the rows that writer tasks give to Spark: none. What they wrote goes to the driver."""


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


def split_by_output(
    batch: pa.RecordBatch, targets: Sequence[OutputTarget]
) -> Iterator[tuple[OutputTarget, pa.Array | None, pa.RecordBatch]]:
    """(output, which rows of the batch or None for all, those rows) for each output that has rows.

    Raises ConfigurationError when a row names an output that its query doesn't have.
    """
    if OUTPUT_COLUMN not in batch.schema.names:
        yield targets[0], None, batch
        return
    names = batch.column(OUTPUT_COLUMN)
    rest = batch.drop_columns([OUTPUT_COLUMN])
    known = 0
    for target in targets:
        chosen = pc.fill_null(pc.equal(names, target.name), False)
        count = pc.sum(chosen).as_py() or 0
        known += count
        if count:
            yield target, chosen, rest.filter(chosen)
    if known != batch.num_rows:
        wrong = pc.index_in(names, pa.array([target.name for target in targets]))
        found = names.filter(pc.is_null(wrong))[0].as_py()
        raise ConfigurationError(
            f"a row's column {OUTPUT_COLUMN!r} is {found!r}; it must be one of "
            f"{', '.join(target.name for target in targets)}"
        )


def place(rows: pa.RecordBatch, target: OutputTarget, own: Sequence[int]) -> pa.Array:
    """The output partition of each row: its `partition`, else by its key as Kafka's
    clients do, else by its value.

    own: the partitions that the caller may write. Raises ConfigurationError when a row belongs to another.
    """
    names = rows.schema.names
    own_array = np.asarray(own, dtype=np.int32)
    if not len(own_array):
        raise ConfigurationError(f"output {target.name!r}: this writer has rows but may write no partition")
    if "value" in names and len(own_array) > 1:
        numbers = own_array[np.maximum(partition_of(rows.column("value"), len(own_array)), 0)]
    else:
        numbers = np.full(rows.num_rows, own_array[0], dtype=np.int32)
    if "key" in names:
        keys = rows.column("key")
        keyed = np.asarray(pc.is_valid(keys))
        numbers = np.where(keyed, partition_of(keys, target.partitions), numbers)
    if "partition" in names:
        given = rows.column("partition")
        numbers = np.where(np.asarray(pc.is_valid(given)), np.asarray(pc.fill_null(given, 0)), numbers)
    _check_owned(numbers, own_array, target)
    return pa.array(numbers.astype(np.int32, copy=False))


def _check_owned(numbers: np.ndarray, own: np.ndarray, target: OutputTarget) -> None:
    foreign = np.setdiff1d(numbers, own)
    if len(foreign):
        raise ConfigurationError(
            f"output {target.name!r}: a row belongs to partition {foreign[0]} of topic {target.topic!r}, "
            f"which has {target.partitions} partitions, of which this writer may write {own.tolist()}"
        )
