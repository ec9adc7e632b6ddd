"""What is read out of a query's plan, and what is refused before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kcontrol.adapters.spark.channel import ChannelServer
from kcontrol.adapters.spark.frames import Frames
from kcontrol.adapters.spark.plan import inspect
from kcontrol.errors import ConfigurationError, NotDeterministicError
from kcontrol.runtime.definition import KafkaInput, KafkaOutput
from kcontrol.runtime.pipeline import Pipeline
from tests.replay import queries


@pytest.fixture
def read(spark: SparkSession) -> Iterator[Callable[[str], DataFrame]]:
    server = ChannelServer("127.0.0.1", lambda _peer, _message: {})
    pipeline = Pipeline(
        "p",
        inputs=[KafkaInput("events", topic="e"), KafkaInput("others", topic="o")],
        outputs=[KafkaOutput("out", topic="out")],
    )
    yield Frames(spark, pipeline, server.address).read
    server.close()


REFUSED = [
    pytest.param(lambda frame: frame.filter(F.rand() < 0.5), "rand", id="rand"),
    pytest.param(lambda frame: frame.select(F.upper(F.concat(F.expr("uuid()"), F.lit("x")))), "uuid", id="uuid, inside"),
    pytest.param(
        lambda frame: frame.select(F.monotonically_increasing_id()), "monotonically_increasing_id", id="increasing id"
    ),
    pytest.param(lambda frame: frame.select(F.spark_partition_id()), "SPARK_PARTITION_ID", id="partition id"),
    pytest.param(lambda frame: frame.select(F.shuffle(F.array(F.lit(1), F.lit(2)))), "shuffle", id="shuffle"),
    pytest.param(
        lambda frame: frame.select(F.udf(lambda value: value, "binary").asNondeterministic()("value")),
        "<lambda>",
        id="a UDF that says so",
    ),
]


@pytest.mark.parametrize(("change", "name"), REFUSED)
def test_expressions_that_would_give_other_values_are_refused_by_name(
    read: Callable[[str], DataFrame], change: Callable[[DataFrame], DataFrame], name: str
) -> None:
    frame = change(read("events"))
    with pytest.raises(NotDeterministicError, match=name) as refused:
        inspect(frame, "mine")
    assert "query 'mine'" in str(refused.value)
    inspect(frame, "mine", allow_nondeterministic=True)


def test_raising_and_the_batch_time_are_not_refused(read: Callable[[str], DataFrame]) -> None:
    frame = read("events").filter(F.when(F.col("value").isNull(), F.raise_error(F.lit("null")).cast("boolean")).otherwise(True))
    inspect(frame.withColumn("now", F.current_timestamp()), "mine")


def test_a_stream_that_is_no_input_is_refused(read: Callable[[str], DataFrame], spark: SparkSession) -> None:
    own = spark.readStream.format("rate").load().select(F.col("value").cast("string").cast("binary").alias("value"))
    with pytest.raises(ConfigurationError, match="stream of its own"):
        inspect(read("events").select("value").union(own), "mine")
    with pytest.raises(ConfigurationError, match="does not read any input"):
        inspect(spark.range(3), "mine")


FACTS: list[tuple[Any, bool, bool, bool, tuple[str, ...]]] = [
    (queries.stateless, True, False, False, ("events",)),
    (queries.update, False, True, False, ("events",)),
    (queries.append, False, True, True, ("events",)),
    (queries.union, False, True, False, ("events", "others")),
    (queries.join, False, True, False, ("events", "others")),
    (queries.distinct, False, True, False, ("events",)),
    (queries.timers, False, True, False, ("events",)),
    (queries.stamped, True, False, False, ("events",)),
]


@pytest.mark.parametrize(("query", "narrow", "stateful", "watermark", "inputs"), FACTS)
def test_facts_of_a_plan(
    read: Callable[[str], DataFrame], query: Any, narrow: bool, stateful: bool, watermark: bool, inputs: tuple[str, ...]
) -> None:
    made = query(*[read(name) for name in inputs])["out"]
    facts = [inspect(getattr(made, "frame", made), "mine") for _ in range(2)]
    assert (facts[0].narrow, bool(facts[0].stateful_operators), facts[0].has_watermark) == (narrow, stateful, watermark)
    assert facts[0].inputs == inputs
    again = query(*[read(name) for name in inputs])["out"]
    assert inspect(getattr(again, "frame", again), "mine").stateful_operators == facts[0].stateful_operators


def test_what_depends_on_the_order_of_rows_is_warned_of(read: Callable[[str], DataFrame]) -> None:
    grouped = queries.fields(read("events")).groupBy("name")
    assert any("first" in sentence for sentence in inspect(grouped.agg(F.first("n")), "mine").warnings)
    assert any("sum" in sentence for sentence in inspect(grouped.agg(F.sum("n")), "mine").warnings)
    assert not inspect(grouped.agg(F.sum(F.lit(1)), F.max("n")), "mine").warnings
