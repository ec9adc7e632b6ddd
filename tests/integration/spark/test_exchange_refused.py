"""What is refused of queries that exchange rows, with the line that it is on."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import kcontrol
from kcontrol.errors import ConfigurationError, NotDeterministicError
from tests.integration.spark import exchange_queries
from tests.integration.spark.exchange_queries import (
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
    "sessions of another key": (
        lambda o, _: (
            dated(kcontrol.exchange(o, by="user")).groupBy("item", F.session_window("ts", "1 hour")).count()
        ),
        r"groups by item, but .* by=\[\"item\"\]\), of columns that are made before it",
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
    "time of windows left out": (
        lambda o, _: kcontrol.exchange(
            kcontrol.exchange(dated(o), by=[F.window("ts", "1 hour"), "user"])
            .groupBy("window", "user")
            .count(),
            by="window",
        ),
        r"column 'window' was made of an event time .* add a column with the time of the windows, "
        r"F\.window_time\('window'\), to the frame",
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


def test_windows_are_not_counted_before_rows_have_met(bound: Bind) -> None:
    """What would be sent is a part of each window, closed by one node's watermark."""

    def query(orders: DataFrame, _: DataFrame) -> Any:
        mine = dated(orders).groupBy(F.window("ts", "1 hour"), "user").count()
        return kcontrol.exchange(mine.select("user", "count"), by="user")

    with pytest.raises(ConfigurationError, match=r"query 'out_1\.send' groups by window, user, but input"):
        spec_of(bound(query), pipeline_of(query), 2)


def test_windows_of_one_nodes_watermark_are_not_sent(bound: Bind) -> None:
    """Where producers have partitioned the topic, each window is whole, but nodes would close it at steps of their own."""

    def query(orders: DataFrame, _: DataFrame) -> Any:
        mine = dated(orders).groupBy(F.window("ts", "1 hour"), "user").count()
        return kcontrol.exchange(mine.select("user", "count"), by="user")

    placed = {"partitioned_by": "user"}
    with pytest.raises(ConfigurationError, match=r"query 'out_1\.send' has a watermark, and every node"):
        spec_of(bound(query, **placed), pipeline_of(query, **placed), 2)


def test_an_exchange_that_no_query_reads_is_refused(bound: Bind) -> None:
    unused = bound(lambda o, p: (kcontrol.exchange(p, by="user"), o.select("user"))[1])
    with pytest.raises(ConfigurationError, match="exchange 'out_1': no query reads the rows"):
        spec_of(unused, pipeline_of(totals), 2)


SHARD: dict[str, Any] = {
    "partitioner": "shard",
    "key": "user",
    "layout": kcontrol.Layout(shuffle_partitions=4),
}
WRONG_OF_SHARDS: dict[str, tuple[Query, dict[str, Any], str]] = {
    "no exchange": (
        lambda o, _: o.select("user"),
        {},
        "has partitioner='shard', and its rows come from no exchange",
    ),
    "no keys": (totals, {"key": None}, "has partitioner='shard', and its rows have no keys: set key="),
    "own partition": (
        lambda o, _: kcontrol.exchange(o, by="user").select("user", F.lit(1).alias("partition")),
        {},
        "and its rows bring a column 'partition'",
    ),
    "column left out": (
        lambda o, _: kcontrol.exchange(o, by="item").select("user"),
        {},
        r"don't have all columns any more, unchanged, by which they were exchanged \(item\)",
    ),
    "column changed": (
        lambda o, _: kcontrol.exchange(o, by="user").select(F.upper("user").alias("user")),
        {},
        "don't have all columns any more",
    ),
    "another key": (
        lambda o, _: kcontrol.exchange(o, by=["user", "item"]).select("user", "item"),
        {},
        "and key = 'user', but its rows were exchanged by item, user",
    ),
}


@pytest.mark.parametrize("name", WRONG_OF_SHARDS)
def test_rows_without_a_shard_or_with_keys_in_several_are_refused(bound: Bind, name: str) -> None:
    query, more, told = WRONG_OF_SHARDS[name]
    with pytest.raises(ConfigurationError, match=told) as refused:
        bound(query, **{**SHARD, **more})
    assert str(refused.value).startswith((f"{__file__}, line ", f"{exchange_queries.__file__}, line "))


def test_partitions_that_are_not_the_nodes_of_their_shards_are_refused(bound: Bind) -> None:
    queries, pipeline = bound(totals, **SHARD), pipeline_of(totals, **SHARD)
    assert [each.name for each in queries.exchanges] == ["out_1"], "nothing is delivered"
    assert queries.queries[-1].frame.columns == ["key", "value", "_shard"]
    assert spec_of(queries, pipeline, 4).outputs[0].partitions == 4
    for partitions in (1, 3, 8):
        told = (
            rf"{partitions} partitions: that must be a multiple of the number of nodes, 2, and divide .*=4\)"
        )
        with pytest.raises(ConfigurationError, match=told):
            spec_of(queries, pipeline, partitions)
    alone = bound(totals, 1, **SHARD)
    assert alone.queries[-1].frame.columns == ["key", "value"]
    assert spec_of(alone, pipeline_of(totals, 1, **SHARD), 3).nodes == 1
    by_key = {**SHARD, "partitioner": "kafka"}
    kinds = {
        spec_of(bound(totals, **more), pipeline_of(totals, **more), 4).fingerprint for more in (SHARD, by_key)
    }
    assert len(kinds) == 2


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
