"""A plan is read in one answer, however large it is, and what is read is what Spark says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kcontrol.adapters.spark.channel.client import ChannelServer
from kcontrol.adapters.spark.internals import analyzed, gateway_of, plan_of, plan_tree
from kcontrol.adapters.spark.query.bind import Frames
from kcontrol.adapters.spark.query.columns_used import columns_used
from kcontrol.adapters.spark.query.plan import inspect
from kcontrol.adapters.spark.query.plan_nodes import nodes_in
from kcontrol.definition.parts import KafkaInput, KafkaOutput
from kcontrol.definition.pipeline import Pipeline
from kcontrol.errors import SparkSettingError

PIPELINE = Pipeline("p", inputs=[KafkaInput("events", topic="e")], outputs=[KafkaOutput("out", topic="out")])
Asked = Callable[[Callable[[], object]], int]


@pytest.fixture
def events(spark: SparkSession) -> Iterator[DataFrame]:
    server = ChannelServer("127.0.0.1", lambda _peer, _message: {})
    yield Frames(spark, PIPELINE, server.address).read("events")
    server.close()


@pytest.fixture
def asked(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Asked:
    """How many questions to the JVM something takes, but for those by which Python gives objects back."""
    client = type(gateway_of(spark)._gateway_client)
    really, said = client.send_command, list[str]()

    def send(self: Any, command: str, *more: Any, **named: Any) -> Any:
        said.append(command)
        return really(self, command, *more, **named)

    monkeypatch.setattr(client, "send_command", send)

    def count(what: Callable[[], object]) -> int:
        said.clear()
        what()
        return sum(not command.startswith("m\n") for command in said)

    return count


def wide(events: DataFrame, columns: int) -> DataFrame:
    made = [(F.length("value") + number).alias(f"c{number}") for number in range(columns)]
    return events.select("value", *made).where("c0 > 1").groupBy("c0").agg(F.count("*").alias("n"))


def look(frame: DataFrame) -> None:
    inspect(frame, "q")
    columns_used(frame)


def test_looking_through_a_plan_takes_as_many_questions_whatever_is_in_it(
    events: DataFrame, asked: Asked
) -> None:
    look(wide(events, 1))  # The class that reads plans is compiled for the first one.
    narrow, much = wide(events, 2), wide(events, 60)
    few = asked(lambda: look(narrow))
    assert asked(lambda: look(much)) == few
    assert few < 15
    assert asked(lambda: look(much)) < 5


def test_what_is_read_is_what_spark_says(spark: SparkSession) -> None:
    odd = 'a "b" \\ \n ß 漢'
    frame = spark.range(3).select(
        (F.col("id") * 2).alias(odd), F.col("id").alias("marked", metadata={"by": ["x"], "n": 1})
    )
    plan = plan_of(frame.where(F.col("marked") > F.lit(1)))
    java = analyzed(frame)
    assert [node.name for node in nodes_in(plan)] == ["Filter", "Project", "Range"]
    project = plan.children[0]
    first, marked = project.output
    assert (first.name, first.type) == (odd, "bigint")
    assert first.number == java.output().apply(0).exprId().id()
    assert marked.metadata == {"by": ["x"], "n": 1}
    alias = project.expressions[0]
    product = alias.children[0]
    assert (alias.kind, product.kind, product.function) == ("Alias", "Multiply", "multiply")
    assert product.sql == java.expressions().apply(0).child().sql()
    source = project.children[0].output[0].number
    assert alias.references == product.references == (source,)
    assert plan.text(100) == plan.tree.texts(100)[plan.place]
    assert plan.text(100).startswith("Filter (marked")
    assert product.children[1].foldable
    assert not product.foldable


def test_another_sparks_plans_are_one_sentence(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "PlanTree.java"
    other.write_text(plan_tree.SOURCE.read_text().replace("plan.nodeName()", "plan.calledSo()"))
    monkeypatch.setattr(plan_tree, "SOURCE", other)
    with pytest.raises(
        SparkSettingError, match=r"this Spark lacks .*plans are read by .*calledSo.*; use Apache Spark 4\.3"
    ):
        plan_of(spark.range(1))
