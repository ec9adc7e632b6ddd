"""What is wrong with a query is one sentence with pipeline, query, file and line, before anything runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kcontrol.adapters.spark.channel.client import ChannelAddress, ChannelServer
from kcontrol.adapters.spark.query.bind import bind
from kcontrol.definition.parts import KafkaInput, KafkaOutput
from kcontrol.definition.pipeline import Pipeline
from kcontrol.errors import ConfigurationError
from tests.replay import queries


@pytest.fixture
def address() -> Iterator[ChannelAddress]:
    server = ChannelServer("127.0.0.1", lambda _peer, _message: {})
    yield server.address
    server.close()


def pipeline_of(query: Callable[..., Any], **settings: Any) -> Pipeline:
    inputs = [KafkaInput("events", topic="e"), KafkaInput("others", topic="o")]
    pipeline = Pipeline(
        "mine", inputs=inputs, outputs=[KafkaOutput("out", topic="out", value_format="json")], **settings
    )
    pipeline.query(query)
    return pipeline


def misspelt(events: DataFrame) -> Any:
    return {"out": events.select("valeu")}


def counting(events: DataFrame) -> Any:
    return {"out": events.filter(F.lit(events.count() > 3))}


def collecting(events: DataFrame) -> Any:
    return {"out": events.filter(F.col("value").isin(events.collect()))}


def streaming(events: DataFrame) -> Any:
    events.writeStream.format("noop").start()
    return {"out": events.select("value")}


def failing(events: DataFrame) -> Any:
    import no_such_module  # type: ignore[import-not-found]

    return no_such_module


def sorted_rows(events: DataFrame) -> Any:
    return {"out": events.select("offset").orderBy("offset")}


def without_watermark(events: DataFrame) -> Any:
    return {"out": events.groupBy("offset").count()}


def random_rows(events: DataFrame) -> Any:
    return {"out": events.select(F.rand().alias("r"))}


WRONG = [
    pytest.param(misspelt, 1, "AnalysisException: .*`valeu`.*`value`", id="a misspelt column"),
    pytest.param(counting, 1, "return the frame, and kcontrol runs it", id="count"),
    pytest.param(collecting, 1, "return the frame, and kcontrol runs it", id="collect"),
    pytest.param(streaming, 1, "writeStream is not for a query: return the frame", id="a stream of its own"),
    pytest.param(
        failing, 1, "ModuleNotFoundError: No module named 'no_such_module'", id="a module that is not there"
    ),
    pytest.param(sorted_rows, 0, "can't run it as a stream with mode='append': .*[Ss]ort", id="a sort"),
    pytest.param(
        without_watermark, 0, "can't run it as a stream with mode='append': .*watermark", id="an aggregate"
    ),
    pytest.param(random_rows, 0, "uses 'rand.* allow_nondeterministic=True", id="rand"),
]


@pytest.mark.parametrize(("query", "line", "told"), WRONG)
def test_is_said_with_its_place(
    spark: SparkSession, address: ChannelAddress, query: Callable[..., Any], line: int, told: str
) -> None:
    with pytest.raises(ConfigurationError, match=told) as raised:
        bind(pipeline_of(query), spark, address)
    text = str(raised.value)
    assert text.startswith(f"{__file__}, line {query.__code__.co_firstlineno + line}: ")
    assert text.count("\n") == 0
    assert spark.streams.active == []


def test_the_remedy_that_is_named_is_one(spark: SparkSession, address: ChannelAddress) -> None:
    assert bind(pipeline_of(random_rows, allow_nondeterministic=True), spark, address).names == ("out",)


def test_streams_are_only_refused_within_queries(spark: SparkSession, address: ChannelAddress) -> None:
    with pytest.raises(ConfigurationError):
        bind(pipeline_of(streaming), spark, address)
    started = spark.readStream.format("rate").load().writeStream.format("noop").start()
    started.stop()


def test_what_states_workers_can_not_import_is_named(
    spark: SparkSession, address: ChannelAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bind(pipeline_of(queries.timers), spark, address).names == ("out",)
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.proto.StateMessage_pb2", None)
    with pytest.raises(
        ConfigurationError, match=r"transformWithState needs .*StateMessage_pb2.* protobuf among it"
    ):
        bind(pipeline_of(queries.timers), spark, address)
