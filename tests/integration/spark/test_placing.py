"""On several nodes each operator that brings rows together must find them on one: by the column that places
records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kcontrol.adapters.spark.channel.client import ChannelServer
from kcontrol.adapters.spark.query.bind import Frames
from kcontrol.definition.frames import FrameQuery, OutputMode
from kcontrol.definition.parts import KafkaInput, KafkaOutput
from kcontrol.definition.pipeline import Pipeline
from kcontrol.definition.resolve import FoundInput, OutputFacts, build_spec
from kcontrol.errors import ConfigurationError
from tests.replay.queries import Reminder

JSON: dict[str, Any] = {"value_format": "json", "schema": "name STRING, at LONG"}
PIPELINE = Pipeline(
    "p",
    nodes=2,
    inputs=[
        KafkaInput("events", topic="e", partitioned_by="name", **JSON),
        KafkaInput("others", topic="o", partitioned_by="name", **JSON),
        KafkaInput("raw", topic="r", partitioned_by="name"),
        KafkaInput("keyed", topic="k", partitioned_by="key"),
    ],
    outputs=[KafkaOutput("out", topic="out")],
)
Frame = Callable[[str], DataFrame]
Query = Callable[[Frame], DataFrame]


@pytest.fixture
def frames(spark: SparkSession) -> Iterator[Frames]:
    server = ChannelServer("127.0.0.1", lambda _peer, _message: {})
    yield Frames(spark, PIPELINE, server.address)
    server.close()


def sql(words: str) -> Query:
    def ask(read: Frame) -> DataFrame:
        read("events").createOrReplaceTempView("placing_events")
        return read("events").sparkSession.sql(words.format("placing_events"))

    return ask


def static(read: Frame) -> DataFrame:
    return read("events").sparkSession.createDataFrame([("a", 3)], ["name", "z"])


def parsed_here(read: Frame) -> DataFrame:
    return read("raw").select(
        F.col("key").cast("string").alias("name"), F.col("value").cast("string").alias("v")
    )


def reminded(frame: DataFrame, by: str) -> DataFrame:
    return frame.groupBy(by).transformWithState(
        statefulProcessor=Reminder(),
        outputStructType="name string, c long, at long",
        outputMode="Update",
        timeMode="ProcessingTime",
    )


def kept(frame: DataFrame, by: str) -> DataFrame:
    return frame.groupBy(by).applyInPandasWithState(
        lambda _k, i, _s: i, "a string", "a int", "update", "NoTimeout"
    )


RIGHT: dict[str, Query] = {
    "grouped": lambda read: read("events").groupBy("at", "name").count(),
    "renamed": lambda read: read("events").select(F.col("name").alias("n")).groupBy("n").count(),
    "joined": lambda read: read("events").join(read("others"), "name"),
    "with itself": lambda read: (
        read("events").alias("a").join(read("events").alias("b"), F.expr("a.name = b.name"))
    ),
    "unique": lambda read: read("events").dropDuplicates(["name"]),
    "distinct": sql("SELECT DISTINCT name, at FROM {}"),
    "WITH": sql("WITH x AS (SELECT name FROM {}) SELECT name, count(*) FROM x GROUP BY name"),
    "united": lambda read: (
        read("events").select("name").union(read("others").select("name")).groupBy("name").count()
    ),
    "parsed by the query": lambda read: parsed_here(read).groupBy("name").count(),
    "parsed by a function": lambda read: (
        read("raw").mapInPandas(lambda i: i, "name string").groupBy("name").count()
    ),
    "Kafka's key": lambda read: read("keyed").groupBy("key").count(),
    "with a table": lambda read: read("events").join(static(read), "name").groupBy("name").count(),
    "state": lambda read: reminded(read("events"), "name"),
    "pandas state": lambda read: kept(read("events"), "name"),
}
WRONG: dict[str, tuple[Query, str]] = {
    "grouped": (lambda read: read("events").groupBy("at").count(), "groups by at"),
    "all": (lambda read: read("events").agg(F.count("*")), "brings all rows together, without a key"),
    "changed": (lambda read: read("events").groupBy(F.upper("name")).count(), "groups by upper(name)"),
    "renamed": (
        lambda read: read("events").select(F.col("at").alias("name")).groupBy("name").count(),
        "groups by name",
    ),
    "joined": (lambda read: read("events").join(read("others"), "at"), "joins on at = at"),
    "by another": (
        lambda read: read("events").join(
            read("others").withColumnsRenamed({"name": "b", "at": "c"}), F.expr("at = c")
        ),
        "joins on at = c",
    ),
    "unique": (lambda read: read("events").dropDuplicates(["at"]), "leaves out what is equal in at"),
    "distinct": (sql("SELECT DISTINCT at FROM {}"), "leaves out what is equal in at"),
    "WITH": (sql("WITH x AS (SELECT at FROM {}) SELECT at, count(*) FROM x GROUP BY at"), "groups by at"),
    "united": (
        lambda read: (
            read("events").select("name").union(read("others").select(F.hex("at"))).groupBy("name").count()
        ),
        "groups by name",
    ),
    "a constant": (
        lambda read: read("raw").select(F.lit("x").alias("name")).groupBy("name").count(),
        "groups by name",
    ),
    "another of the query": (lambda read: parsed_here(read).groupBy("v").count(), "groups by v"),
    "a table's": (lambda read: read("events").join(static(read), "name").groupBy("z").count(), "groups by z"),
    "groups of a step": (
        lambda read: read("events").groupBy("at").applyInPandas(lambda frame: frame, "name string, at long"),
        "applies a function to groups by at",
    ),
    "limit": (lambda read: read("events").limit(3), "limits the number of rows"),
    "state": (lambda read: reminded(read("events"), "at"), "keeps state by at"),
    "pandas state": (lambda read: kept(read("events"), "at"), "keeps state by at"),
}


def facts_of(frames: Frames, query: Query, mode: OutputMode = "update") -> Any:
    item = FrameQuery(query(frames.read).select(F.lit("x").alias("value")), mode, ("out",))
    return frames.bind([item]).facts()


def spec_of(facts: Any) -> Any:
    inputs = {each.name: FoundInput("i", (0, 0)) for each in PIPELINE.inputs}
    return build_spec(PIPELINE, inputs, {"out": OutputFacts("o", 2)}, facts)


@pytest.mark.parametrize("name", RIGHT)
def test_what_holds_the_column_that_places_records_is_right_on_two_nodes(frames: Frames, name: str) -> None:
    assert spec_of(facts_of(frames, RIGHT[name])).nodes == 2


@pytest.mark.parametrize("name", WRONG)
def test_what_would_give_partial_results_on_two_nodes_is_refused(frames: Frames, name: str) -> None:
    query, told = WRONG[name]
    facts = facts_of(frames, query, "append" if name in ("limit", "groups of a step") else "update")
    with pytest.raises(ConfigurationError, match=r"nodes = 2: query 'out'") as refused:
        spec_of(facts)
    assert f" {told}, but input 'events' is partitioned by 'name'" in str(refused.value)


def test_a_watermark_is_refused_on_two_nodes(frames: Frames) -> None:
    def late(read: Frame) -> DataFrame:
        timed = (
            read("events").withColumn("time", F.timestamp_seconds("at")).withWatermark("time", "5 seconds")
        )
        return timed.groupBy("name", F.window("time", "10 seconds")).count()

    with pytest.raises(ConfigurationError, match="query 'out' has a watermark"):
        spec_of(facts_of(frames, late))
