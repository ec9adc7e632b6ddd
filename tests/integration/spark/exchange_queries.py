"""Pipelines whose only query exchanges rows, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import kcontrol
from kcontrol.adapters.spark.query.bound import BoundQueries
from kcontrol.core.model import PipelineSpec
from kcontrol.definition.resolve import FoundInput, OutputFacts, build_spec

JSON: dict[str, Any] = {
    "value_format": "json",
    "schema": "user string, item string, amount long, price double, tags map<string,string>, ts timestamp",
}
Query = Callable[[DataFrame, DataFrame], Any]
Bind = Callable[..., BoundQueries]


def pipeline_of(query: Query, nodes: int = 2, **more: Any) -> kcontrol.Pipeline:
    """One whose only query, `out`, is `query` of the inputs orders and payments."""
    key, partitioned_by = more.pop("key", None), more.pop("partitioned_by", None)
    reader = more.pop("reader", None)
    output = kcontrol.KafkaOutput(
        "out",
        topic="out",
        value_format="json",
        key=key,
        node=more.pop("node", None),
        partitioner=more.pop("partitioner", "kafka"),
    )
    made = kcontrol.Pipeline(
        "p",
        nodes=nodes,
        inputs=[
            kcontrol.KafkaInput(name, topic=name, partitioned_by=partitioned_by, node=reader, **JSON)
            for name in ("orders", "payments")
        ],
        outputs=[output],
        **more,
    )

    def out(orders: DataFrame, payments: DataFrame) -> Any:
        return query(orders.select(*COLUMNS), payments.select(*COLUMNS))

    made.query(out)
    return made


COLUMNS = ("user", "item", "amount", "price", "tags", "ts")


def spec_of(queries: BoundQueries, pipeline: kcontrol.Pipeline, partitions: int = 1) -> PipelineSpec:
    inputs = {each.name: FoundInput("i", (0, 0)) for each in pipeline.inputs}
    topics = {each.name: f"t-{each.name}" for each in queries.exchanges}
    facts = queries.facts()
    return build_spec(
        pipeline, inputs, {"out": OutputFacts("o", partitions)}, facts, queries.exchanges, topics
    )


def totals(orders: DataFrame, _: DataFrame) -> Any:
    mine = kcontrol.exchange(orders, by="user")
    return kcontrol.output(mine.groupBy("user").agg(F.sum("amount").alias("total")), mode="update")


def twice(orders: DataFrame, _: DataFrame) -> Any:
    once = kcontrol.exchange(orders.select("user", "item"), by=["user", "item"]).dropDuplicates(
        ["user", "item"]
    )
    counted = kcontrol.exchange(once, by="user", name="counted").groupBy("user").count()
    return kcontrol.output(counted, mode="update")


def gathered(orders: DataFrame, _: DataFrame) -> Any:
    return kcontrol.output(kcontrol.exchange(orders, by=[]).agg(F.sum("amount").alias("s")), mode="update")


def group(frame: DataFrame, *by: Any) -> Any:
    return kcontrol.output(frame.groupBy(*by).count(), mode="update")
