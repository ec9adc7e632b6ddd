"""A replay's directory: one file a step and output, the boundary beside them, complete or not there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kcontrol.errors import ConfigurationError, KcontrolError
from kcontrol.replay.delivery import ReplayedRecord
from kcontrol.replay.record_files import RecordFiles
from kcontrol.wire.json import to_json
from tests.support.replayed import record, replayed

STEP_2 = ["step-00000002.copies.jsonl", "step-00000002.json", "step-00000002.totals.jsonl"]


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def values(path: Path) -> list[str]:
    return [json.loads(line)["value"] for line in path.read_text(encoding="utf-8").splitlines()]


def test_each_output_has_its_file_and_each_step_its_boundary(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "steps"
    files = RecordFiles(directory)
    step = replayed(2, record("totals", 1, value=b"a"), record("totals", 2, value="ä".encode()))
    assert files.deliver(step) == 0
    files.deliver(replayed(3, record("copies", value=b"c")))
    files.close()
    assert [name for name in names(directory) if name.startswith("step-00000002")] == STEP_2
    assert len(names(directory)) == 6
    assert values(directory / STEP_2[2]) == ["a", "ä"]
    assert values(directory / STEP_2[0]) == [], "an output without records has an empty file"
    assert json.loads((directory / STEP_2[1]).read_text()) == to_json(step.boundary)
    assert values(directory / "step-00000003.copies.jsonl") == ["c"]


def test_a_step_is_complete_when_the_last_node_has_brought_its_part(tmp_path: Path) -> None:
    files = RecordFiles(tmp_path)
    for number in (2, 3):
        files.deliver(replayed(number, record(value=b"first"), last_node=False))
    assert all(name.endswith(".partial") for name in names(tmp_path))
    files.deliver(replayed(2, record(value=b"second")))
    assert values(tmp_path / STEP_2[2]) == ["first", "second"]
    files.close()
    assert names(tmp_path) == STEP_2, "what was not completed is cleared away"


def test_a_replay_that_fails_leaves_no_half_file(tmp_path: Path) -> None:
    def broken() -> Iterator[ReplayedRecord]:
        yield record()
        raise ZeroDivisionError

    files = RecordFiles(tmp_path)
    files.deliver(replayed(2))
    with pytest.raises(ZeroDivisionError):
        files.deliver(replace(replayed(3), records=broken()))
    files.close()
    assert names(tmp_path) == STEP_2


def test_the_limit_is_of_all_records_of_a_step(tmp_path: Path) -> None:
    files = RecordFiles(tmp_path, limit=3)
    four = [record("totals"), record("totals"), record("copies"), record("copies", value=b"left out")]
    assert files.deliver(replayed(2, *four, last_node=False)) == 1
    assert files.deliver(replayed(2, *four)) == 4, "of all nodes together"
    assert files.deliver(replayed(3, record())) == 0, "each step anew"
    assert values(tmp_path / STEP_2[0]) == ["v"]


def test_a_directory_that_holds_something_is_refused_unless_asked_for(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("kept")
    (tmp_path / STEP_2[2]).write_text("of an earlier replay")
    with pytest.raises(ConfigurationError, match=r"is not empty: give another one, or --overwrite"):
        RecordFiles(tmp_path)
    files = RecordFiles(tmp_path, overwrite=True)
    files.deliver(replayed(2, record(value=b"new")))
    files.close()
    assert names(tmp_path) == ["mine.txt", *STEP_2]
    assert values(tmp_path / STEP_2[2]) == ["new"]


def test_a_place_that_can_not_be_a_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"the output directory .*file can't be used"):
        RecordFiles(tmp_path / "file")


def test_a_disk_that_takes_nothing_more_is_said_with_the_step(tmp_path: Path) -> None:
    files = RecordFiles(tmp_path)
    (tmp_path / "step-00000002.totals.jsonl.partial").mkdir()
    with pytest.raises(KcontrolError, match="step 2: its records can't be written to"):
        files.deliver(replayed(2, record()))
