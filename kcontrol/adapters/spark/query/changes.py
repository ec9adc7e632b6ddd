"""From the changes that Debezium has caught to the newest row of each key.

An envelope says what a row was and is (`before`, `after`) and what was done (`op`). Structured Streaming takes nothing
back, so a deletion is a row, too: the last that its key had, marked. The order is that of Kafka, in which Debezium
keeps all changes of a key in one partition; nothing depends on clocks, nor on tombstones, which may be lost (DBZ-9022).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from kcontrol.adapters.spark.query.parse import DELETED
from kcontrol.errors import ConfigurationError

OP = "op"
_SEEN = "__kcontrol_row"
_CHANGES = ("c", "r", "u", "d")
_NO_CHANGE = "m"
"""A message of the database's log, which is of no row."""


def newest_rows(changes: DataFrame, key: str | Sequence[str], order_by: str = "offset") -> DataFrame:
    """The newest row of each key, of a frame with the columns `before`, `after` and `op` of Debezium's envelope.

    key: the columns of the row that tell rows apart. order_by: the column by which the newest is the one with the
    greatest value; by default Kafka's offset, which is right as long as a key stays in its partition.

    The result has the row's columns, `op`, and `deleted`, which is true for a key that is deleted; in update mode each
    change of a key is a row of it. Into KafkaOutput(key=..., deleted_by="deleted") it makes a compacted topic.
    A change of a row whose key is not told fails the step. On several nodes rows of a key must be together, as for any
    aggregation. Raises ConfigurationError.
    """
    keys = [key] if isinstance(key, str) else list(key)
    row = _row_type(changes, keys, order_by)
    wrong = sf.concat(
        sf.lit("newest_rows: op is "),
        sf.col(OP),
        sf.lit(", which is no change of a row (c, r, u, d): filter it out, or start anew after a TRUNCATE"),
    )
    seen = sf.when(sf.col(OP) == "d", sf.coalesce("before", "after")).otherwise(sf.col("after"))
    # A tombstone has no envelope at all.
    is_change = (
        sf.when(sf.col(OP).isNull() | (sf.col(OP) == _NO_CHANGE), sf.lit(False))
        .when(~sf.col(OP).isin(*_CHANGES), sf.raise_error(wrong).cast("boolean"))
        .when(_lacks(seen, keys), sf.raise_error(_nameless(keys)).cast("boolean"))
        .otherwise(sf.lit(True))
    )
    frame = changes.filter(is_change).select(
        seen.alias(_SEEN), OP, sf.col(order_by).alias("__kcontrol_order")
    )
    grouped = frame.groupBy(*[sf.col(f"{_SEEN}.`{name}`").alias(name) for name in keys])
    newest = grouped.agg(
        sf.max_by(sf.struct(_SEEN, OP), sf.col("__kcontrol_order")).alias("__kcontrol_newest")
    )
    others = [field.name for field in row.fields if field.name not in keys]
    return newest.select(
        *keys,
        *[sf.col(f"__kcontrol_newest.{_SEEN}.`{name}`").alias(name) for name in others],
        sf.col(f"__kcontrol_newest.{OP}").alias(OP),
        (sf.col(f"__kcontrol_newest.{OP}") == "d").alias(DELETED),
    )


def _lacks(row: Column, keys: Sequence[str]) -> Column:
    """Whether nobody can tell which row it is."""
    return reduce(or_, [row.getField(name).isNull() for name in keys])


def _nameless(keys: Sequence[str]) -> Column:
    return sf.concat(
        sf.lit("newest_rows: op is "),
        sf.col(OP),
        sf.lit(
            f", and the row has no {', '.join(keys)}, so that nobody can tell which one was changed: see to it that the "
            "database tells the keys of rows that it deletes (REPLICA IDENTITY), or filter it out"
        ),
    )


def _row_type(changes: DataFrame, keys: Sequence[str], order_by: str) -> StructType:
    for name in ("before", "after", OP, order_by):
        if name not in changes.columns:
            raise ConfigurationError(
                f"newest_rows: the frame has no column {name!r}; it has {', '.join(changes.columns)}. Of JSON with "
                "schemas, take select('payload.*', 'offset')"
            )
    row = changes.schema["after"].dataType
    if (
        not isinstance(row, StructType)
        or changes.schema["before"].dataType.simpleString() != row.simpleString()
    ):
        raise ConfigurationError("newest_rows: before and after must be structs with the same fields")
    lacking = [name for name in keys if name not in row.fieldNames()]
    if lacking or not keys:
        raise ConfigurationError(
            f"newest_rows: key = {list(keys)}: must name fields of the row, which are {', '.join(row.fieldNames())}"
        )
    taken = [name for name in (OP, DELETED) if name in row.fieldNames()]
    if taken:
        raise ConfigurationError(
            f"newest_rows: the row has a field {taken[0]!r} of its own, which the result would have twice: rename it in "
            "the schema"
        )
    return row
