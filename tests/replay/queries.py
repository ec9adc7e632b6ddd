"""Queries of every kind that Structured Streaming has, as a user would write them.

Values are JSON: {"name", "at" in seconds, "n"}.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import DoubleType

import kcontrol

SCHEMA = "name string, at long, n double"


def fields(frame: DataFrame) -> DataFrame:
    """The value's fields, with `time` as event time."""
    return frame.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("v")).select(
        "v.name", F.timestamp_seconds("v.at").alias("time"), "v.n"
    )


def stateless(events: DataFrame) -> Any:
    return {"out": fields(events).filter("n >= 0").select("name", (F.col("n") * 2).alias("n"))}


def both(events: DataFrame, others: DataFrame) -> Any:
    return {"out": fields(events).unionByName(fields(others)).select("name", "n")}


@F.pandas_udf(DoubleType())  # type: ignore[call-overload]
def halved(numbers: pd.Series) -> pd.Series:
    return numbers / 2


def in_pandas(events: DataFrame) -> Any:
    return {"out": fields(events).select("name", halved("n").alias("n"))}


def parsed(events: DataFrame) -> Any:
    """Of an input that has the fields already."""
    return {"out": events.select("name", "n")}


def update(events: DataFrame) -> Any:
    return {
        "out": kcontrol.output(
            fields(events).groupBy("name").agg(F.count("*").alias("c"), F.sum("n").alias("s")), mode="update"
        )
    }


def append(events: DataFrame) -> Any:
    windows = (
        fields(events).withWatermark("time", "5 seconds").groupBy("name", F.window("time", "10 seconds"))
    )
    return {
        "out": windows.agg(F.count("*").alias("c")).select("name", F.col("window.start").alias("start"), "c")
    }


def union(events: DataFrame, others: DataFrame) -> Any:
    both = fields(events).unionByName(fields(others))
    return {"out": kcontrol.output(both.groupBy("name").agg(F.count("*").alias("c")), mode="update")}


def join(events: DataFrame, others: DataFrame) -> Any:
    left = fields(events).select("name", F.col("n").alias("a"))
    right = fields(others).select("name", F.col("n").alias("b"))
    return {"out": left.join(right, "name")}


def outer_join(events: DataFrame, others: DataFrame) -> Any:
    left = (
        fields(events)
        .select("name", F.col("time").alias("left_time"))
        .withWatermark("left_time", "5 seconds")
    )
    right = (
        fields(others)
        .select(F.col("name").alias("other"), F.col("time").alias("right_time"))
        .withWatermark("right_time", "5 seconds")
    )
    near = F.expr(
        "name = other AND right_time BETWEEN left_time - INTERVAL 5 SECONDS AND left_time + INTERVAL 5 "
        "SECONDS"
    )
    return {"out": left.join(right, near, "leftOuter")}


def distinct(events: DataFrame) -> Any:
    return {"out": fields(events).select("name").dropDuplicates(["name"])}


def stamped(events: DataFrame) -> Any:
    return {
        "out": fields(events).select(
            "name", F.current_timestamp().alias("now"), F.current_date().alias("today")
        )
    }


def clocks(events: DataFrame, spark: SparkSession) -> Any:
    """Every form of now, from SQL, from expressions in words and from functions."""
    fields(events).createOrReplaceTempView("clocks_events")
    words = (
        "unix_timestamp() AS seconds, current_timestamp AS word, localtimestamp() AS local, curdate() "
        "AS today"
    )
    asked = spark.sql(
        f"SELECT name, now() AS sql, {words}, current_timezone() AS zone FROM clocks_events WHERE time "
        "< now()"
    )
    return {
        "out": asked.withColumns(
            {"column": F.now(), "expression": F.expr("now()"), "stamp": F.current_timestamp()}
        )
    }


class Reminder(StatefulProcessor):
    """Counts names, and 2.5 seconds of processing time after the first says how many came."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._count = handle.getValueState("count", "c long")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        first = not self._count.exists()
        before = 0 if first else self._count.get()[0]
        self._count.update((before + sum(1 for _ in rows),))
        if first:
            self._handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 2_500)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        count = self._count.get()[0]
        self._count.clear()
        yield Row(name=key[0], c=count, at=timerValues.getCurrentProcessingTimeInMs())

    def close(self) -> None:
        pass


def timers(events: DataFrame) -> Any:
    grouped = fields(events).select("name").groupBy("name")
    frame = grouped.transformWithState(
        statefulProcessor=Reminder(),
        outputStructType="name string, c long, at long",
        outputMode="Update",
        timeMode="ProcessingTime",
    )
    return {"out": kcontrol.output(frame, mode="update")}


def routed(events: DataFrame) -> Any:
    rows = fields(events).select(
        "name", "n", F.when(F.col("n") < 2, F.lit("out")).otherwise(F.lit("more")).alias("output")
    )
    return kcontrol.outputs(rows, to=["out", "more"])


def counted(events: DataFrame) -> Any:
    return {
        "more": kcontrol.output(fields(events).groupBy("name").agg(F.count("*").alias("c")), mode="update")
    }


def copied(events: DataFrame) -> Any:
    return {"copies": fields(events).select("name", "n")}


def doubled(events: DataFrame) -> Any:
    rows = fields(events).select("name", "n")
    return {"out": rows.union(rows)}


def ranking(events: DataFrame) -> Any:
    return {
        "out": kcontrol.output(fields(events).groupBy("name").agg(F.max("n").alias("top")), mode="complete")
    }


def nothing(events: DataFrame) -> Any:
    return {"out": fields(events).filter(F.lit(False)).select("name")}
