"""Rows that are combined before they are sent: what is sent of them, that one node gives the same, and what is refused, with
the line that it is on."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

import kcontrol
from kcontrol.adapters.spark.query.combining import combining_of
from kcontrol.adapters.spark.values.nullable import nullable
from kcontrol.errors import ConfigurationError
from tests.integration.spark.exchange_queries import Bind, Query, pipeline_of, spec_of


def all_parts() -> list[Any]:
    return [
        F.count("*").alias("n"),
        F.count("item").alias("items"),
        F.sum("amount").alias("total"),
        F.min("item").alias("first"),
        F.max("amount").alias("most"),
    ]


def parts_of(frame: DataFrame, by: Any = "user", *parts: Any) -> DataFrame:
    found: DataFrame = kcontrol.exchange(frame, by=by, combine=list(parts) or all_parts())
    return found


def merged(orders: DataFrame, _: DataFrame) -> Any:
    totals = [F.sum(name).alias(name) for name in ("n", "items", "total")]
    extremes = [F.min("first").alias("first"), F.max("most").alias("most")]
    mine = parts_of(orders).withColumnRenamed("user", "who").where("who is not null")
    return kcontrol.output(mine.groupBy("who").agg(*totals, *extremes), mode="update")


def mean(orders: DataFrame, _: DataFrame) -> Any:
    mine = parts_of(orders, [], F.count("amount").alias("n"), F.sum("amount").alias("total"))
    return kcontrol.output(
        mine.agg((F.sum("total") / F.sum("n")).alias("mean"), F.sum("n").alias("of")), mode="update"
    )


def windows(orders: DataFrame, _: DataFrame) -> Any:
    dated = orders.withWatermark("ts", "10 minutes")
    mine = parts_of(dated, [F.window("ts", "1 hour"), "user"], F.count("*").alias("n"))
    return mine.groupBy("window", "user").agg(F.sum("n").alias("n"))


def united(orders: DataFrame, payments: DataFrame) -> Any:
    both = parts_of(orders).union(parts_of(payments).alias("p"))
    return kcontrol.output(both.groupBy("user").agg(F.sum("n").alias("n")), mode="update")


RIGHT: dict[str, Query] = {"merged": merged, "mean": mean, "windows": windows, "united": united}


@pytest.mark.parametrize("name", RIGHT)
def test_parts_are_merged_on_two_nodes_and_on_one(bound: Bind, name: str) -> None:
    for nodes in (1, 2):
        queries = bound(RIGHT[name], nodes)
        assert spec_of(queries, pipeline_of(RIGHT[name], nodes), 2).nodes == nodes
        assert bool(queries.exchanges) == (nodes == 2)
        assert queries.queries[-1].stateful


def test_the_columns_are_the_same_on_two_nodes_and_on_one(bound: Bind) -> None:
    """In order, type and marks, the event time's among them."""
    found: list[StructType] = []

    def query(orders: DataFrame, payments: DataFrame) -> Any:
        dated = orders.withWatermark("ts", "10 minutes")
        found.append(parts_of(dated, [F.window("ts", "1 hour"), "user"]).schema)
        return windows(orders, payments)

    bound(query, 1)
    bound(query, 2)
    one, two = found
    assert one.names == ["window", "user", "n", "items", "total", "first", "most", "ts"]
    assert [(field.name, nullable(field.dataType), field.metadata) for field in one] == [
        (field.name, field.dataType, field.metadata) for field in two
    ]


SCHEMA = "user string, item string, amount long"
ROWS = [
    *[("a", "x", 1), ("a", None, 2), ("a", "b", None)],
    *[(None, "c", 5), (None, "d", -5)],
    *[("z", None, None)],
]
COMBINED = {
    ("a", 3, 2, 3, "b", 2),
    (None, 2, 2, 0, "c", 5),
    ("z", 1, 0, None, None, None),
}


@pytest.mark.parametrize("tasks", [1, 3])
def test_a_node_sends_one_row_for_each_key(bound: Bind, spark: SparkSession, tasks: int) -> None:
    sender, receiver = bound(merged).queries
    assert sender.make_sent is not None
    assert receiver.make_sent is None
    assert sender.frame.columns == ["user", "item", "amount"], "nothing else is read"
    sent = sender.make_sent(spark.createDataFrame(ROWS, SCHEMA).repartition(tasks))
    assert sent.schema.names == sender.ends_as.names
    assert sent.columns == ["user", "n", "items", "total", "first", "most", "_shard", "_h1", "_h2"]
    assert {tuple(row)[:6] for row in sent.collect()} == COMBINED
    assert sent.count() == len(COMBINED)


