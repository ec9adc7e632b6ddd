"""Nodes that each run only the partitions of a query's state that they own give together what one gives that runs them all:
whatever keeps the state, over restarts, rollbacks and checkpoints. Most of what can keep state is for the heavy run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kcontrol.adapters.checkpoints import CheckpointStore, PartPlace
from kcontrol.adapters.spark.internals import execution_of
from kcontrol.adapters.spark.state.assembling import PartsOfNodes
from kcontrol.adapters.spark.state.holding import held_shards
from kcontrol.adapters.spark.state.shards import OwnedShards, can_run_some_of
from kcontrol.adapters.spark.tables.gathering import gathered
from kcontrol.adapters.spark.tables.states import read_state, state_tables
from kcontrol.core.step.assignment import dealt
from tests.integration.spark.conftest import MakeCluster
from tests.pipelines.every_kind import Counting, CountingFrames
from tests.support.restoring import restored_from
from tests.support.sharded import QUERY, SHARDS, Cluster, Kind, Node, state_in

TIMES = "10 seconds"


def total(rows: DataFrame) -> DataFrame:
    return rows.groupBy("user").agg(F.count("*").alias("n"), F.sum("amount").alias("total"))


def windows(rows: DataFrame) -> DataFrame:
    counted = rows.withWatermark("ts", TIMES).groupBy(F.window("ts", TIMES), "user").count()
    return counted.select(F.col("window.start").cast("long"), "user", "count")


def by_window() -> list[Column]:
    return [F.window("ts", TIMES), F.col("user")]


def sessions(rows: DataFrame) -> DataFrame:
    counted = rows.withWatermark("ts", TIMES).groupBy(F.session_window("ts", "4 seconds"), "user").count()
    return counted.select(F.col("session_window.start").cast("long"), "user", "count")


def seldom(rows: DataFrame) -> DataFrame:
    return rows.withWatermark("ts", TIMES).dropDuplicatesWithinWatermark(["user"]).select("user")


def joined(rows: DataFrame) -> DataFrame:
    even = rows.where("amount % 2 = 0").select("user", F.col("amount").alias("a"))
    odd = rows.where("amount % 2 = 1").select("user", F.col("amount").alias("b"))
    return even.join(odd, "user")


def joined_in_time(rows: DataFrame) -> DataFrame:
    left = rows.withWatermark("ts", TIMES).select("user", "amount", "ts")
    right = rows.withWatermark("ts", TIMES).where("amount < 30").select("user", F.col("ts").alias("at"))
    near = F.expr("at between ts - interval 2 seconds and ts + interval 2 seconds")
    pairs = left.alias("l").join(right.alias("r"), near & (F.col("l.user") == F.col("r.user")), "leftOuter")
    return pairs.select(F.col("l.user"), "amount", F.col("ts").cast("long"), F.col("at").cast("long"))


def with_itself(rows: DataFrame) -> DataFrame:
    return rows.select("user", F.col("amount").alias("a")).join(rows.select("user", "amount"), "user")


def chained(rows: DataFrame) -> DataFrame:
    once = rows.withWatermark("ts", TIMES).select(F.window("ts", TIMES).alias("window"), "user")
    counted = once.dropDuplicates(["window", "user"]).groupBy("window", "user").count()
    return counted.select(F.col("window.start").cast("long"), "user", "count")


def counting(how: str, processor: Any) -> Callable[[DataFrame], DataFrame]:
    def build(rows: DataFrame) -> DataFrame:
        grouped = rows.select(F.col("user").alias("name"), F.col("amount").alias("n")).groupBy("name")
        found: DataFrame = getattr(grouped, how)(
            statefulProcessor=processor,
            outputStructType="name string, c long",
            outputMode="Update",
            timeMode="None",
        )
        return found

    return build


def in_pandas(rows: DataFrame) -> DataFrame:
    def count(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        state.update(((state.get[0] if state.exists else 0) + sum(len(frame) for frame in frames),))
        yield pd.DataFrame({"name": [key[0]], "c": [state.get[0]]})

    grouped = rows.select("user", "amount").groupBy("user")
    return grouped.applyInPandasWithState(count, "name string, c long", "c long", "update", "NoTimeout")


KINDS = {
    "aggregation": Kind(total, "update"),
    "complete": Kind(total, "complete"),
    "windows": Kind(windows, by=by_window),
    "session windows": Kind(sessions),
    "first of all": Kind(lambda rows: rows.select("user").dropDuplicates(["user"])),
    "first in a time": Kind(seldom),
    "join": Kind(joined, sources=2),
    "outer join in time": Kind(joined_in_time, sources=2),
    "join with itself": Kind(with_itself, sources=2),
    "two operators": Kind(chained, by=by_window),
    "transformWithState": Kind(counting("transformWithState", Counting()), "update"),
    "transformWithState, pandas": Kind(counting("transformWithStateInPandas", CountingFrames()), "update"),
    "applyInPandasWithState": Kind(in_pandas, "update"),
    "one group": Kind(lambda rows: rows.groupBy().agg(F.sum("amount")), "update", lambda: []),
}


QUICK = ("two operators",)
"""With a watermark, too."""


def heavy_but(*names: str, of: Iterable[str] | Mapping[str, Any]) -> list[Any]:
    """Kinds as parameters, of which all but these are heavy. of: names of `KINDS`, or what is to be taken by name."""
    kinds = of if isinstance(of, Mapping) else KINDS
    return [
        pytest.param(kinds[name], id=name, marks=() if name in names else pytest.mark.heavy) for name in of
    ]


@pytest.fixture
def cluster(cluster: MakeCluster) -> MakeCluster:
    """Of the same rows in each run."""
    return partial(cluster, seed=1)


@pytest.mark.parametrize("kind", heavy_but(*QUICK, of=KINDS))
def test_nodes_with_some_shards_do_together_what_one_does_with_all(
    cluster: MakeCluster, kind: Kind, tmp_path: Path
) -> None:
    pipeline = cluster(kind)
    for _ in range(2):
        pipeline.step()
    first, second = pipeline.nodes
    first.restart()
    pipeline.step()
    given = [Counter(second.out[step]) for step in (2, 3)]
    second.roll_back(1)
    assert [pipeline.run(second, step) for step in (2, 3)] == given
    pipeline.step([])
    pipeline.nodes[0] = reopened(pipeline, first, 4, tmp_path)
    for _ in range(2):
        pipeline.step()


def reopened(pipeline: Cluster, node: Node, step: int, tmp_path: Path) -> Node:
    """The same node on a machine that has nothing, out of a part of a checkpoint."""
    place = PartPlace(str(tmp_path / "durable"), "p", "log", node.number, node.incarnation, 1, step)
    pin = node.workdir.pin(step)
    manifest = CheckpointStore().save(place, pin).manifest
    assert state_in(pin / QUERY) <= node.shards.owned
    node.stop()
    other = pipeline.node(node.number, "others")
    assert restored_from(other.workdir, place.location, manifest) == step
    return other


@pytest.mark.parametrize("kind", heavy_but("aggregation", of=("aggregation", "join")))
def test_the_shards_of_all_nodes_are_one_table(
    spark: SparkSession, cluster: MakeCluster, kind: Kind, tmp_path: Path
) -> None:
    pipeline = cluster(kind)
    for _ in range(3):
        pipeline.step()
    there, expected = (
        state_tables(gathered(parts_of(nodes, owner, tmp_path / name), tmp_path / name / "states"), 3)
        for name, nodes, owner in (
            ("some", pipeline.nodes, pipeline.owner),
            ("all", [pipeline.whole], dealt(SHARDS, 1)),
        )
    )
    assert [table.name for table in there] == [table.name for table in expected]
    for mine, whole in zip(there, expected, strict=True):
        rows, wanted = (read_state(spark, table, 3) for table in (mine, whole))
        found = Counter(rows.drop("node").collect())
        assert found == Counter(wanted.drop("node").collect())
        assert found
        assert {(row.shard, row.node) for row in rows.collect()} <= set(enumerate(pipeline.owner))


def parts_of(nodes: list[Node], owner: tuple[int, ...], root: Path) -> PartsOfNodes:
    """A checkpoint of step 3."""
    manifests = {}
    for node in nodes:
        place = PartPlace(str(root / "durable"), "p", "log", node.number, node.incarnation, 1, 3)
        pin = node.workdir.pin(3)
        manifests[node.number] = (
            CheckpointStore().save(place, pin, held=held_shards(pin, 3, [QUERY])).manifest
        )
    return PartsOfNodes(CheckpointStore(), str(root / "durable"), 3, manifests, owner)


def test_a_node_that_owns_nothing_goes_along(cluster: MakeCluster) -> None:
    """Here the first one; it has no partition from its first step on, and is started again."""
    pipeline = cluster(Kind(joined, sources=2), owner=(1, 1, 1, 1))
    pipeline.step()
    pipeline.nodes[0].restart()
    pipeline.step()
    assert [pipeline.nodes[0].out[step] for step in (1, 2)] == [[], []]
    assert state_in(pipeline.nodes[0].directory) == set()


@pytest.mark.heavy
def test_partitions_that_were_run_so_far_are_given_up(spark: SparkSession, cluster: MakeCluster) -> None:
    """A node that ran all partitions until it was started again, as where Spark could do no other."""
    pipeline = cluster(Kind(total, "update"))
    everything = pipeline.nodes[0].shards
    pipeline.nodes[0].shards = OwnedShards(frozenset(range(SHARDS)), SHARDS)
    pipeline.step()
    pipeline.step()
    pipeline.nodes[0].restart()
    pipeline.nodes[0].shards = everything
    pipeline.step()
    pipeline.step()


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda rows: rows.groupBy("user").count(), "belong to shards of other nodes: group by exactly"),
        (
            lambda rows: rows.groupBy("user").count().coalesce(2),
            "come in 2 partitions and the pipeline has 4",
        ),
        (lambda rows: rows.groupBy("user").count().repartition(SHARDS), "was run for shards .* does not own"),
    ],
    ids=["rows of others", "fewer partitions", "rows moved afterwards"],
)
def test_rows_that_would_be_lost_end_the_query(
    spark: SparkSession, cluster: MakeCluster, build: Callable[[DataFrame], DataFrame], told: str
) -> None:
    """All rows come to a node that owns half of the shards."""
    pipeline = cluster(Kind(build, "update"))
    node = pipeline.nodes[0]
    node.put(1, pipeline.made())
    with pytest.raises(StreamingQueryException, match=told):
        node.step(1)


@pytest.mark.parametrize(
    ("build", "fits"),
    [
        (total, True),
        (lambda rows: total(rows).coalesce(1), False),
        (lambda rows: total(rows).repartition(SHARDS), False),
        (lambda rows: total(rows).union(total(rows)), False),
        (lambda rows: total(rows.union(rows)), True),
    ],
    ids=["as it is", "coalesce", "repartition", "union", "union before"],
)
def test_a_query_that_moves_rows_after_its_state_is_run_whole(
    spark: SparkSession, cluster: MakeCluster, build: Callable[[DataFrame], DataFrame], fits: bool
) -> None:
    pipeline = cluster(Kind(build, "update", sources=2))
    node = pipeline.whole
    node.put(1, pipeline.made())
    node.step(1)
    assert node.query is not None
    assert can_run_some_of(spark, execution_of(node.query), QUERY) == fits
