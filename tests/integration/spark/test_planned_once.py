"""Which queries are planned once for all steps, which Spark plans for each, and what is said of that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from kcontrol.adapters.spark.channel.client import ChannelServer
from kcontrol.adapters.spark.internals import plan_of
from kcontrol.adapters.spark.query.bind import bind
from kcontrol.adapters.spark.query.bound import BoundQueries
from kcontrol.adapters.spark.query.plan_nodes import nodes_in
from kcontrol.adapters.spark.values.json_types import UNPARSED, json_column, left_column
from kcontrol.definition.frames import OutputFrame, OutputMode, output
from kcontrol.definition.parts import KafkaInput, KafkaOutput
from kcontrol.definition.pipeline import Pipeline
from tests.chaos import stateless
from tests.chaos.names import PIPELINE

JSON: dict[str, Any] = {"value_format": "json", "schema": "name STRING, at LONG"}
Query = Callable[[DataFrame], DataFrame]


@pytest.fixture
def server() -> Iterator[ChannelServer]:
    made = ChannelServer("127.0.0.1", lambda _peer, _message: {})
    yield made
    made.close()


@F.udf(StringType())
def shouted(text: str) -> str:
    return text.upper()


def static(frame: DataFrame) -> DataFrame:
    return frame.sparkSession.createDataFrame([("a", 3)], ["name", "z"])


def above_all(frame: DataFrame) -> DataFrame:
    static(frame).createOrReplaceTempView("planned_once_static")
    return frame.where("at > (SELECT max(z) FROM planned_once_static)")


ONCE: dict[str, Query] = {
    "as it is": lambda frame: frame,
    "filtered and computed": lambda frame: frame.where("at > 2").select(
        F.concat("name", F.lit("!")).alias("name"), (F.col("at") * 2).alias("at")
    ),
    "exploded": lambda frame: frame.select(F.explode(F.array("name", F.lit("b"))).alias("name")),
    "a UDF": lambda frame: frame.select(shouted("name").alias("name")),
    "pandas": lambda frame: frame.select("name").mapInPandas(lambda frames: frames, "name string"),
}
EACH_STEP: dict[str, tuple[Query, str]] = {
    "state with a watermark": (
        lambda frame: frame.withWatermark("timestamp", "1 second").dropDuplicates(["name"]),
        "it has a watermark",
    ),
    "watermark": (
        lambda frame: frame.withWatermark("timestamp", "1 second").select("name"),
        "it has a watermark",
    ),
    "an input twice": (lambda frame: frame.union(frame), "it reads an input twice"),
    "repartitioned": (lambda frame: frame.repartition(2), "its rows move between tasks"),
    "now": (lambda frame: frame.withColumn("now", F.now()), "it takes the time of the step"),
    "a table": (lambda frame: frame.join(static(frame), "name"), "it reads a table"),
    "a subquery": (above_all, "it has a subquery"),
}


def pipeline_of(*queries: Query, mode: OutputMode = "append", **options: Any) -> Pipeline:
    source = options.pop("source", {})
    made = Pipeline(
        "p",
        inputs=[KafkaInput("events", topic="e", **JSON, **source)],
        outputs=[KafkaOutput(f"out{number}", topic=f"out{number}") for number, _ in enumerate(queries)],
        **options,
    )
    for number, query in enumerate(queries):
        made.query(_asked(number, query, mode))
    return made


def _asked(number: int, query: Query, mode: OutputMode) -> Callable[[DataFrame], dict[str, OutputFrame]]:
    def asked(events: DataFrame) -> dict[str, OutputFrame]:
        return {f"out{number}": output(query(events).select(F.lit("x").alias("value")), mode=mode)}

    asked.__name__ = f"query{number}"
    return asked


@pytest.mark.parametrize("name", ONCE)
def test_a_query_that_leaves_rows_in_their_tasks_is_planned_once(
    spark: SparkSession, server: ChannelServer, name: str
) -> None:
    bound = bind(pipeline_of(ONCE[name]), spark, server.address)
    assert (bound.planning, bound.recorded) == ("once", ())
    assert all(query.once is not None and not query.once.isStreaming for query in bound.queries)


@pytest.mark.parametrize("name", EACH_STEP)
def test_a_query_that_means_something_else_in_a_batch_is_planned_for_each_step(
    spark: SparkSession, server: ChannelServer, name: str
) -> None:
    query, why = EACH_STEP[name]
    bound = bind(pipeline_of(query), spark, server.address)
    assert bound.planning == f"each step: query 'out0': {why}"
    assert bound.recorded == ("out0",)
    assert bound.queries[0].once is None


def test_one_query_that_is_run_as_a_stream_leaves_the_others_planned_once(
    spark: SparkSession, server: ChannelServer
) -> None:
    bound = bind(pipeline_of(ONCE["as it is"], EACH_STEP["state with a watermark"][0]), spark, server.address)
    assert bound.planning == "once, each step where it can't be: query 'out1': it has a watermark"
    assert bound.recorded == ("out1",)
    assert [query.once is not None for query in bound.queries] == [True, False]


def test_queries_that_are_all_run_as_streams_say_each_why(spark: SparkSession, server: ChannelServer) -> None:
    (first, why), (second, another) = EACH_STEP["state with a watermark"], EACH_STEP["a subquery"]
    bound = bind(pipeline_of(first, second), spark, server.address)
    assert bound.planning == f"each step: query 'out0': {why}; query 'out1': {another}"


def test_what_chaos_runs_without_state_is_one_query_that_is_planned_once(
    spark: SparkSession, server: ChannelServer
) -> None:
    """Else its jobs would not be begun ahead, and no fault would ever meet one."""
    bound = bind(stateless.pipeline, spark, server.address)
    assert (bound.planning, len(bound.queries)) == ("once", 1)


def test_its_twin_is_planned_in_each_step(spark: SparkSession, server: ChannelServer) -> None:
    """Else chaos would compare a way with itself."""
    bound = bind(stateless.planned(PIPELINE, once=False), spark, server.address)
    assert bound.planning == "each step: plan_once=False"


def test_it_can_be_switched_off(spark: SparkSession, server: ChannelServer) -> None:
    bound = bind(pipeline_of(ONCE["as it is"], plan_once=False), spark, server.address)
    assert (bound.planning, bound.recorded) == ("each step: plan_once=False", ("out0",))


def test_counted_bad_records_are_counted_by_spark(spark: SparkSession, server: ChannelServer) -> None:
    bound = bind(pipeline_of(ONCE["as it is"], source={"on_bad_record": "skip"}), spark, server.address)
    assert bound.planning == "each step: query 'out0': it counts the records that it skips"


def fickle() -> Query:
    """Gives another plan each time that it is asked."""
    asked: list[int] = []

    def query(frame: DataFrame) -> DataFrame:
        asked.append(len(asked))
        return frame.where(F.col("at") > len(asked))

    return query


def test_a_function_that_gives_another_plan_when_asked_again_is_left_to_spark(
    spark: SparkSession, server: ChannelServer
) -> None:
    bound = bind(pipeline_of(fickle()), spark, server.address)
    assert bound.planning == "each step: query 'out0': it is another of batch frames"


def test_only_the_function_that_gives_another_plan_is_left_to_spark(
    spark: SparkSession, server: ChannelServer
) -> None:
    bound = bind(pipeline_of(fickle(), ONCE["as it is"]), spark, server.address)
    assert bound.planning == "once, each step where it can't be: query 'out0': it is another of batch frames"
    assert [query.once is not None for query in bound.queries] == [False, True]


def test_a_function_that_refuses_batch_frames_is_left_to_spark(
    spark: SparkSession, server: ChannelServer
) -> None:
    def strict(frame: DataFrame) -> DataFrame:
        if not frame.isStreaming:
            raise ValueError("streams only")
        return frame

    bound = bind(pipeline_of(strict), spark, server.address)
    assert bound.planning.startswith("each step: query 'out0': batch frames are refused: ")
    assert "streams only" in bound.planning


def columns_of_sources(bound: BoundQueries, number: int) -> list[list[str]]:
    once = bound.queries[number].once
    assert once is not None
    return [[each.name for each in node.output] for node in nodes_in(plan_of(once)) if not node.children]


def test_its_source_has_only_columns_that_some_query_looks_at(
    spark: SparkSession, server: ChannelServer
) -> None:
    """Spark would make rows of the others."""
    name, at = json_column(0), json_column(1)
    beside = [UNPARSED, left_column("partition"), left_column("offset")]
    alone = bind(pipeline_of(lambda frame: frame.where("name = 'a'")), spark, server.address)
    assert columns_of_sources(alone, 0) == [[*beside, name]]
    queries = (lambda frame: frame.where("at > 2"), lambda frame: frame.where("name = offset"))
    both = bind(pipeline_of(*queries), spark, server.address)
    assert [columns_of_sources(both, number) for number in (0, 1)] == 2 * [[["offset", *beside, name, at]]]


def test_the_source_of_a_query_that_sees_whole_rows_has_all_columns(
    spark: SparkSession, server: ChannelServer
) -> None:
    def whole(frame: DataFrame) -> DataFrame:
        return frame.mapInPandas(lambda frames: frames, frame.schema)

    bound = bind(pipeline_of(whole, ONCE["filtered and computed"]), spark, server.address)
    assert bound.planning == "once"
    (columns,) = columns_of_sources(bound, 0)
    assert {"key", "value", "timestamp", json_column(0), json_column(1)} <= set(columns)
    assert columns_of_sources(bound, 1) == [columns]
