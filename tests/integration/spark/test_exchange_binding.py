"""How a pipeline's queries are cut at their exchanges, and what is refused of them, with the line that it is on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

import kcontrol
from kcontrol.adapters.spark.channel.client import ChannelServer
from kcontrol.adapters.spark.internals import plan_of
from kcontrol.adapters.spark.query import exchanging
from kcontrol.adapters.spark.query.bind import Frames
from kcontrol.adapters.spark.query.plan_nodes import nodes_in
from kcontrol.core.model import ExchangeSpec, WatermarkPolicy, WatermarkSpec
from kcontrol.definition.frames import FrameQuery
from kcontrol.errors import ConfigurationError
from tests.integration.spark.exchange_queries import (
    Bind,
    Query,
    gathered,
    pipeline_of,
    spec_of,
    totals,
    twice,
)
from tests.replay.queries import Reminder


def joined(orders: DataFrame, payments: DataFrame) -> Any:
    o, p = kcontrol.exchange(orders, by=["user", "item"]), kcontrol.exchange(payments, by=["user", "item"])
    return o.select("user", "item", "ts").join(p.select("user", "item", "price"), ["user", "item"])


def windows(orders: DataFrame, _: DataFrame) -> Any:
    late = orders.withWatermark("ts", "10 minutes")
    mine = kcontrol.exchange(late, by=[F.window("ts", "1 hour"), "user"])
    return mine.groupBy("window", "user").count()


def windows_of_windows(orders: DataFrame, _: DataFrame) -> Any:
    ended = windows(orders, _).select(F.window_time("window").alias("ended"), "count")
    wide = kcontrol.exchange(ended, by=[F.window("ended", "1 day").alias("day")])
    return wide.groupBy("day").agg(F.sum("count").alias("n"))


def totals_of_windows(orders: DataFrame, _: DataFrame) -> Any:
    counted = kcontrol.exchange(windows(orders, _).select("user", "count"), by="user")
    return kcontrol.output(counted.groupBy("user").agg(F.sum("count").alias("n")), mode="update")


RIGHT: dict[str, Query] = {
    "renamed": lambda o, _: kcontrol.output(
        kcontrol.exchange(o, by="user").withColumnRenamed("user", "u").groupBy("u").count(), mode="update"
    ),
    "an expression": lambda o, _: kcontrol.output(
        kcontrol.exchange(o, by=F.upper("user").alias("big")).groupBy("big").count(), mode="update"
    ),
    "after a group": lambda o, _: (
        kcontrol.exchange(o, by="user").dropDuplicates(["user"]).dropDuplicates(["user"])
    ),
    "united": lambda o, p: kcontrol.output(
        kcontrol.exchange(o, by="user").union(kcontrol.exchange(p, by="user")).groupBy("user").count(),
        mode="update",
    ),
    "named otherwise": lambda o, p: kcontrol.exchange(o.select("user", "amount"), by="user").join(
        kcontrol.exchange(p.select(F.col("user").alias("payer"), "price"), by="payer"), F.expr("payer = user")
    ),
    "limited": lambda o, _: kcontrol.exchange(o, by=[]).limit(3),
    "state": lambda o, _: kcontrol.output(
        kcontrol.exchange(o.select(F.col("user").alias("name")), by="name")
        .groupBy("name")
        .transformWithState(
            statefulProcessor=Reminder(),
            outputStructType="name string, c long, at long",
            outputMode="Update",
            timeMode="ProcessingTime",
        ),
        mode="update",
    ),
    "groups of a step": lambda o, _: (
        kcontrol.exchange(o, by="user").groupBy("user").applyInPandas(lambda frame: frame, "user string")
    ),
    "nothing that needs it": lambda o, _: kcontrol.exchange(o, by="user").select("amount"),
    "windows": windows,
    "windows of windows": windows_of_windows,
    "sessions": lambda o, _: (
        kcontrol.exchange(o.withWatermark("ts", "1 minute"), by="user")
        .groupBy(F.session_window("ts", "1 minute"), "user")
        .count()
    ),
    "totals": totals,
    "joined": joined,
    "twice": twice,
    "gathered": gathered,
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_by_the_columns_of_the_exchange_is_right_on_two_nodes_and_on_one(
    bound: Bind, name: str
) -> None:
    for nodes in (1, 2):
        queries = bound(RIGHT[name], nodes)
        assert spec_of(queries, pipeline_of(RIGHT[name], nodes), 2).nodes == nodes
        assert bool(queries.exchanges) == (nodes == 2)


@pytest.mark.parametrize(
    ("query", "queries", "exchanges", "planning"),
    [
        (totals, {"out_1.send": 0, "out": 1}, {"out_1": ("user",)}, "once"),
        (
            joined,
            {"out_1.send": 0, "out_2.send": 0, "out": 1},
            {"out_1": ("user", "item"), "out_2": ("user", "item")},
            "once, each step where it can't be: query 'out': it keeps state, and its plan has Join",
        ),
        (
            twice,
            {"out_1.send": 0, "counted.send": 1, "out": 2},
            {"out_1": ("user", "item"), "counted": ("user",)},
            "once",
        ),
        (gathered, {"out_1.send": 0, "out": 1}, {"out_1": ()}, "once"),
    ],
)
def test_a_query_is_cut_at_its_exchanges(
    bound: Bind, query: Query, queries: Any, exchanges: Any, planning: str
) -> None:
    found = bound(query)
    assert {each.name: each.stage for each in found.queries} == queries
    assert {each.name: each.by for each in found.exchanges} == exchanges
    for each in found.exchanges:
        sender = next(query for query in found.queries if query.sends == each.name)
        assert (sender.name, sender.outputs, sender.mode, sender.stage) == (
            each.sender,
            (),
            "append",
            each.stage,
        )
        columns = StructType.fromJson(json.loads(each.schema)).names
        assert sender.frame.columns == [*columns, "_shard", "_h1", "_h2"]
        assert (sender.keyed, sender.unkeyed) == (False, True)
    reader = found.queries[-1]
    assert (bool(reader.exchanges), reader.inputs, reader.narrow) == (True, (), False)
    assert found.planning == planning
    spec = spec_of(found, pipeline_of(query), 2)
    assert spec.queries == tuple(queries)
    assert spec.stages == tuple(queries.values())
    assert spec.exchanges[0] == ExchangeSpec(*("out_1", "t-out_1", "", exchanges["out_1"], "out_1.send", 0))


def test_with_one_node_an_exchange_gives_the_frame_itself(spark: SparkSession) -> None:
    """So the one that has the column already, too, and one whose column is made for it."""
    server = ChannelServer("127.0.0.1", lambda _peer, _message: {})
    frames = Frames(spark, pipeline_of(totals, nodes=1), server.address)
    frame = frames.read("orders")
    server.close()
    assert frames.exchanges.exchange(frame, "user") is frame
    assert frames.exchanges.exchange(frame, []) is frame
    made = frames.exchanges.exchange(frame, [F.upper("user").alias("big"), "item"])
    assert made.columns == [*frame.columns, "big"]
    assert frames.exchanges.sent == []


def test_the_fingerprint_covers_exchanges_and_is_as_it_was_without(bound: Bind) -> None:
    def plain(orders: DataFrame, _: DataFrame) -> Any:
        return kcontrol.output(orders.groupBy("user").agg(F.sum("amount").alias("total")), mode="update")

    def named(orders: DataFrame, _: DataFrame) -> Any:
        mine = kcontrol.exchange(orders, by="user", name="other")
        return kcontrol.output(mine.groupBy("user").agg(F.sum("amount").alias("total")), mode="update")

    several = [spec_of(bound(query), pipeline_of(query), 2).fingerprint for query in (totals, twice, named)]
    assert len(set(several)) == 3
    alone = [spec_of(bound(query, 1), pipeline_of(query, 1)).fingerprint for query in (totals, plain)]
    assert alone[0] == alone[1]


def test_keyed_rows_and_an_output_of_one_node_are_delivered(bound: Bind) -> None:
    keyed = bound(totals, key="user")
    assert [(each.name, each.delivers, each.sender, each.stage) for each in keyed.exchanges[1:]] == [
        ("out-deliver", "out", "out", 1)
    ]
    assert keyed.queries[-1].frame.columns == ["key", "value", "_h1", "_h2"]
    assert spec_of(keyed, pipeline_of(totals, key="user")).exchanges[-1].delivers == "out"
    pinned = bound(gathered, node=1)
    assert pinned.exchanges[-1].delivers == "out"
    assert spec_of(pinned, pipeline_of(gathered, node=1)).outputs[0].partitions == 1
    with pytest.raises(ConfigurationError, match="has 1 partitions, so some nodes could write nothing to it"):
        spec_of(bound(totals), pipeline_of(totals))


def test_rows_of_inputs_are_delivered_where_one_node_writes_all_of_their_output(bound: Bind) -> None:
    def plain(orders: DataFrame, _: DataFrame) -> Any:
        return orders.select("user", "amount")

    for key in (None, "user"):
        pinned = bound(plain, node=1, key=key)
        assert [(each.name, each.delivers, each.sender, each.stage) for each in pinned.exchanges] == [
            ("out-deliver", "out", "out", 0)
        ]
        assert pinned.queries[0].frame.columns[-3:] == ["value", "_h1", "_h2"]
        assert pinned.planning == "once"
        spec = spec_of(pinned, pipeline_of(plain, node=1, key=key))
        assert (spec.outputs[0].partitions, spec.outputs[0].node, spec.stages) == (1, 1, (0,))
    assert bound(plain, nodes=1, node=0).exchanges == (), "one node has all rows"
    assert bound(plain).exchanges == (), "each node has partitions"


def test_keys_of_inputs_that_one_node_reads_are_delivered_and_what_it_writes_alone_is_not(
    bound: Bind,
) -> None:
    def plain(orders: DataFrame, _: DataFrame) -> Any:
        return orders.select("user", "amount")

    where: dict[str, Any] = {"reader": 1, "key": "user"}
    assert [each.name for each in bound(plain, **where).exchanges] == ["out-deliver"]
    assert bound(plain, **where, node=1).exchanges == ()
    assert [each.name for each in bound(plain, **where, node=0).exchanges] == ["out-deliver"]
    assert bound(plain, reader=1).exchanges == (), "rows without keys go to partitions of its own"


def test_the_columns_that_a_row_is_sent_by(spark: SparkSession) -> None:
    """Spark's own shuffle would put it into the same partition; nulls and maps count in its digest."""
    schema = "user string, n int, m map<string,int>, a array<map<string,int>>"
    rows = [
        ("a", 1, {"x": 1}, None),
        ("a", None, {"x": 2}, None),
        (None, 1, None, [{"x": 1}]),
        (None, None, None, None),
    ]
    frame = spark.createDataFrame(rows, schema)
    sent = exchanging.sent_columns(frame, ["user"], 3)
    shuffled = frame.repartition(3, "user").select("user", F.spark_partition_id().alias("shard"))
    expected = {row.user: row.shard for row in shuffled.collect()}
    found = sent.collect()
    assert {row.user: row["_shard"] for row in found} == expected
    for kind in ("plain", "exact"):
        assert len({(row["_h1"][kind], row["_h2"][kind]) for row in found}) == len(rows)
    assert {row["_shard"] for row in exchanging.sent_columns(frame, [], 3).collect()} == {0}
    swapped = spark.createDataFrame([(1, None), (None, 1)], "a int, b int")
    assert len({row["_h1"] for row in exchanging.sent_columns(swapped, [], 1).collect()}) == 2


