"""From a pin in one node's directory, through the store, into the empty directory of another
incarnation: the step can be opened."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kcontrol.adapters.checkpoints import CheckpointStore, PartPlace
from kcontrol.adapters.spark.state.lineage import StateVersion
from kcontrol.adapters.spark.state.workdir import WorkDir
from kcontrol.errors import CheckpointDamagedError, CheckpointError
from tests.support.restoring import restored_from
from tests.support.spark_files import (
    STORE,
    load,
    new_version,
    put_batch,
    put_changelog,
    put_operator,
    put_snapshot,
)

QUERIES = ("counts", "copies")


class Node:
    """A working directory, and a Spark that writes into it: a query with state and one without."""

    def __init__(self, root: Path, incarnation: int = 1, queries: tuple[str, ...] = QUERIES) -> None:
        self.workdir = WorkDir(root, "orders", 0, incarnation, queries, retained=100)
        self.workdir.prepare()
        self.line: list[StateVersion] = []

    @property
    def store(self) -> Path:
        return self.workdir.query_path("counts") / STORE

    def run(self, *steps: int) -> None:
        for step in steps:
            version = new_version(step)
            put_changelog(self.store, self.line, version)
            self.line.append(version)
            put_operator(self.workdir.query_path("counts"), self.workdir.query_path("counts").parent)
            put_batch(self.workdir.query_path("counts"), step - 1, {"0": [[version.unique_id]]})
            put_batch(self.workdir.query_path("copies"), step - 1)

    def schema_path(self) -> Path:
        """Where Spark would look for the operator's schema."""
        metadata = (self.workdir.query_path("counts") / "state" / "0" / "_metadata" / "v2" / "0").read_text()
        return Path(metadata.partition('"file:')[2].partition('"')[0])


def save(node: Node, step: int, location: Path) -> str:
    part = PartPlace(str(location), "orders", "log", 0, 1, 7, step)
    manifest = CheckpointStore().save(part, node.workdir.pin(step)).manifest
    node.workdir.unpin(step)
    return manifest


@pytest.fixture
def first(tmp_path: Path) -> Node:
    node = Node(tmp_path / "one")
    node.workdir.create()
    node.run(1, 2, 3, 4)
    return node


def test_a_node_that_lost_its_disk_goes_on_from_the_checkpoint(first: Node, tmp_path: Path) -> None:
    put_snapshot(first.store, first.line[1])
    loaded = load(first.store, first.line[3])
    manifest = save(first, 4, tmp_path / "durable")
    shutil.rmtree(tmp_path / "one")
    second = Node(tmp_path / "two", incarnation=9)
    assert second.workdir.openable() == ()
    assert restored_from(second.workdir, str(tmp_path / "durable"), manifest) == 4
    assert second.workdir.openable() == (4,)
    second.workdir.roll_back(4)
    assert second.workdir.openable() == (4,)
    assert load(second.store, first.line[3]) == loaded
    assert second.schema_path().read_bytes() == b"schema"
    assert second.schema_path().is_relative_to(tmp_path / "two")
    second.line = list(first.line)
    second.run(5, 6)
    assert second.workdir.openable() == (6, 5, 4)
    third = Node(tmp_path / "two", incarnation=12)
    assert third.workdir.openable() == (6, 5, 4)
    assert third.schema_path().is_relative_to(third.workdir.path)


def test_earlier_steps_whose_state_is_not_there_are_not_offered(first: Node, tmp_path: Path) -> None:
    put_snapshot(first.store, first.line[3])
    manifest = save(first, 4, tmp_path / "durable")
    second = Node(tmp_path / "two")
    restored_from(second.workdir, str(tmp_path / "durable"), manifest)
    assert second.workdir.openable() == (4,)
    assert not (second.store / first.line[0].changelog).exists()


def test_an_older_step_is_restored_over_a_newer_directory(first: Node, tmp_path: Path) -> None:
    manifest = save(first, 4, tmp_path / "durable")
    first.run(5, 6)
    forgotten = first.store
    restored_from(first.workdir, str(tmp_path / "durable"), manifest)
    assert first.workdir.openable() == (4,)
    late = forgotten / "6_late.zip"
    late.parent.mkdir(parents=True)
    late.write_bytes(b"an upload of a query that has ended")
    assert first.store != forgotten
    assert first.workdir.openable() == (4,)


