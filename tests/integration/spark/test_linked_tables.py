"""Tables of state are linked from one directory of the local disk to another, and all other files are copied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kcontrol.adapters.spark.internals import (
    hadoop_configuration,
    java_session,
    jvm,
    link_tables,
    linked_tables,
    links_tables_of,
    local_file_system,
    local_rights,
)
from kcontrol.adapters.spark.session.local_files import write_lean_files


def copied(spark: SparkSession, files: Any, way: str, source: Path, target: Path) -> bool:
    """As Spark copies a file that way; whether both are one now."""
    path = jvm(spark).org.apache.hadoop.fs.Path
    getattr(files, way)(path(str(source)), path(str(target)))
    assert target.read_bytes() == source.read_bytes()
    return target.stat().st_ino == source.stat().st_ino


@pytest.mark.parametrize("way", ["copyToLocalFile", "copyFromLocalFile"])
@pytest.mark.parametrize(("name", "is_linked"), [("000012-ab.sst", True), ("3.zip", False), ("7.log", False)])
def test_tables_alone_are_linked(
    spark: SparkSession, tmp_path: Path, way: str, name: str, is_linked: bool
) -> None:
    write_lean_files(spark)
    source = tmp_path / "a b" / name
    source.parent.mkdir()
    source.write_bytes(b"rows")
    target = tmp_path / f"000012{source.suffix}"
    assert copied(spark, local_file_system(spark), way, source, target) is is_linked


def test_what_is_linked_elsewhere_is_not_written_into(spark: SparkSession, tmp_path: Path) -> None:
    write_lean_files(spark)
    for name in ("old", "new"):
        (tmp_path / f"{name}.sst").write_text(name)
    target = tmp_path / "target.sst"
    target.hardlink_to(tmp_path / "old.sst")
    assert copied(spark, local_file_system(spark), "copyToLocalFile", tmp_path / "new.sst", target)
    assert (tmp_path / "old.sst").read_text() == "old"


def test_a_directory_that_is_not_there_yet_is_made(spark: SparkSession, tmp_path: Path) -> None:
    write_lean_files(spark)
    (tmp_path / "1.sst").write_text("rows")
    copied(
        spark,
        local_file_system(spark),
        "copyFromLocalFile",
        tmp_path / "1.sst",
        tmp_path / "SSTs" / "1-a.sst",
    )


def test_all_that_was_done_to_local_files_is_done_still(spark: SparkSession, tmp_path: Path) -> None:
    write_lean_files(spark)
    files = local_file_system(spark)
    files.create(jvm(spark).org.apache.hadoop.fs.Path(str(tmp_path / "changelog"))).close()
    assert [each.name for each in tmp_path.iterdir()] == ["changelog"], "and no file of checksums"
    assert files.getRaw().getClass().getName() == local_rights.CLASS


def test_it_is_done_once_and_told(spark: SparkSession, tmp_path: Path) -> None:
    write_lean_files(spark)
    before = local_file_system(spark).hashCode()
    write_lean_files(spark)
    assert local_file_system(spark).hashCode() == before


def test_whether_that_is_done_goes_by_the_disk_also_of_what_is_to_be(spark: SparkSession) -> None:
    conf = java_session(spark).sparkContext().conf()
    works = Path(str(jvm(spark).org.apache.spark.util.Utils.getLocalDir(conf)))
    assert links_tables_of(spark, works / "of a process" / "that was just started")
    assert not links_tables_of(spark, Path("/proc"))


def test_a_spark_in_which_it_cannot_be_done_copies_as_before(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = jvm(spark)
    other = view.org.apache.hadoop.fs.LocalFileSystem()
    other.initialize(view.java.net.URI("file:///"), hadoop_configuration(spark))
    source = "package kcontrol; public class LinkingFiles extends NothingThatIs {}"
    monkeypatch.setattr(linked_tables, "_SOURCE", source)
    assert link_tables(spark, other).getClass().getName() == "org.apache.hadoop.fs.LocalFileSystem"