ALIKE: dict[str, list[Any]] = {
    "s struct<a:int,b:int>": [((1, None),), ((None, 1),), ((None, None),), (None,)],
    "s struct<a:int,A:int>": [((1, None),), ((None, 1),)],
    "a array<int>": [([1, None],), ([None, 1],), ([1],), ([],), (None,), ([None],)],
    "a array<array<string>>": [
        ([["x"], ["y"]],),
        ([["x", "y"]],),
        ([["x", "y"], []],),
        ([["x", "y"], None],),
    ],
    "a array<int>, b array<int>": [([1], [2]), ([1, 2], []), ([1, 2], None), ([], [1, 2])],
    "m map<string,struct<x:int,y:map<string,int>>>": [
        ({"a": (1, None)},),
        ({"a": (None, {"b": 1})},),
        ({"a": (None, {"b": None})},),
        ({"a": (None, {})},),
        ({"a": None},),
        ({},),
        (None,),
    ],
}
"""Rows of which Spark's own hash gives several the same."""


@pytest.mark.parametrize("schema", ALIKE)
@pytest.mark.parametrize("ansi", [True, False])
def test_rows_that_differ_within_a_column_have_other_digests(
    spark: SparkSession, schema: str, ansi: bool
) -> None:
    """So do those that differ in where an array ends. The plain ones are as they always were."""
    rows = ALIKE[schema]
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        frame = exchanging.sent_columns(spark.createDataFrame(rows, schema), [], 1)
        found = [tuple(row) for row in frame.select("_h1.*", "_h2.*").collect()]
    finally:
        spark.conf.set("spark.sql.ansi.enabled", str(before))
    plain, exact = {(row[0], row[2]) for row in found}, {(row[1], row[3]) for row in found}
    assert (len(plain) < len(rows), len(exact)) == (True, len(rows))


