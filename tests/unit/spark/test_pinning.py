"""A pin holds what Spark loads, no file less, and of the state no file more."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path

import pytest

from kcontrol.adapters.spark.state.lineage import StateVersion, lineage, shared_files
from kcontrol.adapters.spark.state.linking import link_pin
from kcontrol.adapters.spark.state.pinning import needed_files
from tests.support.dice import seeded
from tests.support.spark_files import (
    STORE,
    StateLostError,
    changelog,
    load,
    new_version,
    put,
    put_batch,
    put_changelog,
    put_operator,
    put_snapshot,
)

FROM_SPARK = base64.b64decode(
    "TFo0QmxvY2slEwEAAJMCAADPm3EC90IAAnYzAJVbeyJ2ZXJzaW9uIjoxLCJjaGVja3BvaW50VW5pcXVlSWQiOiIzZWU2NGNhNC02MTBlLTRkNj"
    "ctYmI4Ni03NjE1ZDJkN2IxNDcifSxKAB8ySgAE9B00MDFjZWRlOS0zOTNjLTQxYTQtOTQ0OC00YThhMzIzNmUzZmIifV0AAAAZAAEAlAEAAAAQ"
    "AAAAZREAMAAAEQUAAQIAEQMGAAECAA4yABFjGAABAgAGMgAATwADAgAPMgAUEwIvAA+WAAIRZhgAAQIABmQAD5YAHw8yAAoP+gACEQR0AAECAA"
    "7IAA8yAAIRBS0AAQIADzIAFBEGLQABAgAOMgAPXgECD5YACg8sAQIDMgBQAP////9MWjRCbG9jaxUAAAAAAAAAAAAAAAA="
)
"""A changelog that Spark 4.3.0 wrote: version 3 of one side of a join."""


def pin(query: Path, batch: int, target: Path) -> Path:
    link_pin(query, needed_files(query, batch), target, query.parent)
    return target


def state_names(directory: Path) -> set[str]:
    """Files of the store itself, without schemas and checksums."""
    store = directory / STORE
    found = (path.relative_to(store).as_posix() for path in store.rglob("*") if path.is_file())
    return {name for name in found if not name.endswith(".crc") and "_metadata" not in name}


def test_a_changelog_that_spark_wrote_is_read(tmp_path: Path) -> None:
    (tmp_path / "3.changelog").write_bytes(FROM_SPARK)
    assert lineage(tmp_path / "3.changelog") == (
        StateVersion(1, "3ee64ca4-610e-4d67-bb86-7615d2d7b147"),
        StateVersion(2, "401cede9-393c-41a4-9448-4a8a3236e3fb"),
    )


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("block_bytes", [7, 1 << 15])
@pytest.mark.parametrize("form", ["v3", "v4"])
def test_a_lineage_of_any_length_is_read_from_blocks_of_any_size(
    tmp_path: Path, packed: bool, block_bytes: int, form: str
) -> None:
    line = tuple(new_version(version) for version in range(4, 600))
    (tmp_path / "600.changelog").write_bytes(changelog(line, block_bytes, packed, form))
    assert lineage(tmp_path / "600.changelog") == line


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x28\xb5\x2f\xfd and then zstd",
        changelog([], form="v2"),
        changelog([new_version(1)])[:40],
        changelog([new_version(1)]).replace(b"version", b"nothing"),
        b"LZ4Block" + b"\xff" * 13,
    ],
)
def test_what_does_not_read_as_a_changelog_or_snapshot_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "1").write_bytes(content)
    assert lineage(tmp_path / "1") is None
    assert shared_files(tmp_path / "1") is None


def test_logs_and_metadata(tmp_path: Path) -> None:
    query = tmp_path / "q"
    for batch in range(5):
        put_batch(query, batch)
    put(query / "sources" / "0" / "0", "v1")
    put(query / "offsets" / ".5.x.tmp", "half", checksum=False)
    pinned = pin(query, 3, tmp_path / "pin")
    assert {path.relative_to(pinned).as_posix() for path in pinned.rglob("*") if path.is_file()} == {
        *("offsets/2", "offsets/.2.crc", "offsets/3", "offsets/.3.crc", "commits/3", "commits/.3.crc"),
        *("metadata", ".metadata.crc", "sources/0/0", "sources/0/.0.crc"),
    }


def test_the_first_batch_has_none_before_it(tmp_path: Path) -> None:
    put_batch(tmp_path / "q", 0)
    assert Path("offsets/0") in needed_files(tmp_path / "q", 0)


@pytest.mark.parametrize("missing", ["offsets/1", "offsets/2", "commits/2"])
def test_a_batch_that_is_not_recorded_can_not_be_kept(tmp_path: Path, missing: str) -> None:
    query = tmp_path / "q"
    for batch in range(3):
        put_batch(query, batch)
    (query / missing).unlink()
    with pytest.raises(FileNotFoundError, match=missing):
        needed_files(query, 2)


def test_newest_snapshot_of_the_lineage_and_the_changelogs_after_it(tmp_path: Path) -> None:
    query = tmp_path / "q"
    store = query / STORE
    line = [new_version(version) for version in range(1, 8)]
    strangers = [new_version(version) for version in range(1, 9)]
    for at, version in enumerate(line):
        put_changelog(store, line[:at], version)
        put_changelog(store, strangers[:at], strangers[at])
    for version in (line[1], line[3], strangers[4]):
        put_snapshot(store, version)
    put(store / ".8_x.changelog.tmp", "half", checksum=False)
    put_operator(query, tmp_path)
    for batch in (4, 5, 6):
        put_batch(query, batch, {"0": [[line[batch].unique_id]]})
    pinned = pin(query, 5, tmp_path / "pin")
    assert state_names(pinned) == {
        line[3].snapshot,
        *shared_files(store / line[3].snapshot),
        *(e.changelog for e in line[4:6]),
    }
    assert load(pinned / STORE, line[5]) == load(store, line[5])
    assert (pinned / STORE / f".{line[4].changelog}.crc").exists()
    assert (pinned / STORE / "_metadata" / "schema").exists()
    assert (pinned / "state" / "0" / "_stateSchema" / "default" / "0_s").exists()


def test_a_snapshot_of_the_very_version_is_enough(tmp_path: Path) -> None:
    query, version = tmp_path / "q", new_version(9)
    put_snapshot(query / STORE, version)
    put_changelog(query / STORE, [new_version(8)], version)
    put_batch(query, 7)
    put_batch(query, 8, {"0": [[version.unique_id]]})
    pinned = pin(query, 8, tmp_path / "pin")
    assert state_names(pinned) == set(load(query / STORE, version)) == set(load(pinned / STORE, version))


def test_each_store_of_a_partition_has_its_own_version(tmp_path: Path) -> None:
    query = tmp_path / "q"
    stores = [query / STORE / name for name in ("left-keyToNumValues", "right-keyToNumValues")]
    mine = [new_version(1), new_version(1)]
    for store, version in zip(stores, mine, strict=True):
        put_changelog(store, [], version)
        put_changelog(store, [], new_version(1))
    put_batch(query, 0, {"0": [[version.unique_id for version in mine]]})
    assert state_names(pin(query, 0, tmp_path / "pin")) == {
        f"{store.name}/{version.changelog}" for store, version in zip(stores, mine, strict=True)
    }


@pytest.mark.parametrize("lost", ["its changelog", "one before", "a shared file"])
def test_state_that_is_not_there_is_told(tmp_path: Path, lost: str) -> None:
    query = tmp_path / "q"
    line = [new_version(version) for version in range(1, 4)]
    for at, version in enumerate(line):
        put_changelog(query / STORE, line[:at], version)
    put_snapshot(query / STORE, line[0])
    put_batch(query, 1)
    put_batch(query, 2, {"0": [[line[2].unique_id]]})
    gone = {
        "its changelog": line[2].changelog,
        "one before": line[1].changelog,
        "a shared file": load(query / STORE, line[0])[0],
    }[lost]
    (query / STORE / gone).unlink()
    with pytest.raises(FileNotFoundError, match=Path(gone).name):
        pin(query, 2, tmp_path / "pin")


@pytest.mark.parametrize(
    "unknown", ["no ids in the record", "changelogs in another form", "snapshot in another form"]
)
def test_everything_of_a_store_is_kept_when_its_files_can_not_be_told_apart(
    tmp_path: Path, unknown: str
) -> None:
    query = tmp_path / "q"
    store, version, base = query / STORE, new_version(2), new_version(1)
    put_changelog(store, [base], version)
    put_snapshot(store, base)
    put(store / "3.delta", "of another provider")
    put(store / "SSTs" / "000001-unknown.sst", "sst")
    if unknown == "changelogs in another form":
        put(store / version.changelog, b"\x28\xb5\x2f\xfd")
    if unknown == "snapshot in another form":
        put(store / base.snapshot, b"no zip")
    put_batch(query, 0)
    put_batch(query, 1, None if unknown == "no ids in the record" else {"0": [[version.unique_id]]})
    assert state_names(pin(query, 1, tmp_path / "pin")) == state_names(query)


def test_any_history_of_a_store(tmp_path: Path) -> None:
    """Snapshots come late or never, attempts are rolled back and tried again, old files are deleted as Spark
    does."""
    dice = seeded()
    for number in range(20):
        query = tmp_path / str(number)
        line: list[StateVersion] = []
        for _ in range(dice.randrange(1, 40)):
            if line and dice.random() < 0.15:
                del line[dice.randrange(len(line)) :]
            based = [each.version for each in line if (query / STORE / each.snapshot).exists()]
            told = (
                [each for each in line if not based or each.version >= max(based)]
                if dice.random() < 0.5
                else line
            )
            version = new_version(len(line) + 1)
            if told or version.version == 1:
                put_changelog(query / STORE, told, version)
                line.append(version)
                put_batch(query, version.version - 1, {"0": [[version.unique_id]]})
            if line and dice.random() < 0.2:
                put_snapshot(query / STORE, dice.choice(line))
        if not line:
            continue
        loaded = load(query / STORE, line[-1])
        pinned = pin(query, len(line) - 1, tmp_path / f"pin-{number}")
        shutil.rmtree(query)
        assert load(pinned / STORE, line[-1]) == loaded
        assert state_names(pinned) == set(loaded)
        for name in loaded:
            (pinned / STORE / name).rename(tmp_path / "away")
            with pytest.raises(StateLostError):
                load(pinned / STORE, line[-1])
            (tmp_path / "away").rename(pinned / STORE / name)
