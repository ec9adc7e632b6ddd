"""A query of each kind that Spark runs in a way of its own. It imports nothing but
kcontrol and what kcontrol needs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import IntegerType, LongType

import kcontrol

UNIQUE = os.environ.get("EVERY_KIND", "")
JSON: dict[str, Any] = {"value_format": "json", "schema": "name STRING, n LONG"}
OUTPUTS = ("totals", "joined", "unique", "functions", "arrow", "kept", "rows", "frames")

pipeline = kcontrol.Pipeline(
    f"every-kind{UNIQUE}",
    inputs=[
        kcontrol.KafkaInput("events", topic=f"events{UNIQUE}", **JSON),
        kcontrol.KafkaInput("others", topic=f"others{UNIQUE}", **JSON),
    ],
    outputs=[kcontrol.KafkaOutput(name, topic=f"{name}{UNIQUE}", value_format="json") for name in OUTPUTS],
    limits=kcontrol.Limits(open_timeout="5 min", step_timeout="5 min", transaction_timeout="6 min"),
)


class Counting(StatefulProcessor):
    """How many rows of a name have come; rows in, rows out."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "c long")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        self._count.update((self._before() + sum(1 for _ in rows),))
        yield Row(name=key[0], c=self._count.get()[0])

    def _before(self) -> int:
        return int(self._count.get()[0]) if self._count.exists() else 0

    def close(self) -> None:
        """There is nothing to close."""


class CountingFrames(Counting):
    """The same with pandas."""

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        self._count.update((self._before() + sum(len(frame) for frame in rows),))
        yield pd.DataFrame({"name": [key[0]], "c": [self._count.get()[0]]})


@pipeline.query
def totals(events: DataFrame) -> Any:
    return kcontrol.output(events.groupBy("name").agg(F.sum("n").alias("c")), mode="update")


@pipeline.query
def joined(events: DataFrame, others: DataFrame) -> Any:
    return events.select("name", "n").join(others.select("name", F.col("n").alias("m")), "name")


@pipeline.query
def unique(events: DataFrame) -> Any:
    return events.select("name").dropDuplicates(["name"])


@pipeline.query
def functions(events: DataFrame) -> Any:
    doubled = F.udf(lambda n: n * 2, LongType())
    length = F.pandas_udf(lambda names: names.str.len().astype("int32"), IntegerType())
    return events.select("name", doubled("n").alias("doubled"), length("name").alias("length"))


@pipeline.query
def arrow(events: DataFrame) -> Any:
    return events.select("name", "n").mapInArrow(lambda batches: batches, "name string, n long")


@pipeline.query
def kept(events: DataFrame) -> Any:
    def count(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        state.update(((state.get[0] if state.exists else 0) + sum(len(frame) for frame in frames),))
        yield pd.DataFrame({"name": [key[0]], "c": [state.get[0]]})

    grouped = events.select("name", "n").groupBy("name")
    return kcontrol.output(
        grouped.applyInPandasWithState(count, "name string, c long", "c long", "update", "NoTimeout"),
        mode="update",
    )


def _counted(events: DataFrame, how: str, processor: StatefulProcessor) -> Any:
    grouped = events.select("name", "n").groupBy("name")
    frame = getattr(grouped, how)(
        statefulProcessor=processor,
        outputStructType="name string, c long",
        outputMode="Update",
        timeMode="None",
    )
    return kcontrol.output(frame, mode="update")


@pipeline.query
def rows(events: DataFrame) -> Any:
    return _counted(events, "transformWithState", Counting())


@pipeline.query
def frames(events: DataFrame) -> Any:
    return _counted(events, "transformWithStateInPandas", CountingFrames())