def test_what_goes_to_a_shard_is_what_would_without_combining(bound: Bind, spark: SparkSession) -> None:
    rows = spark.createDataFrame(ROWS, SCHEMA)
    plain = bound(lambda o, _: kcontrol.exchange(o.select("user", "item", "amount"), by="user")).queries[0]
    made = bound(merged).queries[0]
    assert made.make_sent is not None
    shards = pipeline_of(merged).layout.shuffle_partitions
    expected = {
        (row.user, row.shard)
        for row in rows.repartition(shards, "user")
        .select("user", F.spark_partition_id().alias("shard"))
        .collect()
    }
    assert {(row.user, row["_shard"]) for row in made.make_sent(rows).collect()} == expected
    assert plain.make_sent is None


def test_the_parts_of_one_node_are_its_rows(bound: Bind, spark: SparkSession) -> None:
    """Merged they are the same."""
    rows = spark.createDataFrame(ROWS, SCHEMA)
    combining = combining_of(rows, ["user"], all_parts(), "here")
    alone = combining.alone(rows)
    assert alone.count() == len(ROWS)
    kinds = [
        [(field.name, field.dataType) for field in frame.schema]
        for frame in (alone, combining.together(rows))
    ]
    assert kinds[0] == kinds[1]
    totals = [F.sum(name).alias(name) for name in ("n", "items", "total")]
    merged_rows = alone.groupBy("user").agg(
        *totals, F.min("first").alias("first"), F.max("most").alias("most")
    )
    assert {tuple(row) for row in merged_rows.collect()} == COMBINED


def test_without_rows_nothing_is_sent(bound: Bind, spark: SparkSession) -> None:
    """One row that says 0 would come from each node, and from one node none."""
    sender = bound(mean).queries[0]
    assert sender.make_sent is not None
    made = sender.make_sent(spark.createDataFrame([], "amount long"))
    assert made.columns == ["n", "total", "_shard", "_h1", "_h2"]
    assert made.collect() == []
    [row] = sender.make_sent(spark.createDataFrame([(1,), (None,)], "amount long")).collect()
    assert (row["n"], row["total"], row["_shard"]) == (1, 1, 0)


def test_the_latest_event_time_of_a_key_goes_along(bound: Bind, spark: SparkSession) -> None:
    query = bound(windows).queries[0]
    assert query.make_sent is not None
    assert query.frame.columns == ["window", "user", "ts"]
    made = query.make_sent(
        spark.sql(
            "select named_struct('start', timestamp'2026-01-01', 'end', timestamp'2026-01-02') window, user, ts from values "
            "('a', timestamp'2026-01-01 05:00:00'), ('a', timestamp'2026-01-01 04:00:00') as t(user, ts)"
        )
    )
    [row] = made.collect()
    assert (row["n"], row["ts"].hour) == (2, 5)


def test_the_fingerprint_covers_how_rows_are_combined(bound: Bind) -> None:
    def other(orders: DataFrame, _: DataFrame) -> Any:
        mine = parts_of(orders, "user", F.max("amount").alias("total"))
        return kcontrol.output(mine.groupBy("user").agg(F.max("total").alias("x")), mode="update")

    def plain(orders: DataFrame, _: DataFrame) -> Any:
        mine = parts_of(orders, "user", F.min("amount").alias("total"))
        return kcontrol.output(mine.groupBy("user").agg(F.min("total").alias("x")), mode="update")

    texts = [bound(query).exchanges[0].combine for query in (other, plain)]
    assert texts == [("max(amount) AS total",), ("min(amount) AS total",)]
    found = [spec_of(bound(query), pipeline_of(query), 2).fingerprint for query in (other, plain)]
    assert len(set(found)) == 2


def dated(frame: DataFrame) -> DataFrame:
    return frame.withWatermark("ts", "1 minute")


def grouped(frame: DataFrame, *aggregates: Any) -> Any:
    return kcontrol.output(frame.groupBy("user").agg(*aggregates), mode="update")


def n() -> Any:
    return F.count("*").alias("n")


