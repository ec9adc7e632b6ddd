"""The steps that a node holds are told with each step, and looked up once after its queries have started."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kcontrol.adapters.spark.state.held_steps import HeldSteps
from kcontrol.adapters.spark.state.workdir import WorkDir
from tests.unit.spark.test_workdir import QUERIES, record, workdir


def made(path: Path, steps: int, retained: int = 100) -> WorkDir:
    it = workdir(path, 1, retained=retained)
    for query in QUERIES:
        record(it, query, planned=steps, committed=steps)
    return it


def test_the_directory_is_looked_at_once_for_as_long_as_queries_go_on(tmp_path: Path) -> None:
    it = made(tmp_path, 3)
    held = HeldSteps(it)
    assert held.steps(4) == (4, 3, 2, 1)
    for query in QUERIES:
        shutil.rmtree(it.query_path(query))
    assert held.steps(5) == (5, 4, 3, 2, 1)
    assert held.steps(5) == (5, 4, 3, 2, 1)
    assert held.steps(None) == (), "what is on disk"
    held.forget()
    assert held.steps(6) == (6,)


def test_a_step_that_is_recorded_already_is_one(tmp_path: Path) -> None:
    held = HeldSteps(made(tmp_path, 3))
    assert held.steps(3) == (3, 2, 1)
    # A reset leaves numbers out.
    assert held.steps(9) == (9, 3, 2, 1)


@pytest.mark.parametrize("retained", [1, 2, 3, 5])
def test_no_step_is_told_that_a_look_would_not_find_once_the_last_is_recorded(
    tmp_path: Path, retained: int
) -> None:
    it = made(tmp_path, 4, retained)
    held = HeldSteps(it)
    held.steps(4)
    for step in range(5, 12):
        told = held.steps(step)
        for query in QUERIES:
            record(it, query, planned=step, committed=step)
        assert told[0] == step
        assert set(told[1:]) <= set(it.openable())
        assert len(told) == max(1, retained - 1)