def test_a_pin_outlives_what_spark_and_a_rollback_delete(first: Node, tmp_path: Path) -> None:
    loaded = load(first.store, first.line[3])
    pinned = first.workdir.pin(4)
    first.run(5)
    for version in first.line:
        (first.store / version.changelog).unlink()
    first.workdir.roll_back(2)
    assert load(pinned / "counts" / STORE, first.line[3]) == loaded
    assert (pinned / "copies" / "commits" / "3").exists()
    assert str(tmp_path) not in (pinned / "counts" / "state" / "0" / "_metadata" / "v2" / "0").read_text()


def test_a_pin_costs_no_copies(first: Node) -> None:
    pinned = first.workdir.pin(4)
    name = first.line[2].changelog
    assert (pinned / "counts" / STORE / name).samefile(first.store / name)


def test_a_pin_is_whole_although_spark_uploads_and_deletes_meanwhile(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.workdir.create()
    node.run(*range(1, 41))

    def maintenance(newest: int) -> None:
        put_snapshot(node.store, node.line[newest])
        for version in node.line[:newest]:
            for name in (version.snapshot, version.changelog):
                (node.store / name).unlink(missing_ok=True)

    with ThreadPoolExecutor(1) as spark:
        for newest in range(39):
            running = spark.submit(maintenance, newest)
            pinned = node.workdir.pin(40)
            running.result()
            assert load(pinned / "counts" / STORE, node.line[39])[-1] == node.line[39].changelog
            node.workdir.unpin(40)


def test_a_step_is_pinned_once(first: Node) -> None:
    pinned = first.workdir.pin(4)
    (pinned / "mark").touch()
    assert (first.workdir.pin(4) / "mark").exists()
    first.workdir.unpin(4)
    assert not pinned.exists()
    first.workdir.unpin(4)
    assert not (first.workdir.pin(4) / "mark").exists()


@pytest.mark.parametrize("ended", ["new incarnation", "new beginning", "restore"])
def test_pins_end_with_their_incarnation_and_their_history(first: Node, tmp_path: Path, ended: str) -> None:
    manifest = save(first, 4, tmp_path / "durable")
    pinned = first.workdir.pin(4)
    match ended:
        case "new incarnation":
            assert Node(tmp_path / "one", incarnation=2).workdir.openable() == (4, 3, 2, 1)
        case "new beginning":
            first.workdir.create()
        case "restore":
            restored_from(first.workdir, str(tmp_path / "durable"), manifest)
    assert not pinned.exists()


def test_a_step_that_can_not_be_kept_is_told_and_leaves_nothing(first: Node) -> None:
    with pytest.raises(CheckpointError, match=r"step 5 .*offsets/4 is not there"):
        first.workdir.pin(5)
    (first.store / first.line[1].changelog).unlink()
    with pytest.raises(CheckpointError, match=rf"step 4 .*{first.line[1].changelog} is not there"):
        first.workdir.pin(4)
    assert list(first.workdir.path.glob("pins/*")) == []


def test_a_part_of_other_queries_is_refused_and_what_was_there_stays(first: Node, tmp_path: Path) -> None:
    manifest = save(first, 4, tmp_path / "durable")
    other = Node(tmp_path / "two", queries=(*QUERIES, "more"))
    put_batch(other.workdir.query_path("more"), 0)
    with pytest.raises(CheckpointError, match="holds nothing of more at step 4"):
        restored_from(other.workdir, str(tmp_path / "durable"), manifest)
    assert (other.workdir.query_path("more") / "commits" / "0").exists()


def test_a_damaged_part_is_refused_and_what_was_there_stays(first: Node, tmp_path: Path) -> None:
    manifest = save(first, 4, tmp_path / "durable")
    next((tmp_path / "durable").rglob("*.changelog")).write_bytes(b"")
    with pytest.raises(CheckpointDamagedError, match="is damaged"):
        restored_from(first.workdir, str(tmp_path / "durable"), manifest)
    assert first.workdir.openable() == (4, 3, 2, 1)
    assert [path.name for path in first.workdir.path.iterdir() if path.name.startswith(".")] == []
