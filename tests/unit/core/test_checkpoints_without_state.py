"""Checkpoints of a pipeline without state: nobody saves anything, and the log is as short as it may be."""

from __future__ import annotations

from dataclasses import replace

from kcontrol.core.events import (
    AddPartitions,
    CheckpointCommitted,
    CommitCheckpoint,
    PartitionsAdded,
)
from kcontrol.core.model import CheckpointRequest, CheckpointSpec
from tests.unit.core.drive import CoordinatorDriver, only
from tests.unit.core.saving import EVERY_MS, ONE, STEPS_ONLY, resting, told

STATELESS = replace(ONE, stateful=False, checkpoint=CheckpointSpec("workdir:", EVERY_MS, 1, 2))


def recorded(driver: CoordinatorDriver) -> CommitCheckpoint:
    effects = driver.tick(0)
    assert only(AddPartitions, effects).partitions == STEPS_ONLY
    return only(CommitCheckpoint, driver.feed(PartitionsAdded(driver.log.now_ms)))


def test_an_idle_pipeline_records_it_at_once_and_no_node_is_told() -> None:
    driver = resting(STATELESS, steps=5)
    effects = driver.tick(EVERY_MS)
    assert told(effects) == []
    assert driver.state.wake_ms == driver.log.now_ms + 1
    effect = recorded(driver)
    assert effect.checkpoint is not None
    assert (effect.checkpoint.step, effect.checkpoint.parts, effect.checkpoint.location) == (5, (), "")
    assert effect.checkpoint.begin_offset == effect.checkpoint.boundary_offset
    assert effect.forget == ("step/1", "step/2", "step/3")
    assert effect.checkpoint.first_step == 4


def test_a_step_that_is_due_goes_first_and_the_checkpoint_after_it() -> None:
    driver = resting(STATELESS)
    driver.tick(EVERY_MS - 1)
    driver.log.now_ms += 1
    work = driver.attempt(9, 3)
    assert work.step == 4
    assert driver.state.checkpointing.saving is not None
    assert driver.state.checkpointing.saving.step == 3


def test_a_request_is_answered() -> None:
    driver = resting(STATELESS)
    driver.see(CheckpointRequest("p", "r", 3))
    effect = recorded(driver)
    assert effect.checkpoint is not None
    driver.see_step(effect.checkpoint)
    driver.feed(CheckpointCommitted(3, driver.log.now_ms))
    driver.ready()
    assert "r" in driver.state.asked.acknowledged
