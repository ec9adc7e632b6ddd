"""Rows on their way to a topic: which output each belongs to.

A writer's rows have the columns that `query/outputs.py` gives them: key, value, headers, partition and output, those that
the query has. Which partition a row belongs to: `kcontrol.adapters.kafka.write.targets`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from kcontrol.adapters.kafka.write.targets import DIGEST_COLUMN, SHARD_COLUMN, OutputTarget, place
from kcontrol.errors import ConfigurationError

__all__ = [
    "DIGEST_COLUMN",
    "NOTHING_TYPE",
    "OUTPUT_COLUMN",
    "PARTITION_COLUMN",
    "SHARD_COLUMN",
    "OutputTarget",
    "SendTarget",
    "place",
    "split_by_output",
]

OUTPUT_COLUMN = "output"
PARTITION_COLUMN = "kcontrol_partition"
HASH_COLUMNS = ("_h1", "_h2")
"""Two hashes of such a row, of which the digest is made; they are not sent. Where it has nested columns each is two, in a
struct: PLAIN, which nulls and lengths within these leave as it is, and EXACT."""
PLAIN, EXACT = "plain", "exact"

NOTHING_TYPE = StructType([])
"""Of the rows that writer tasks give to Spark: none. What they wrote goes to the driver."""


@dataclass(frozen=True, slots=True)
class SendTarget:
    """One exchange, as those who send rows to it see it.

    first: the slot of this node's first sender task; the others' follow. owners: the node that rows of a shard are for, by
    shard; by partition, if they are rows of an output, which the nodes that own its partitions write.
    """

    exchange: str
    topic: str
    first: int
    nodes: int
    owners: tuple[int, ...]
    output: OutputTarget | None = None
    compression: str = "lz4"


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
