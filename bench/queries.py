"""The queries that both sides run. Imported by kcontrol's Python and by Spark's own, so it
needs PySpark and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

NUMBER_DIGITS = 12
"""A record's value begins with its number in so many decimal digits."""


def passthrough(records: DataFrame) -> DataFrame:
    """Values as they come, without keys: nothing has to be shuffled on either side."""
    return records.select("value")


def keyed(records: DataFrame) -> DataFrame:
    """Keys and values as they come: kcontrol must bring equal keys to the partition's one writer."""
    return records.select("key", "value")


def aggregate(records: DataFrame) -> DataFrame:
    """A running count and sum by key, one row for each key that a step touches."""
    totals = records.groupBy("key").agg(F.count("*").alias("n"), F.sum(_number()).alias("total"))
    return _written(totals)


def numbered(records: DataFrame) -> DataFrame:
    """What the aggregate needs of the records."""
    return records.select("key", _number().alias("number"))


PARTS = {"n": "count(*)", "total": "sum(number)"}
"""Of numbered records: what can be brought to one row a key before they meet."""


def merged(parts: DataFrame) -> DataFrame:
    """The aggregate, of rows that were."""
    return _written(parts.groupBy("key").agg(F.sum("n").alias("n"), F.sum("total").alias("total")))


def _number() -> Column:
    return F.substring(F.col("value").cast("string"), 1, NUMBER_DIGITS).cast("long")


def _written(totals: DataFrame) -> DataFrame:
    return totals.select("key", F.concat_ws(",", "n", "total").cast("binary").alias("value"))


QUERIES = {"passthrough": passthrough, "keyed": keyed, "aggregate": aggregate}
MODES: Mapping[str, Literal["append", "update"]] = {
    "passthrough": "append",
    "keyed": "append",
    "aggregate": "update",
}
