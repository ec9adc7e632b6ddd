"""What is read out of a query's plan, and what is refused before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kcontrol.adapters.spark.channel.client import ChannelServer
from kcontrol.adapters.spark.query.bind import Frames
from kcontrol.adapters.spark.query.plan import inspect
from kcontrol.definition.parts import KafkaInput, KafkaOutput
from kcontrol.definition.pipeline import Pipeline
from kcontrol.errors import ConfigurationError, NotDeterministicError
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
    pytest.param(
        lambda frame: frame.select(F.upper(F.concat(F.expr("uuid()"), F.lit("x")))), "uuid", id="uuid, inside"
    ),
    pytest.param(
        lambda frame: frame.select(F.monotonically_increasing_id()),
        "monotonically_increasing_id",
        id="increasing id",
    ),
    pytest.param(lambda frame: frame.select(F.spark_partition_id()), "SPARK_PARTITION_ID", id="partition id"),
    pytest.param(lambda frame: frame.select(F.shuffle(F.array(F.lit(1), F.lit(2)))), "shuffle", id="shuffle"),
    pytest.param(
        lambda frame: frame.select(F.udf(lambda value: value, "binary").asNondeterministic()("value")),
        "<lambda>",
        id="a UDF that says so",
    ),
    pytest.param(lambda frame: frame.select(F.current_user()), "current_user.*lit", id="current_user"),
    pytest.param(lambda frame: frame.select(F.session_user()), "session_user.*lit", id="session_user"),
    pytest.param(lambda frame: frame.select(F.expr("user()")), "user.*lit", id="user"),
    pytest.param(
        lambda frame: frame.select(F.current_catalog()), "current_catalog.*lit", id="current_catalog"
    ),
    pytest.param(
        lambda frame: frame.select(F.current_database()), "current_schema.*lit", id="current_database"
    ),
    pytest.param(
        lambda frame: frame.select(F.expr("current_path()")), "current_path.*lit", id="current_path"
    ),
    pytest.param(lambda frame: frame.select(F.version()), "version.*lit", id="version"),
    pytest.param(
        lambda frame: frame.select(F.expr("current_time()")), "current_time.*date_format", id="current_time"
    ),
    pytest.param(lambda frame: frame.select(F.input_file_name()), "input_file_name", id="input_file_name"),
    pytest.param(
        lambda frame: frame.select(F.reflect(F.lit("java.lang.System"), F.lit("nanoTime"))),
        "reflect",
        id="a method of Java",
    ),
    pytest.param(
        lambda frame: frame.select(F.aes_encrypt("value", F.lit("0" * 16))), "mode ECB", id="a random vector"
    ),
    pytest.param(
        lambda frame: frame.filter("timestamp > 'now'"),
        "cast.*current_timestamp",
        id="text that becomes a time",
    ),
    pytest.param(
        lambda frame: frame.select(F.to_date(F.lit("today"))),
        "to_date.*current_date",
        id="text that becomes a date",
    ),
    pytest.param(
        lambda frame: frame.select(F.expr("date 'tomorrow'")), "literal.*current_date", id="a literal date"
    ),
    pytest.param(
        lambda frame: frame.select(F.expr("cast(time'12:00:00' as timestamp)")),
        "cast.*the step's own",
        id="a time of this day",
    ),
    pytest.param(
        lambda frame: frame.filter("timestamp > (SELECT current_timestamp())"),
        "outside of the subquery",
        id="in a subquery",
    ),
    pytest.param(
        lambda frame: frame.filter("1 > (SELECT first(id) FROM range(9) WHERE rand() < 2)"),
        "rand",
        id="rand, in a subquery",
    ),
]


@pytest.fixture(autouse=True)
def with_times(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.timeType.enabled", "true")
    yield
    spark.conf.unset("spark.sql.timeType.enabled")


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
    frame = read("events").filter(
        F.when(F.col("value").isNull(), F.raise_error(F.lit("null")).cast("boolean")).otherwise(True)
    )
    inspect(frame.withColumn("now", F.current_timestamp()), "mine")


def test_a_sum_with_a_vector_of_its_own_and_times_that_are_fixed_are_not_refused(
    read: Callable[[str], DataFrame],
) -> None:
    encrypted = "aes_encrypt(value, '0000111122223333', 'GCM', 'DEFAULT', substr(md5(value), 1, 12))"
    inspect(
        read("events").select(F.expr(encrypted), F.expr("date '2020-01-01'"), F.to_date(F.lit("epoch"))),
        "mine",
    )


def test_a_stream_that_is_no_input_is_refused(read: Callable[[str], DataFrame], spark: SparkSession) -> None:
    own = (
        spark.readStream.format("rate")
        .load()
        .select(F.col("value").cast("string").cast("binary").alias("value"))
    )
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
    read: Callable[[str], DataFrame],
    query: Any,
    narrow: bool,
    stateful: bool,
    watermark: bool,
    inputs: tuple[str, ...],
) -> None:
    made = query(*[read(name) for name in inputs])["out"]
    facts = [inspect(getattr(made, "frame", made), "mine") for _ in range(2)]
    assert (facts[0].narrow, bool(facts[0].stateful_operators), facts[0].has_watermark) == (
        narrow,
        stateful,
        watermark,
    )
    assert facts[0].inputs == inputs
    again = query(*[read(name) for name in inputs])["out"]
    assert inspect(getattr(again, "frame", again), "mine").stateful_operators == facts[0].stateful_operators


def test_what_depends_on_the_order_of_rows_is_warned_of(read: Callable[[str], DataFrame]) -> None:
    grouped = queries.fields(read("events")).groupBy("name")
    assert any("first" in sentence for sentence in inspect(grouped.agg(F.first("n")), "mine").warnings)
    assert any("sum" in sentence for sentence in inspect(grouped.agg(F.sum("n")), "mine").warnings)
    assert not inspect(grouped.agg(F.sum(F.lit(1)), F.max("n")), "mine").warnings
