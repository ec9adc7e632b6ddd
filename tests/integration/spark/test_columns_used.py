"""Which columns of an input a query can see, and that the others do not travel while nothing else changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kcontrol.adapters.kafka.read.ranges import range_schema
from kcontrol.adapters.spark.channel.client import ChannelServer
from kcontrol.adapters.spark.query.bind import Frames
from kcontrol.adapters.spark.query.columns_used import columns_used
from kcontrol.adapters.spark.source.reading import read_splits
from kcontrol.definition.parts import KafkaInput, KafkaOutput
from kcontrol.definition.pipeline import Pipeline
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.data_path import topic_id
from tests.integration.spark.conftest import RunScenario
from tests.integration.spark.stepper import Stepper

ALL = tuple(range_schema(headers=False).names)
Change = Callable[[DataFrame], DataFrame]


@pytest.fixture
def read(spark: SparkSession) -> Iterator[Callable[[str], DataFrame]]:
    server = ChannelServer("127.0.0.1", lambda _peer, _message: {})
    pipeline = Pipeline(
        "p",
        inputs=[
            KafkaInput("events", topic="e"),
            KafkaInput("others", topic="o"),
            KafkaInput(
                "parsed", topic="j", value_format="json", schema="a bigint, b string", on_bad_record="skip"
            ),
            KafkaInput("halting", topic="h", value_format="json", schema="a bigint, b string"),
            KafkaInput("dated", topic="d", value_format="json", schema="a bigint, b date"),
        ],
        outputs=[KafkaOutput("out", topic="out")],
    )
    yield Frames(spark, pipeline, server.address).read
    server.close()


def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def with_window(frame: DataFrame) -> DataFrame:
    late = frame.withWatermark("timestamp", "1 minute").withColumn("name", F.col("key").cast("string"))
    return late.groupBy(F.window("timestamp", "1 minute"), "name").count()


def through_a_view(frame: DataFrame) -> DataFrame:
    frame.createOrReplaceTempView("seen")
    return frame.sparkSession.sql(
        "select v from (select value as v, offset from seen where partition = 0) where offset > 3"
    )


ONE_INPUT: list[Any] = [
    pytest.param(lambda frame: frame, ALL, id="all of them"),
    pytest.param(lambda frame: frame.select("value"), ("value",), id="one"),
    pytest.param(
        lambda frame: frame.drop("topic", "offset"),
        ("key", "value", "partition", "timestamp", "timestampType"),
        id="a few",
    ),
    pytest.param(
        lambda frame: frame.filter("timestampType = 0").select("value"),
        ("value", "timestampType"),
        id="in a filter",
    ),
    pytest.param(
        lambda frame: frame.withColumn("a", F.col("topic")).withColumn("b", F.col("offset")).select("a"),
        ("topic",),
        id="dropped later",
    ),
    pytest.param(lambda frame: frame.groupBy().count(), (), id="none"),
    pytest.param(with_window, ("key", "timestamp"), id="window"),
    pytest.param(
        lambda frame: frame.dropDuplicates(["key"]).select("value"), ("key", "value"), id="distinct by key"
    ),
    pytest.param(
        lambda frame: frame.select("value", "key").mapInArrow(same, "value binary, key binary").select("key"),
        ("key", "value"),
        id="function",
    ),
    pytest.param(lambda frame: frame.mapInArrow(same, frame.schema).select("key"), ALL, id="function of all"),
    pytest.param(
        lambda frame: frame.select("value").union(frame.select("key")), ("key", "value"), id="read twice"
    ),
    pytest.param(lambda frame: frame.union(frame).select("key"), ALL, id="union: by position"),
    pytest.param(lambda frame: frame.distinct().select("key"), ALL, id="distinct"),
    pytest.param(through_a_view, ("value", "partition", "offset"), id="view"),
]


@pytest.mark.parametrize(("change", "columns"), ONE_INPUT)
def test_columns_of_one_input(
    read: Callable[[str], DataFrame], change: Change, columns: tuple[str, ...]
) -> None:
    assert columns_used(change(read("events"))) == {"events": columns}


def test_columns_of_two_joined_inputs(read: Callable[[str], DataFrame]) -> None:
    events, others = read("events").alias("e"), read("others").alias("o")
    joined = events.join(others, F.col("e.key") == F.col("o.value")).select("e.offset", "o.timestamp")
    assert columns_used(joined) == {"events": ("key", "offset"), "others": ("value", "timestamp")}


def test_a_format_needs_what_the_task_can_not_parse_whatever_is_selected(
    read: Callable[[str], DataFrame],
) -> None:
    parsed = ("__kcontrol_unparsed", "__kcontrol_field_0")
    assert columns_used(read("parsed").select("a")) == {"parsed": parsed}
    assert columns_used(read("parsed").select("a", "partition")) == {"parsed": ("partition", *parsed)}
    of_bad = ("__kcontrol_unparsed", "__kcontrol_left_partition", "__kcontrol_left_offset")
    assert columns_used(read("halting").select("a")) == {"halting": (*of_bad, "__kcontrol_field_0")}
    assert columns_used(read("dated").select("a")) == {"dated": ("value", "partition", "offset")}


def test_what_is_not_used_is_null_and_the_digest_is_that_of_the_record(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("columns", 1)
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers})
    for number in range(3):
        producer.produce(topic, f"v{number}".encode(), f"k{number}".encode(), 0, headers=[("h", b"x")])
    assert producer.flush(30) == 0
    what = (settings, "in", topic, topic_id(settings, topic), [(0, 0, 3)])
    whole, counted = _read(*what, with_headers=True)
    some, counted_again = _read(*what, with_headers=True, columns=["offset", "value"])
    assert counted == counted_again
    assert some.schema == whole.schema == range_schema(headers=True)
    for name in whole.column_names:
        expected = (
            whole[name] if name in ("offset", "value") else pa.chunked_array([pa.nulls(3, whole[name].type)])
        )
        assert some[name].to_pylist() == expected.to_pylist()


def _read(*what: Any, **more: Any) -> tuple[pa.Table, list[Any]]:
    reading = read_splits(*what, **more)
    batches = []
    while True:
        try:
            batches.append(next(reading))
        except StopIteration as end:
            return pa.Table.from_batches(batches), end.value


def offsets(numbers: DataFrame) -> dict[str, DataFrame]:
    text = F.concat_ws(",", F.col("key").cast("string"), "topic", "partition", "offset", "timestampType")
    late = numbers.withColumn("unused", F.col("value")).filter(
        F.col("timestamp") > F.lit("2001-01-01").cast("timestamp")
    )
    return {"places": late.select(text.alias("value")), "values": numbers.select("value")}


def test_two_queries_of_one_input_see_what_each_needs(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        stepper.produce("numbers", [(b"a", b"1"), (None, b"2"), (b"c", None)], partition=1)
        await stepper.step()
        topic = stepper.pipeline.input("numbers").topic
        places = [f"a,{topic},1,0,0", f"{topic},1,1,0", f"c,{topic},1,2,0"]
        assert sorted((row.value or b"").decode() for row in stepper.committed("places")) == sorted(places)
        assert [row.value for row in stepper.committed("values")] == [b"1", b"2", None]

    run_scenario([offsets], scenario, {"numbers": (2, {})}, {"places": (1, {}), "values": (1, {})})
