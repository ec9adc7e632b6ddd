"""All that kcontrol uses of Spark beyond its API is there, and a Spark that lacks some of it
is told apart from a dead one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kcontrol.adapters.spark import internals
from kcontrol.adapters.spark.internals import checking
from kcontrol.adapters.spark.state.shards import can_run_some
from kcontrol.errors import SparkSettingError


def lacking(monkeypatch: pytest.MonkeyPatch, more: Mapping[str, tuple[str, ...]]) -> None:
    """As if kcontrol used this, too."""
    monkeypatch.setattr(checking, "USED", {**internals.USED, **more})


def test_this_spark_has_all_that_is_used(spark: SparkSession) -> None:
    internals.check(spark)


def test_spark_reads_a_list_of_a_snapshots_files_as_it_is_written_here(spark: SparkSession) -> None:
    assert internals.read_snapshot_list(spark) == 1


def test_what_these_jars_have_is_looked_for_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    looked: list[object] = []
    really = checking._all_missing
    monkeypatch.setattr(checking, "_all_missing", lambda *asked: looked.append(asked) or really(*asked))
    some = {"org.apache.spark.rdd.RDD": ("count",)}
    internals.check(spark, some)
    internals.check(spark, some)
    assert len(looked) == 1
    internals.check(spark, {"org.apache.spark.rdd.RDD": ("count", "id")})
    assert len(looked) == 2  # something else was looked for
    for _ in range(2):
        with pytest.raises(SparkSettingError, match=r"rdd\.RDD\.recount"):
            internals.check(spark, {"org.apache.spark.rdd.RDD": ("recount",)})
    assert len(looked) == 4  # what is lacking is not remembered
    for _ in range(2):
        assert internals.lacking_for_shards(spark) == []
    assert len(looked) == 5, "what shards need, of which every engine asks"


@pytest.mark.parametrize(
    ("name", "member", "told"),
    [
        ("org.apache.spark.sql.execution.QueryExecution", "analyzedOnce", "QueryExecution.analyzedOnce"),
        (
            "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution",
            "triggerClocks",
            "Execution.triggerClocks",
        ),
        (
            "org.apache.spark.sql.execution.streaming.MicroBatchExecution",
            "triggerClock",
            "streaming.MicroBatchExecution",
        ),
    ],
    ids=["a method", "a field", "a class"],
)
def test_what_a_spark_lacks_is_named(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, name: str, member: str, told: str
) -> None:
    lacking(monkeypatch, {name: (member,)})
    with pytest.raises(
        SparkSettingError,
        match=rf"lacks what kcontrol needs of it: [\w.]*{re.escape(told)}; use Apache Spark 4\.3",
    ):
        internals.check(spark)


def test_a_session_of_another_version_is_refused(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(vars(spark), "version", "4.4.0")  # PySpark keeps it there once it was asked for
    with pytest.raises(
        SparkSettingError, match=r"the Spark of this session is of version 4\.4\.0; kcontrol needs 4\.3"
    ):
        internals.check(spark)


def test_a_spark_that_lacks_what_shards_need_runs_all_partitions_and_says_so(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert can_run_some(spark)
    assert caplog.text == ""
    lacked = {"org.apache.spark.rdd.PartitionPruningRDD": ("createAnother",)}
    monkeypatch.setattr(checking, "USED_FOR_SHARDS", {**checking.USED_FOR_SHARDS, **lacked})
    assert not can_run_some(spark)
    assert "every state partition will be run on every node" in caplog.text
    assert "lacks org.apache.spark.rdd.PartitionPruningRDD.createAnother" in caplog.text