def test_a_digest_does_not_depend_on_where_nulls_may_be(spark: SparkSession) -> None:
    """Another version of Spark may think otherwise of the query by which a step is run again."""
    without = spark.range(1).select(
        F.array(F.lit(1), F.lit(2)).alias("a"), F.struct(F.lit(3).alias("b")).alias("s")
    )
    assert "containsNull = false" in without._jdf.schema().treeString()
    frame = spark.createDataFrame([([1, 2], (3,))], "a array<int>, s struct<b:int>")
    [one], [other] = (exchanging.sent_columns(each, [], 1).collect() for each in (without, frame))
    assert (one["_h1"], one["_h2"]) == (other["_h1"], other["_h2"])


def test_the_plain_hashes_of_rows_are_these_for_ever(spark: SparkSession) -> None:
    """Steps that older versions have made are run again by them."""
    frame = spark.createDataFrame(
        [("a", [1, None], {"x": 1})], "user string, a array<int>, m map<string,int>"
    )
    [row] = exchanging.sent_columns(frame, ["user"], 3).collect()
    mask = F.lit(0).cast("long")
    parts = [mask, "user", "a", F.map_entries("m")]
    [wanted] = frame.select(F.xxhash64(F.lit(1), *parts), F.xxhash64(F.lit(2), *parts)).collect()
    assert (row["_h1"]["plain"], row["_h2"]["plain"]) == tuple(wanted)


