"""The queries that both sides run. Imported by kcontrol's Python and by Spark's own, so it
needs PySpark and nothing else."""

from __future__ import annotations

from pyspark.sql import DataFrame
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
    number = F.substring(F.col("value").cast("string"), 1, NUMBER_DIGITS).cast("long")
    totals = records.groupBy("key").agg(F.count("*").alias("n"), F.sum(number).alias("total"))
    return totals.select("key", F.concat_ws(",", "n", "total").cast("binary").alias("value"))


QUERIES = {"passthrough": passthrough, "keyed": keyed, "aggregate": aggregate}
MODES = {"passthrough": "append", "keyed": "append", "aggregate": "update"}
