"""State that is cut into another number of shards: what nodes give from then on is what one gives whose number of them has
always been the same, and what they hold is what they would hold had there been so many from the beginning."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from kcontrol.adapters.spark.internals import AS_STORED, PARTITION_KEY
from kcontrol.adapters.spark.state import resharding
from kcontrol.adapters.spark.state.formats import operators, partition_counts, recorded_settings
from kcontrol.adapters.spark.state.resharding import refused_state
from kcontrol.adapters.spark.state.shards import OwnedShards
from kcontrol.core.step.assignment import resharded
from kcontrol.errors import CheckpointError
from tests.integration.spark.conftest import MakeCluster
from tests.integration.spark.test_shards import KINDS, counting, heavy_but, total
from tests.support.sharded import SHARDS, Kind, Node, state_in


class Remembering(StatefulProcessor):
    """Every amount of a user in a list, and how often each came in a map."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._list = handle.getListState("amounts", "n long")
        self._map = handle.getMapState("times", "n long", "c long")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            self._list.appendValue((row.n,))
            times = self._map.getValue((row.n,))[0] if self._map.containsKey((row.n,)) else 0
            self._map.updateValue((row.n,), (times + 1,))
        heard = [value[0] for value in self._list.get()]
        most = max(value[0] for value in self._map.values())
        yield Row(name=f"{key[0]} {heard}", c=most)

    def close(self) -> None:
        """There is nothing to close."""


ALL = {**KINDS, "lists and maps": Kind(counting("transformWithState", Remembering()), "update")}


@pytest.mark.parametrize("kind", heavy_but("aggregation", of=ALL))
def test_more_shards_and_fewer_give_what_one_node_gives(
    spark: SparkSession, cluster: MakeCluster, kind: Kind
) -> None:
    """From 4 to 8, and to 2; with steps, a node that is started anew and one that goes back in between."""
    pipeline = cluster(kind)
    pipeline.step()
    pipeline.step()
    for shards in (2 * SHARDS, SHARDS // 2):
        pipeline.reshard(shards)
        assert len(pipeline.owner) == shards
        for node in pipeline.nodes:
            assert node.shards is not None
            assert state_in(node.directory) <= node.shards.owned
        pipeline.step()
        first, last = pipeline.nodes[0], max(pipeline.rows)
        first.restart()
        pipeline.step()
        given = Counter(first.out[last + 1])
        first.roll_back(last)
        assert pipeline.run(first, last + 1) == given


@pytest.mark.parametrize("kind", heavy_but("aggregation", of=ALL))
def test_the_state_is_that_of_a_pipeline_with_so_many_shards_from_the_beginning(
    spark: SparkSession, cluster: MakeCluster, kind: Kind, tmp_path: Path
) -> None:
    pipeline = cluster(kind, nodes=1)
    twins = {
        shards: Node(
            spark, tmp_path / f"twin-{shards}", 0, kind, OwnedShards(frozenset(range(shards)), shards)
        )
        for shards in (2 * SHARDS, SHARDS // 4)
    }
    try:
        for shards, twin in twins.items():
            for _ in range(2):
                pipeline.step()
            for step in range(1, max(pipeline.rows) + 1):
                twin.watermarks = pipeline.whole.watermarks
                [rows] = [[row for node in pipeline.rows[step] for row in node]]
                twin.put(step, rows)
                twin.step(step)
            pipeline.reshard(shards)
            last = max(pipeline.rows)
            mine, its = pipeline.nodes[0].directory, twin.directory
            assert stored(spark, mine, last, shards) == stored(spark, its, last, shards)
            assert recorded_settings(mine / "offsets" / str(last - 1))["spark.sql.shuffle.partitions"] == str(
                shards
            )
            twin.stop()
    finally:
        for twin in twins.values():
            twin.stop()


def stored(spark: SparkSession, query: Path, step: int, shards: int) -> Counter[tuple[Any, ...]]:
    """Every row of every state store, with its operator, store and partition."""
    found: Counter[tuple[Any, ...]] = Counter()
    counts = partition_counts(query / "commits" / str(step - 1))
    for operator in operators(query / "state", step - 1):
        for store in operator.stores:
            options = {
                "batchId": str(step - 1),
                "operatorId": str(operator.number),
                "storeName": store,
                AS_STORED: "true",
            }
            told = _metadata(query, operator.number)
            assert {each["numPartitions"] for each in told["stateStoreInfo"]} == {shards}
            frame = spark.read.format("statestore").options(**options).load(f"file:{query}")
            keys = frame.schema[PARTITION_KEY].dataType.fields  # type: ignore[attr-defined]
            shard = F.pmod(F.hash(PARTITION_KEY), F.lit(counts[operator.number])) if keys else F.lit(0)
            rows = frame.select(
                F.spark_partition_id(), shard, "key_bytes", "value_bytes", "column_family_name"
            )
            for at, place, key, value, family in rows.collect():
                assert place == at, "a row is where its operator looks for it"
                found[operator.number, store, at, family, bytes(key), bytes(value)] += 1
    assert found
    return found


def _metadata(query: Path, operator: int) -> Any:
    folder = query / "state" / str(operator) / "_metadata"
    files = [folder / "metadata", *sorted((folder / "v2").glob("[0-9]*"), key=lambda path: int(path.name))]
    newest = [path for path in files if path.is_file()][-1]
    return json.loads(newest.read_text().splitlines()[1])


def test_state_that_was_not_written_as_it_was_is_not_taken(
    cluster: MakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here of the half of the shards."""
    pipeline = cluster(Kind(total, "update"))
    pipeline.step()
    before = list(pipeline.nodes)
    right = resharding.rewrite_state

    def lossy(spark: SparkSession, source: str, target: str, batch: int, partitions: int) -> Any:
        written = right(spark, source, target, batch, partitions)
        for shard in range(SHARDS // 2, partitions):
            shutil.rmtree(f"{target.removeprefix('file:')}/state/0/{shard}")
        return {operator: stores[: SHARDS // 2] for operator, stores in written.items()}

    monkeypatch.setattr(resharding, "rewrite_state", lossy)
    with pytest.raises(CheckpointError, match=r"had \d+ rows and has \d+ in other shards"):
        pipeline.reshard(2 * SHARDS)
    assert pipeline.nodes == before
    pipeline.step()


def test_what_can_be_cut_is_told_before_anything_is_started(
    cluster: MakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = cluster(Kind(total, "update"))
    pipeline.step()
    parts = pipeline.saved()
    for number in (1, 2, 3):
        (tmp_path / str(number)).mkdir()
    assert refused_state(parts, tmp_path / "1") == ""
    monkeypatch.setattr(resharding, "_REWRITTEN", frozenset({"dedupe"}))
    assert "query 'q', operator 0 (stateStoreSave): Spark can't tell" in refused_state(parts, tmp_path / "2")
    parts.owner = resharded(parts.owner[::-1], len(parts.owner))
    assert "query 'q' moves its rows between tasks after its state" in refused_state(parts, tmp_path / "3")
