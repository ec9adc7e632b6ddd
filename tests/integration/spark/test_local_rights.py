"""Files that Spark makes on the local disk have the rights that Hadoop gives them, without a process that sets them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kcontrol.adapters.spark import internals
from kcontrol.adapters.spark.internals import jvm, local_rights
from kcontrol.adapters.spark.session.local_files import write_lean_files


def local_files(spark: SparkSession) -> Any:
    """Hadoop's file system of the local disk, as Spark finds it."""
    view = jvm(spark)
    place = view.java.net.URI("file:///")
    return view.org.apache.hadoop.fs.FileSystem.get(place, internals.hadoop_configuration(spark))


def rights(path: Path) -> str:
    return oct(path.stat().st_mode & 0o7777)


def test_rights_are_those_that_hadoop_gives_and_are_set_within_java(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_lean_files(spark)
    local, path_of = local_files(spark), jvm(spark).org.apache.hadoop.fs.Path
    assert local.getRaw().getClass().getName() == local_rights.CLASS
    permission = jvm(spark).org.apache.hadoop.fs.permission.FsPermission
    file = tmp_path / "a b" / "changelog"
    local.create(path_of(str(file))).close()
    assert rights(file) == "0o644"
    assert rights(file.parent) == "0o755"
    for text in ("600", "751", "444"):
        local.setPermission(path_of(str(file)), permission(text))
        assert rights(file) == f"0o{text}"
    local.setPermission(path_of(str(file.parent)), permission("1777"))
    assert rights(file.parent) == "0o1777"


def test_it_is_done_once(spark: SparkSession) -> None:
    write_lean_files(spark)
    before = local_files(spark).getRaw().hashCode()
    write_lean_files(spark)
    assert local_files(spark).getRaw().hashCode() == before


def test_a_spark_in_which_it_cannot_be_done_writes_as_before(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = jvm(spark)
    other = view.org.apache.hadoop.fs.LocalFileSystem()
    other.initialize(view.java.net.URI("file:///"), internals.hadoop_configuration(spark))
    monkeypatch.setattr(
        local_rights, "_SOURCE", "package kcontrol; public class LocalFiles extends NothingThatIs {}"
    )
    assert not local_rights.set_rights_without_processes(spark, other)
    assert other.getRaw().getClass().getName() == "org.apache.hadoop.fs.RawLocalFileSystem"
