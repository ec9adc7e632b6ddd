"""On how many changes a query's state builds since its last snapshot, as its files on disk say."""

from __future__ import annotations

from pathlib import Path

from kcontrol.adapters.spark.state.formats import plan_text, record_text
from kcontrol.adapters.spark.state.snapshots import changes_since_snapshot
from tests.support.spark_files import new_version, put, put_changelog, put_snapshot

STEP = 7


def query(directory: Path, *stores: list[str | None]) -> Path:
    """A query whose last batch was recorded with these ids, by partition."""
    put(directory / "offsets" / str(STEP - 1), plan_text("{}", [STEP]))
    put(directory / "commits" / str(STEP - 1), record_text(0, {"0": stores}))
    return directory


def test_the_store_that_builds_on_most_counts(tmp_path: Path) -> None:
    line = [new_version(version) for version in range(1, STEP + 1)]
    short = [new_version(version) for version in range(1, STEP + 1)]
    directory = query(tmp_path, [line[-1].unique_id], [short[-1].unique_id])
    for partition, versions, snapshots in (("0", line, (2,)), ("1", short, (2, 5))):
        store = directory / "state" / "0" / partition
        for at, version in enumerate(versions):
            put_changelog(store, versions[:at], version)
        for version in snapshots:
            put_snapshot(store, versions[version - 1])
    assert changes_since_snapshot(directory, STEP) == STEP - 2


def test_a_snapshot_of_the_very_version_builds_on_nothing(tmp_path: Path) -> None:
    version = new_version(STEP)
    directory = query(tmp_path, [version.unique_id])
    store = directory / "state" / "0" / "0"
    put_changelog(store, [new_version(each) for each in range(1, STEP)], version)
    put_snapshot(store, version)
    assert changes_since_snapshot(directory, STEP) == 0


def test_a_partition_whose_store_has_no_id_tells_nothing(tmp_path: Path) -> None:
    directory = query(tmp_path, [None], [])
    put(directory / "state" / "0" / "0" / "7_a.changelog", b"")
    assert changes_since_snapshot(directory, STEP) == 0


def test_a_query_without_a_record_or_state_tells_nothing(tmp_path: Path) -> None:
    assert changes_since_snapshot(tmp_path, STEP) == 0
    assert changes_since_snapshot(query(tmp_path), STEP) == 0
