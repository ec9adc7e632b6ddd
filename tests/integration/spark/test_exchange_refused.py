"""What is refused of queries that exchange rows, with the line that it is on."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import kcontrol
from kcontrol.adapters.spark.channel.client import ChannelServer
from kcontrol.adapters.spark.query.bind import bind
from kcontrol.definition.resolve import FoundInput, OutputFacts, build_spec
from kcontrol.errors import ConfigurationError, NotDeterministicError
from tests.integration.spark import exchange_queries
from tests.integration.spark.exchange_queries import (
    JSON,
    Bind,
    Query,
    group,
    pipeline_of,
    spec_of,
    totals,
    twice,
)


def test_exchange_is_refused_outside_of_a_query(spark: SparkSession) -> None:
    with pytest.raises(ConfigurationError, match=re.escape("an attached application has app.exchange()")):
        kcontrol.exchange(spark.range(1), by="id")


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
        r"exchange\('x'\): there is an exchange of this name already, at .*test_exchange_refused.py, line \d+",
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
    assert first.startswith((f"{__file__}, line ", f"{exchange_queries.__file__}, line ")), first
    assert "\n" not in first


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
    assert str(refused.value).startswith(f"{exchange_queries.__file__}, line ")
