"""A pipeline that has had no state until now, and has since: a checkpoint of before has no parts, and is never taken for one
that state can be had from."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from kcontrol.adapters.checkpoints.store import CheckpointStore
from kcontrol.adapters.spark.engine.parts import NodeParts
from kcontrol.adapters.spark.state.workdir import WorkDir
from kcontrol.core.model import Assignment, CheckpointRequest, CheckpointSpec, NodePhase, StepRecord
from kcontrol.core.node.checkpoints import all_openable
from kcontrol.core.step.resetting import begins_at, refused_step
from kcontrol.errors import NotFoundError
from kcontrol.replay.verify import Beginning, beginning
from kcontrol.views.table_steps import askable_steps, chosen_step
from tests.unit.core.drive import CoordinatorDriver, NodeDriver
from tests.unit.core.made import SPEC, boundary, checkpoint
from tests.unit.core.test_layout_change import folded

SAVED = replace(SPEC, checkpoint=CheckpointSpec("file:///c", 3_000, 2, 1))
EMPTY = replace(checkpoint(3, 0), location="")
STEPS = tuple(boundary(step, (4 + step, step - 1), (5 + step, step)) for step in range(1, 5))
RECORDS: tuple[StepRecord, ...] = (*STEPS[:3], EMPTY, STEPS[3])
WHOLE = folded(*RECORDS)
CUT = folded(*RECORDS[2:])
"""Its first two steps were dropped when the checkpoint was made."""
MOVED = Assignment("p", 1, 3, 1, (0,), (), (), 0, 0, "r", 1)


def test_state_is_had_from_checkpoints_with_parts_alone() -> None:
    steps = folded(*RECORDS, checkpoint(4, 1))
    assert [one.step for one in steps.checkpoints] == [3, 4]
    assert [one.step for one in steps.saved] == [4]
    assert (steps.saved_of(3), steps.checkpoint_of(3)) == (None, EMPTY)


@pytest.mark.parametrize("moved", [False, True])
def test_a_node_offers_no_such_step(moved: bool) -> None:
    """Not even where the layout was changed over it, after which a node opens what others have saved."""
    driver = NodeDriver(SAVED)
    driver.joined(2)
    records: tuple[StepRecord, ...] = (*RECORDS[:4], MOVED) if moved else RECORDS[:4]
    for record in records:
        driver.see_step(record)
    assert all_openable(driver.state) == (2,)


def test_no_file_is_looked_for(tmp_path: Path) -> None:
    directory = WorkDir(tmp_path, "p", 0, 5, ["q"], 100)
    parts = NodeParts(CheckpointStore(), directory, "file:///c", "p", "log", 0, 5)
    assert asyncio.run(parts.restorable([EMPTY])) == ()


def test_a_node_with_nothing_halts_the_pipeline_if_the_log_is_cut() -> None:
    driver = CoordinatorDriver(SAVED)
    for record in RECORDS[2:]:
        driver.see_step(record)
    driver.take_over()
    driver.join()
    driver.say(checkpoint=3, phase=NodePhase.CLOSED)
    assert "node 0 of pipeline p can't be opened" in driver.state.trouble.halt
    assert "checkpoints in the log: none" in driver.state.trouble.halt


def test_who_asks_for_a_checkpoint_is_told_that_there_is_none_of_the_state() -> None:
    driver = CoordinatorDriver(SAVED)
    for record in RECORDS[:4]:
        driver.see_step(record)
    driver.take_over()
    driver.join()
    driver.say()
    driver.see(CheckpointRequest("p", "r", 3))
    (answer,) = driver.state.asked.answers
    assert (answer.request_id, answer.step) == ("r", 0)
    assert (
        "the checkpoint of step 3, the last one of pipeline p, was made while it kept no state"
        in answer.error
    )


def test_its_tables_can_not_be_asked_as_of_such_a_step() -> None:
    assert list(askable_steps(SAVED, WHOLE)) == []
    with pytest.raises(NotFoundError, match="none of its steps is saved"):
        chosen_step(SAVED, WHOLE, 3)


def test_a_replay_begins_with_the_log_or_is_refused() -> None:
    assert beginning(SAVED, WHOLE, 4, lambda _: True) == (4, Beginning(0))
    with pytest.raises(NotFoundError, match="there are those of steps: none"):
        beginning(SAVED, CUT, 4, lambda _: True)


def test_a_reset_begins_with_the_log_or_is_refused() -> None:
    assert (begins_at(WHOLE, 3), refused_step(SAVED, WHOLE, 3)) == (0, "")
    assert begins_at(CUT, 3) is None
    assert "it has no checkpoint, and its log begins with step 3" in refused_step(SAVED, CUT, 3)
