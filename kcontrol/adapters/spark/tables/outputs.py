"""Outputs as tables: every record that steps have written, and the newest of each key."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from kcontrol.core.model import OutputSpec

LATEST = "__latest"
"""After an output's name: its table of the newest record of each key."""
_JSON = "json"
_PLACE = ("partition", "offset", "step", "timestamp")


def read_output(spark: SparkSession, output: OutputSpec, file: Path) -> DataFrame:
    """Every record, from the file that holds them. Of an output with JSON values key and value are texts, and the
    column `json` has the value parsed."""
    frame = spark.read.parquet(file.as_uri())
    if output.value_format != _JSON:
        return frame.select("key", "value", "headers", *_PLACE)
    text = sf.col("value").cast("string")
    return frame.select(
        sf.col("key").cast("string").alias("key"),
        text.alias("value"),
        sf.try_parse_json(text).alias("json"),
        "headers",
        *_PLACE,
    )


def read_latest(spark: SparkSession, output: OutputSpec, file: Path) -> DataFrame:
    """The newest record of each key. Keys whose newest record has no value are deleted, and are left out, as are
    records without a key."""
    frame = spark.read.parquet(file.as_uri()).where("key is not null")
    whole = sf.struct("value", "headers", *_PLACE)
    newest = frame.groupBy("key").agg(sf.max_by(whole, sf.struct("step", "offset")).alias("newest"))
    found = newest.select("key", "newest.*").where("value is not null")
    if output.value_format != _JSON:
        return found
    text = sf.col("value").cast("string")
    return found.select(
        sf.col("key").cast("string").alias("key"),
        text.alias("value"),
        sf.try_parse_json(text).alias("json"),
        "headers",
        *_PLACE,
    )