def test_a_watermark_and_windows_go_with_the_rows(bound: Bind) -> None:
    found = bound(windows)
    reader = found.queries[-1]
    assert (reader.has_watermark, reader.delays_ms, reader.policy) == (True, (600_000,), WatermarkPolicy.MIN)
    names = [node.name for node in nodes_in(plan_of(reader.frame))]
    assert names.count("EventTimeWatermark") == 1
    spec = spec_of(found, pipeline_of(windows), 2)
    assert spec.watermarks == (WatermarkSpec("out", (600_000,), WatermarkPolicy.MIN),)


def test_windows_that_are_closed_are_sent_on_with_the_time_of_their_ends(bound: Bind) -> None:
    found = bound(windows_of_windows)
    assert [(each.name, each.stage) for each in found.queries] == [
        ("out_1.send", 0),
        ("out_2.send", 1),
        ("out", 2),
    ]
    spec = spec_of(found, pipeline_of(windows_of_windows), 2)
    minute = ((600_000,), WatermarkPolicy.MIN)
    assert spec.watermarks == (WatermarkSpec("out_2.send", *minute), WatermarkSpec("out", *minute))


def test_what_windows_have_counted_is_added_up_on_several_nodes_only(bound: Bind) -> None:
    """On one node both aggregations are one query, for which Spark has no plan in this mode."""
    found = bound(totals_of_windows)
    assert [each.has_watermark for each in found.queries] == [True, True, False]
    with pytest.raises(ConfigurationError, match="Spark can't run it as a stream with mode='update'"):
        bound(totals_of_windows, 1)


def test_an_application_exchanges_rows_of_its_own_frames(spark: SparkSession) -> None:
    server = ChannelServer("127.0.0.1", lambda _peer, _message: {})
    frames = Frames(spark, pipeline_of(totals), server.address)
    frame = frames.exchanges.exchange(frames.read("orders").select("user"), "user")
    found = frames.bind([FrameQuery(frame.groupBy("user").count(), "update", ("out",))])
    server.close()
    assert found.names == ("exchange_1.send", "out")
    assert found.queries[0].where.startswith(__file__)
