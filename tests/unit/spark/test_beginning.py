"""The beginning of a query that goes on after a step it never ran: what is written, and
what the directory then offers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kcontrol.adapters.spark.state.beginning import write_beginning
from kcontrol.adapters.spark.state.pinning import needed_files
from kcontrol.adapters.spark.state.workdir import WorkDir

SETTINGS = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{"a":"b"}}'


@pytest.mark.parametrize(("step", "plans"), [(1, ["0"]), (2, ["0", "1"]), (50, ["48", "49"])])
def test_the_last_two_plans_and_the_last_record(tmp_path: Path, step: int, plans: list[str]) -> None:
    write_beginning(tmp_path, step, 2, SETTINGS)
    assert sorted(path.name for path in (tmp_path / "offsets").iterdir()) == plans
    assert [path.name for path in (tmp_path / "commits").iterdir()] == [plans[-1]]
    for plan in plans:
        lines = (tmp_path / "offsets" / plan).read_text().splitlines()
        assert lines[:2] == ["v1", SETTINGS]
        assert [json.loads(line) for line in lines[2:]] == [{"step": int(plan) + 1}] * 2
    version, record = (tmp_path / "commits" / plans[-1]).read_text().splitlines()
    assert (version, json.loads(record)["stateUniqueIds"]) == ("v2", {})
    assert "id" in json.loads((tmp_path / "metadata").read_text())


def test_the_directory_offers_that_step_and_no_other_and_can_be_pinned(tmp_path: Path) -> None:
    directory = WorkDir(tmp_path, "p", 0, 5, ["q", "r"], 100)
    directory.prepare()
    directory.create()
    assert directory.openable() == ()
    directory.create(7, lambda _, path: write_beginning(path, 7, 1, SETTINGS))
    assert directory.openable() == (7,)
    directory.roll_back(7)
    assert directory.openable() == (7,)
    assert directory.planned_steps("q", 6) == [7]
    assert {str(path) for path in needed_files(directory.query_path("r"), 6)} == {
        "offsets/5",
        "offsets/6",
        "commits/6",
        "metadata",
    }
    directory.create()
    assert directory.openable() == ()