WRONG: dict[str, tuple[Query, str]] = {
    "a mean": (
        lambda o, _: parts_of(o, "user", F.avg("amount").alias("a")),
        r"combine = avg\(amount\): a mean can't be put together from means: combine sum and count",
    ),
    "different values": (
        lambda o, _: parts_of(o, "user", F.countDistinct("item").alias("a")),
        r"different values can't be told from parts",
    ),
    "a list": (
        lambda o, _: parts_of(o, "user", F.collect_list("item").alias("a")),
        r"collect_list can't be put together from the parts of several nodes: only count, sum, min and max can",
    ),
    "the first": (
        lambda o, _: parts_of(o, "user", F.first("item").alias("a")),
        r"first can't be put together",
    ),
    "floating point": (
        lambda o, _: parts_of(o, "user", F.sum("price").alias("a")),
        r"sum\(price\): adds numbers of floating point.*cast them to decimal",
    ),
    "an expression": (
        lambda o, _: parts_of(o, "user", F.sum(F.col("amount") * 2).alias("a")),
        r"is not of one column of the frame as it is: make it a column before",
    ),
    "something around it": (
        lambda o, _: parts_of(o, "user", (F.sum("amount") + 1).alias("a")),
        r"must be one of count, sum, min and max, and nothing around it",
    ),
    "a filter": (
        lambda o, _: parts_of(o, "user", F.expr("sum(amount) filter (where item = 'x')").alias("a")),
        r"leaves rows out: make a column before that is null",
    ),
    "a collation": (
        lambda o, _: parts_of(
            o.select("user", F.collate("item", "UTF8_LCASE").alias("c")), "user", F.min("c").alias("a")
        ),
        "text with the collation UTF8_LCASE may be equal and be written otherwise",
    ),
    "no aggregate": (
        lambda o, _: parts_of(o, "user", F.col("amount")),
        r"exchange: combine: .*(MISSING_AGGREGATION|aggregat)",
    ),
    "text": (
        lambda o, _: parts_of(o, "user", "amount"),
        r"combine = \['amount'\]: must be a list of aggregates with names",
    ),
    "nothing": (lambda o, _: kcontrol.exchange(o, by="user", combine=[]), r"combine = \[\]: must be a list"),
    "a name twice": (
        lambda o, _: parts_of(o, "user", n(), F.sum("amount").alias("N")),
        r"two columns named 'n' \(by, combine, and the column of event time\)",
    ),
    "the name of by": (
        lambda o, _: parts_of(o, "user", F.count("*").alias("user")),
        "two columns named 'user'",
    ),
    "the name of event time": (
        lambda o, _: parts_of(dated(o), "user", F.count("*").alias("ts")),
        "two columns named 'ts'",
    ),
    "given on": (lambda o, _: parts_of(o, "user", n()), "query 'out' gives combined rows on as they are"),
    "counted again": (
        lambda o, _: grouped(parts_of(o, "user", n()), F.count("*").alias("n")),
        r"query 'out' does count\(1\), and its rows are combined",
    ),
    "merged otherwise": (
        lambda o, _: grouped(parts_of(o, "user", n()), F.max("n").alias("n")),
        r"query 'out' does max\(n\) with 'n', which is combined by count",
    ),
    "merged as a mean": (
        lambda o, _: grouped(parts_of(o, "user", F.sum("amount").alias("t")), F.avg("t").alias("n")),
        r"does avg\(t\) with 't', which is combined by sum",
    ),
    "counted after it was left out": (
        lambda o, _: grouped(parts_of(o, "user", n()).select("user"), F.count("*").alias("n")),
        r"does count\(1\), and its rows are combined",
    ),
    "computed with": (
        lambda o, _: grouped(parts_of(o, "user", n()).withColumn("n", F.col("n") * 2), F.sum("n").alias("n")),
        r"query 'out' uses 'n' in .*CAST\(2 AS BIGINT\).*before the parts that",
    ),
    "left out by a part": (
        lambda o, _: grouped(parts_of(o, "user", n()).where("n > 1"), F.sum("n").alias("n")),
        r"uses 'n' in .*n > .*before the parts",
    ),
    "unique": (
        lambda o, _: parts_of(o, "user", n()).dropDuplicates(["user"]),
        "has Deduplicate of combined rows",
    ),
    "united with others": (
        lambda o, p: grouped(
            parts_of(o, "user", n()).union(kcontrol.exchange(p.select("user", "amount"), by="user")),
            F.sum("n").alias("n"),
        ),
        "query 'out' unites combined rows with others",
    ),
    "sent on": (
        lambda o, _: grouped(kcontrol.exchange(parts_of(o, "user", n()), by="user"), F.count("*").alias("n")),
        r"query 'out_2\.send' gives combined rows on as they are|query 'out' does count\(1\)",
    ),
}


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("name", WRONG)
def test_what_can_not_be_combined_or_is_not_merged_is_refused(bound: Bind, name: str, nodes: int) -> None:
    """On one node as on several: so a pipeline that runs on one can be given more."""
    query, told = WRONG[name]
    with pytest.raises(ConfigurationError, match=told) as refused:
        bound(query, nodes)
    assert ", line " in str(refused.value).split(":")[0]
    assert "\n" not in str(refused.value)
