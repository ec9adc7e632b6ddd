"""How a pipeline's queries are cut at their exchanges, and what is refused of them, with the line that it is on."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

import kcontrol
from kcontrol.adapters.spark.channel.client import ChannelServer
from kcontrol.adapters.spark.internals import analyzed
from kcontrol.adapters.spark.query import exchanging
from kcontrol.adapters.spark.query.bind import Frames, bind
from kcontrol.adapters.spark.query.bound import BoundQueries
from kcontrol.adapters.spark.query.plan_nodes import nodes_in
from kcontrol.core.model import ExchangeSpec, PipelineSpec, WatermarkPolicy, WatermarkSpec
from kcontrol.definition.frames import FrameQuery
from kcontrol.definition.resolve import FoundInput, OutputFacts, build_spec
from kcontrol.errors import ConfigurationError, NotDeterministicError
from tests.replay.queries import Reminder

JSON: dict[str, Any] = {
    "value_format": "json",
    "schema": "user string, item string, amount long, price double, tags map<string,string>, ts timestamp",
}
Query = Callable[[DataFrame, DataFrame], Any]
Bind = Callable[..., BoundQueries]


def pipeline_of(query: Query, nodes: int = 2, **more: Any) -> kcontrol.Pipeline:
    """One whose only query, `out`, is `query` of the inputs orders and payments."""
    key = more.pop("key", None)
    output = kcontrol.KafkaOutput(
        "out", topic="out", value_format="json", key=key, node=more.pop("node", None)
    )
    made = kcontrol.Pipeline(
        "p",
        nodes=nodes,
        inputs=[kcontrol.KafkaInput(name, topic=name, **JSON) for name in ("orders", "payments")],
        outputs=[output],
        **more,
    )

    def out(orders: DataFrame, payments: DataFrame) -> Any:
        return query(orders.select(*COLUMNS), payments.select(*COLUMNS))

    made.query(out)
    return made


COLUMNS = ("user", "item", "amount", "price", "tags", "ts")


@pytest.fixture
def bound(spark: SparkSession) -> Iterator[Bind]:
    server = ChannelServer("127.0.0.1", lambda _peer, _message: {})
    yield lambda query, nodes=2, **more: bind(pipeline_of(query, nodes, **more), spark, server.address)
    server.close()


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


def joined(orders: DataFrame, payments: DataFrame) -> Any:
    o, p = kcontrol.exchange(orders, by=["user", "item"]), kcontrol.exchange(payments, by=["user", "item"])
    return o.select("user", "item", "ts").join(p.select("user", "item", "price"), ["user", "item"])


def twice(orders: DataFrame, _: DataFrame) -> Any:
    once = kcontrol.exchange(orders.select("user", "item"), by=["user", "item"]).dropDuplicates(
        ["user", "item"]
    )
    counted = kcontrol.exchange(once, by="user", name="counted").groupBy("user").count()
    return kcontrol.output(counted, mode="update")


def gathered(orders: DataFrame, _: DataFrame) -> Any:
    return kcontrol.output(kcontrol.exchange(orders, by=[]).agg(F.sum("amount").alias("s")), mode="update")


def windows(orders: DataFrame, _: DataFrame) -> Any:
    late = orders.withWatermark("ts", "10 minutes")
    mine = kcontrol.exchange(late, by=[F.window("ts", "1 hour"), "user"])
    return mine.groupBy("window", "user").count()


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
    ("query", "queries", "exchanges"),
    [
        (totals, {"out_1.send": 0, "out": 1}, {"out_1": ("user",)}),
        (
            joined,
            {"out_1.send": 0, "out_2.send": 0, "out": 1},
            {"out_1": ("user", "item"), "out_2": ("user", "item")},
        ),
        (
            twice,
            {"out_1.send": 0, "counted.send": 1, "out": 2},
            {"out_1": ("user", "item"), "counted": ("user",)},
        ),
        (gathered, {"out_1.send": 0, "out": 1}, {"out_1": ()}),
    ],
)
def test_a_query_is_cut_at_its_exchanges(bound: Bind, query: Query, queries: Any, exchanges: Any) -> None:
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
    assert found.planning == "each step: 'out_1' exchanges rows between nodes"
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
    digests = {(row["_h1"], row["_h2"]) for row in found}
    assert len(digests) == len(rows)
    assert {row["_shard"] for row in exchanging.sent_columns(frame, [], 3).collect()} == {0}
    swapped = spark.createDataFrame([(1, None), (None, 1)], "a int, b int")
    assert len({row["_h1"] for row in exchanging.sent_columns(swapped, [], 1).collect()}) == 2


def test_a_watermark_and_windows_go_with_the_rows(bound: Bind) -> None:
    found = bound(windows)
    reader = found.queries[-1]
    assert (reader.has_watermark, reader.delays_ms, reader.policy) == (True, (600_000,), WatermarkPolicy.MIN)
    names = [node.nodeName() for node in nodes_in(analyzed(reader.frame))]
    assert names.count("EventTimeWatermark") == 1
    spec = spec_of(found, pipeline_of(windows), 2)
    assert spec.watermarks == (WatermarkSpec("out", (600_000,), WatermarkPolicy.MIN),)


def test_an_application_exchanges_rows_of_its_own_frames(spark: SparkSession) -> None:
    server = ChannelServer("127.0.0.1", lambda _peer, _message: {})
    frames = Frames(spark, pipeline_of(totals), server.address)
    frame = frames.exchanges.exchange(frames.read("orders").select("user"), "user")
    found = frames.bind([FrameQuery(frame.groupBy("user").count(), "update", ("out",))])
    server.close()
    assert found.names == ("exchange_1.send", "out")
    assert found.queries[0].where.startswith(__file__)


def test_exchange_is_refused_outside_of_a_query(spark: SparkSession) -> None:
    with pytest.raises(ConfigurationError, match=re.escape("an attached application has app.exchange()")):
        kcontrol.exchange(spark.range(1), by="id")


def group(frame: DataFrame, *by: Any) -> Any:
    return kcontrol.output(frame.groupBy(*by).count(), mode="update")


def dated(frame: DataFrame) -> DataFrame:
    return frame.withWatermark("ts", "1 minute")


WRONG: dict[str, tuple[Query, str]] = {
    "other column": (
        lambda o, _: group(kcontrol.exchange(o, by="user"), "item"),
        "query 'out' groups by item, but its rows come from exchange 'out_1' by user.*"
        r"Use kcontrol\.exchange\(\.\.\., by=\[\"item\"\]\)",
    ),
    "more columns": (
        lambda o, _: group(kcontrol.exchange(o, by="user"), "user", "item"),
        r"groups by user, item, .* by=\[\"user\", \"item\"\]",
    ),
    "other order": (
        lambda o, _: group(kcontrol.exchange(o, by=["user", "item"]), "item", "user"),
        r"groups by item, user, but .*by user, item.* by=\[\"item\", \"user\"\]",
    ),
    "changed": (
        lambda o, _: group(kcontrol.exchange(o, by="user"), F.upper("user")),
        r"groups by upper\(user\), .* by=\[F.expr\(\"upper\(user\)\"\)\]",
    ),
    "made anew": (
        lambda o, _: group(kcontrol.exchange(o, by="user").withColumn("user", F.col("item")), "user"),
        "groups by user, but",
    ),
    "all rows": (
        lambda o, _: kcontrol.output(kcontrol.exchange(o, by="user").agg(F.count("*")), mode="update"),
        r"brings all rows together, without a key, .* by=\[\]\)",
    ),
    "keys after a gather": (
        lambda o, _: group(kcontrol.exchange(o, by=[]), "user"),
        r"groups by user, .* by nothing \(all rows on one node\)",
    ),
    "limit": (
        lambda o, _: kcontrol.exchange(o, by="user").limit(3),
        r"limits the number of rows, .* by=\[\]\)",
    ),
    "unique": (
        lambda o, _: kcontrol.exchange(o, by="user").dropDuplicates(["item"]),
        "leaves out what is equal in item, but",
    ),
    "window behind": (
        lambda o, _: dated(kcontrol.exchange(o, by="user")).groupBy(F.window("ts", "1 hour"), "user").count(),
        r"groups by window, user, .* by=\[\"window\", \"user\"\]\), of columns that are made before it",
    ),
    "a function's columns": (
        lambda o, _: group(
            kcontrol.exchange(o, by="user").mapInPandas(lambda batches: batches, "user string"), "user"
        ),
        "groups by user, but",
    ),
    "unlike union": (
        lambda o, p: group(kcontrol.exchange(o, by="user").union(kcontrol.exchange(p, by="item")), "user"),
        "groups by user, but",
    ),
    "half of the columns": (
        lambda o, p: kcontrol.exchange(o.select("user", "item"), by=["user", "item"]).join(
            kcontrol.exchange(p.select("user", "item", "price"), by=["user", "item"]), "user"
        ),
        r"joins on user = user, .* by=\[\"user\"\] of both sides",
    ),
    "other columns of a join": (
        lambda o, p: kcontrol.exchange(o.select("user", "item"), by="user").join(
            kcontrol.exchange(p.select(F.col("user").alias("payer"), F.col("item").alias("sold")), by="sold"),
            F.expr("user = payer"),
        ),
        r"joins on user = payer, .* by=\[\"user\"\] of the left side and by=\[\"payer\"\] of the right one",
    ),
    "null-safe join": (
        lambda o, p: kcontrol.exchange(o.select("user"), by="user").join(
            kcontrol.exchange(p.select(F.col("user").alias("payer")), by="payer"), F.expr("user <=> payer")
        ),
        "joins on user = payer",
    ),
    "read as it comes": (
        lambda o, p: kcontrol.exchange(o.select("user"), by="user").join(p.select("user", "price"), "user"),
        r"query 'out' brings rows together that were exchanged \(out_1\) and rows of input 'payments' as they were read",
    ),
    "sent after it was grouped": (
        lambda o, _: kcontrol.exchange(o.groupBy("user").count(), by="user"),
        r"exchange\('out_1'\): the frame groups by user, and a result that was sent would change",
    ),
    "by double": (
        lambda o, _: group(kcontrol.exchange(o, by="price"), "price"),
        "by = 'price' is of type double: .*-0.0",
    ),
    "by a map": (
        lambda o, _: kcontrol.exchange(o, by="tags"),
        "by = 'tags' is of type map<string,string>, which has no hash",
    ),
    "by a part of a double": (
        lambda o, _: kcontrol.exchange(o, by=F.struct("user", "price").alias("s")),
        "by = 's' is of type struct<user:string,price:double>",
    ),
    "by a variant": (
        lambda o, _: kcontrol.exchange(o, by=F.parse_json("item").alias("v")),
        "by = 'v' is of type variant, which has no hash",
    ),
    "by a collation": (
        lambda o, _: kcontrol.exchange(o, by=F.collate("user", "UTF8_LCASE").alias("c")),
        "by = 'c': text with the collation UTF8_LCASE",
    ),
    "a variant": (
        lambda o, _: kcontrol.exchange(o.withColumn("v", F.parse_json("item")), by="user"),
        "column 'v' is of type variant, which can't be exchanged",
    ),
    "own name": (
        lambda o, _: kcontrol.exchange(o.withColumn("_Shard", F.lit(1)), by="user"),
        "the name of column '_Shard' is kcontrol's own",
    ),
    "two of a name": (
        lambda o, _: kcontrol.exchange(o.select("user", F.col("item").alias("User")), by="user"),
        "ambiguous|two columns named",
    ),
    "by twice": (
        lambda o, _: kcontrol.exchange(o, by=["user", "user"]),
        "by names a column twice: user, user",
    ),
    "by hides a column": (
        lambda o, _: kcontrol.exchange(o, by=F.upper("user").alias("user")),
        "by makes a column 'user', which the frame has already",
    ),
    "by a number": (lambda o, _: kcontrol.exchange(o, by=[3]), "by = 3: must be the name of a column"),
    "two names": (
        lambda o, p: kcontrol.exchange(o, by="user", name="x").union(
            kcontrol.exchange(p, by="user", name="x")
        ),
        r"exchange\('x'\): there is an exchange of this name already, at .*test_exchange_binding.py, line \d+",
    ),
    "no name": (
        lambda o, _: kcontrol.exchange(o, by="user", name="a-b"),
        "exchange name 'a-b' is not allowed",
    ),
    "compression": (
        lambda o, _: kcontrol.exchange(o, by="user", compression="gzip"),  # type: ignore[arg-type]
        r"exchange\(compression='gzip'\): must be 'none', 'lz4' or 'zstd'",
    ),
    "no frame": (lambda _o, _p: kcontrol.exchange("orders", by="user"), "str is not a DataFrame"),
    "no stream": (
        lambda o, _: kcontrol.exchange(o.sparkSession.range(3), by="id"),
        "the frame is not a streaming one",
    ),
    "read twice": (
        lambda o, _: (lambda mine: mine.union(mine))(kcontrol.exchange(o, by="user")),
        "query 'out' reads exchange 'out_1' twice",
    ),
    "two watermarks": (
        lambda o, p: kcontrol.exchange(dated(o).union(dated(p)), by="user"),
        "the frame has 2 watermarks",
    ),
    "watermark left out": (
        lambda o, _: kcontrol.exchange(
            dated(o).select(F.window("ts", "1 hour"), "user"), by=["window", "user"]
        ),
        "column 'window' was made of an event time with a watermark, which is not among the columns",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_an_exchange_can_not_do_is_refused_with_the_line_it_is_on(bound: Bind, name: str) -> None:
    query, told = WRONG[name]
    with pytest.raises(ConfigurationError, match=told) as refused:
        bound(query)
    first = str(refused.value)
    assert first.startswith(f"{__file__}, line "), first
    assert "\n" not in first
    assert inspect.getsourcefile(query) == __file__


def test_what_gives_other_values_is_refused_before_it_is_sent(bound: Bind) -> None:
    with pytest.raises(NotDeterministicError, match=r"query 'out_1\.send' uses 'rand"):
        bound(lambda o, _: kcontrol.exchange(o.withColumn("r", F.rand()), by="user"))


def test_an_exchange_is_read_once(bound: Bind, spark: SparkSession) -> None:
    unused = bound(lambda o, p: (kcontrol.exchange(p, by="user"), o.select("user"))[1])
    with pytest.raises(ConfigurationError, match="exchange 'out_1': no query reads the rows"):
        spec_of(unused, pipeline_of(totals), 2)
    server = ChannelServer("127.0.0.1", lambda _peer, _message: {})
    two = kcontrol.Pipeline(
        "p",
        nodes=2,
        inputs=[kcontrol.KafkaInput("orders", topic="orders", **JSON)],
        outputs=[kcontrol.KafkaOutput(name, topic=name, value_format="json") for name in ("a", "b")],
    )

    @two.query
    def both(orders: DataFrame) -> Any:
        mine = kcontrol.exchange(orders, by="user")
        return {"a": mine.select("user"), "b": mine.select("item")}

    queries = bind(two, spark, server.address)
    server.close()
    outputs = {name: OutputFacts("o", 2) for name in ("a", "b")}
    topics = dict.fromkeys([each.name for each in queries.exchanges], "t")
    with pytest.raises(ConfigurationError, match="exchange 'both_1' is read by the queries 'a' and 'b'"):
        build_spec(
            two, {"orders": FoundInput("i", (0, 0))}, outputs, queries.facts(), queries.exchanges, topics
        )


def test_more_nodes_than_shards_and_more_stages_than_are_wanted_are_refused(bound: Bind) -> None:
    layout = kcontrol.Layout(shuffle_partitions=1)
    with pytest.raises(ConfigurationError, match=r"exchanges rows among 1 shards.*at least 2"):
        spec_of(bound(totals, layout=layout), pipeline_of(totals, layout=layout), 2)
    few: dict[str, Any] = {"max_stages": 3, "key": "user"}
    with pytest.raises(
        ConfigurationError, match=r"has steps of 4 stages.*out_1, counted, out-deliver.*max_stages=4"
    ):
        spec_of(bound(twice, **few), pipeline_of(twice, **few))
    assert spec_of(bound(twice, key="user"), pipeline_of(twice, key="user")).stages == (0, 1, 2)


def test_what_would_be_scattered_is_told_the_exchange_that_would_do(bound: Bind) -> None:
    def query(orders: DataFrame, _: DataFrame) -> Any:
        return group(orders, "item", F.upper("user"))

    told = (
        r"query 'out' groups by item, upper\(user\).*"
        r"kcontrol\.exchange\(\.\.\., by=\[\"item\", F\.expr\(\"upper\(user\)\"\)\]\)"
    )
    with pytest.raises(ConfigurationError, match=told) as refused:
        spec_of(bound(query), pipeline_of(query), 2)
    assert str(refused.value).startswith(f"{__file__}, line ")
