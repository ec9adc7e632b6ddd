"""Checkpoints, as a coordinator makes them: when, what it waits for, what it records,
and how little a failure costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kcontrol.core.coordinator.table import State
from kcontrol.core.events import (
    AddPartitions,
    CheckpointCommitted,
    CommitCheckpoint,
    InitProducer,
    PartitionsAdded,
    TransactionFailed,
)
from kcontrol.core.model import (
    Checkpoint,
    Desired,
    DesiredMode,
    FailureKind,
    PipelinePhase,
    SavedPart,
)
from tests.unit.core.drive import CoordinatorDriver, only
from tests.unit.core.made import LIMITS, SPEC, boundary, checkpoint
from tests.unit.core.saving import EVERY_MS, ONE, STEPS_ONLY, part, resting, saving, told


def given_up(driver: CoordinatorDriver) -> str:
    return driver.status.checkpoint_failure


def test_a_checkpoint_is_due_when_its_interval_has_passed_and_something_is_new() -> None:
    driver = resting()
    assert told(driver.tick(EVERY_MS - 1)) == []
    assert told(driver.tick(1)) == [(0, 3), (1, 3)]
    assert told(driver.tick(1)) == []
    assert told(resting(saved=(3,)).tick(10 * EVERY_MS)) == []
    assert told(resting(SPEC).tick(10 * SPEC.checkpoint.every_ms)) == []


def test_the_interval_goes_on_from_the_last_checkpoint_of_a_predecessor() -> None:
    """`checkpoint` says 4.002 s; the takeover was at 10 s."""
    driver = CoordinatorDriver(ONE)
    driver.see_step(boundary(1))
    driver.see_step(boundary(2, (6, 1), (7, 2)))
    driver.see_step(replace(checkpoint(2, 1), now_ms=9_000))
    driver.see_step(boundary(3, (7, 2), (8, 3)))
    driver.take_over()
    driver.join()
    assert told(driver.say()) == []
    assert told(driver.tick(EVERY_MS - 1_001)) == []
    assert told(driver.tick(1)) == [(0, 3)]


def test_the_next_step_waits_for_all_pins_and_for_nothing_else() -> None:
    driver = resting()
    driver.tick(EVERY_MS)
    pinned = driver.state.nodes.commands[0].serial - 1
    driver.say(0, command_serial=pinned)
    driver.receive(9, 0)
    assert driver.state.at is State.READY
    driver.say(0)
    assert driver.state.at is State.READY
    effects = driver.say(1)
    assert len(only(AddPartitions, effects).partitions) == 3
    assert driver.state.at is State.ADDING


def test_steps_go_on_while_nodes_save() -> None:
    driver = saving(ONE)
    work = driver.attempt(9, 3)
    assert work.step == 4
    assert part_of_step_3(driver, work_serial=driver.state.nodes.commands[0].serial) == []
    assert driver.state.at is State.ATTEMPTING


def part_of_step_3(driver: CoordinatorDriver, work_serial: int) -> list[Any]:
    return part(driver, 0, command_serial=work_serial - 1, step=3)


def test_when_all_parts_are_there_the_checkpoint_is_recorded_in_a_transaction_of_its_own() -> None:
    driver = saving()
    assert part(driver, 1) == []
    assert only(AddPartitions, part(driver, 0)) == AddPartitions(7, 1, STEPS_ONLY)
    commit = only(CommitCheckpoint, driver.feed(PartitionsAdded(driver.log.now_ms)))
    assert (commit.producer_id, commit.producer_epoch) == (7, 1)
    assert commit.checkpoint == Checkpoint(
        pipeline="p",
        step=3,
        claim_epoch=driver.state.tenure.epoch,
        boundary_offset=2,
        location="file:///c",
        parts=tuple(SavedPart(number, driver.incarnations[number], f"m{number}", 2, 30) for number in (0, 1)),
        begun_ms=13_000,
        now_ms=13_000,
        request_id="",
        first_step=3,
        resized_step=0,
        begin_offset=2,
    )
    driver.see_step(commit.checkpoint)
    assert only(InitProducer, driver.feed(CheckpointCommitted(3, driver.log.now_ms)))
    driver.ready()
    assert (driver.status.checkpoint, driver.state.at, driver.state.checkpointing.saving) == (
        3,
        State.READY,
        None,
    )


def test_what_a_checkpoint_makes_needless_is_forgotten_oldest_first_and_not_all_at_once() -> None:
    driver = resting(replace(ONE, limits=replace(LIMITS, max_forgotten=2)), steps=6, saved=(2, 4))
    driver.tick(EVERY_MS)
    driver.say()
    part(driver, 0)
    commit = only(CommitCheckpoint, driver.feed(PartitionsAdded(driver.log.now_ms)))
    assert commit.forget == ("checkpoint/2", "step/1", "step/2")
    assert (commit.checkpoint.first_step, commit.checkpoint.begin_offset) == (3, 4)


@pytest.mark.parametrize(
    ("keep_steps", "forgotten"),
    [(-1, ()), (0, ("step/1",)), (5, ("step/1",)), (6, ())],
)
def test_steps_are_kept_for_checkpoints_and_for_as_long_as_was_asked(
    keep_steps: int, forgotten: tuple[str, ...]
) -> None:
    driver = resting(
        replace(ONE, checkpoint=replace(ONE.checkpoint, keep_steps=keep_steps)), steps=6, saved=(2,)
    )
    driver.tick(EVERY_MS)
    driver.say()
    part(driver, 0)
    commit = only(CommitCheckpoint, driver.feed(PartitionsAdded(driver.log.now_ms)))
    assert commit.forget == forgotten
    assert commit.checkpoint.first_step == 1 + len(forgotten)


@pytest.mark.parametrize(
    "changes",
    [{"command_serial": 2}, {"claim_epoch": 1}, {"step": 2}, {"incarnation": 0}],
    ids=lambda one: next(iter(one)),
)
def test_only_the_answer_to_the_very_command_is_a_part(changes: dict[str, Any]) -> None:
    driver = saving(ONE)
    assert part(driver, 0, **changes) == []
    assert driver.state.at is State.READY
    assert only(AddPartitions, part(driver, 0)).partitions == STEPS_ONLY


# --- what goes wrong ----------------------------------------------------------------------------------------


def test_a_checkpoint_is_given_up_when_a_part_fails_and_begun_anew_when_it_is_due() -> None:
    driver = saving()
    part(driver, 0)
    part(driver, 1, error="disk full")
    assert given_up(driver) == "the checkpoint of step 3 was given up: node 1: disk full"
    assert told(driver.tick(EVERY_MS - 1)) == []
    assert told(driver.tick(1)) == [(0, 3), (1, 3)]


def test_a_part_of_a_checkpoint_that_was_given_up_is_no_part_of_the_next() -> None:
    driver = saving()
    before = driver.state.nodes.commands[0].serial
    part(driver, 0)
    part(driver, 1, error="disk full")
    driver.tick(EVERY_MS)
    driver.say(0)
    driver.say(1)
    assert part(driver, 1) == []
    assert part(driver, 0, command_serial=before) == []
    assert only(AddPartitions, part(driver, 0)).partitions == STEPS_ONLY


def test_a_node_that_is_restarted_takes_its_part_back() -> None:
    driver = saving()
    part(driver, 0)
    driver.join(0)
    assert given_up(driver) == "the checkpoint of step 3 was given up: node 0 was restarted"
    driver.say(0)
    assert part(driver, 1) == []


def test_a_node_that_is_restarted_just_before_the_record_takes_its_part_back() -> None:
    driver = saving(ONE)
    part(driver, 0)
    driver.join(0)
    assert only(InitProducer, driver.feed(PartitionsAdded(driver.log.now_ms)))


def test_a_node_that_does_not_pin_in_time_loses_the_checkpoint_and_not_the_pipeline() -> None:
    driver = resting()
    driver.tick(EVERY_MS)
    late = driver.state.nodes.commands[1].serial - 1
    driver.say(0)
    driver.receive(9, 0)
    for _ in range(LIMITS.pin_timeout_ms // 1_000 - 1):
        driver.tick(1_000)
        driver.say(1, command_serial=late)
    assert driver.state.at is State.READY
    assert only(AddPartitions, driver.tick(1_000))
    driver.feed(PartitionsAdded(driver.log.now_ms))
    assert given_up(driver).endswith(f"node 1 has not pinned the step within {LIMITS.pin_timeout_ms} ms")


def test_a_part_that_does_not_come_in_time_is_not_waited_for() -> None:
    driver = saving()
    part(driver, 1)
    for _ in range(LIMITS.save_timeout_ms // 1_000):
        driver.tick(1_000)
        driver.say(0)
        driver.say(1)
    assert given_up(driver).endswith(f"node 0 has not saved its part within {LIMITS.save_timeout_ms} ms")


def test_a_pause_leaves_a_checkpoint_alone_and_it_is_recorded_before_the_nodes_are_told() -> None:
    driver = resting(ONE)
    driver.tick(EVERY_MS)
    driver.say(command_serial=driver.state.nodes.commands[0].serial - 1)
    driver.see(Desired("p", DesiredMode.PAUSED, "r1"))
    driver.tick()
    assert driver.status.phase is PipelinePhase.PAUSED
    driver.say()
    assert only(AddPartitions, part(driver, 0)).partitions == STEPS_ONLY


def test_a_checkpoint_under_way_goes_on_when_a_paused_pipeline_is_resumed() -> None:
    driver = saving(ONE)
    driver.see(Desired("p", DesiredMode.PAUSED, "r1"))
    driver.see(Desired("p", DesiredMode.RUNNING, "r2"))
    assert only(AddPartitions, part(driver, 0)).partitions == STEPS_ONLY


def test_another_place_for_checkpoints_ends_the_one_under_way() -> None:
    driver = saving(ONE)
    driver.see(replace(ONE, checkpoint=replace(ONE.checkpoint, location="file:///d")))
    assert given_up(driver).endswith("the pipeline's definition was changed")


def recording() -> tuple[CoordinatorDriver, Checkpoint]:
    driver = saving(ONE)
    part(driver, 0)
    return driver, only(CommitCheckpoint, driver.feed(PartitionsAdded(driver.log.now_ms))).checkpoint


def after_a_lost_answer(driver: CoordinatorDriver) -> None:
    driver.feed(TransactionFailed(FailureKind.BROKER, "answer lost", driver.log.now_ms))
    assert only(InitProducer, driver.tick(LIMITS.backoff_ms))


def test_a_record_whose_answer_was_lost_is_found_in_the_log() -> None:
    driver, made = recording()
    after_a_lost_answer(driver)
    driver.see_step(made)
    driver.ready()
    driver.say()
    driver.tick(LIMITS.max_backoff_ms)
    assert (driver.state.at, driver.status.checkpoint) == (State.READY, 3)


def test_a_record_that_did_not_get_there_is_written_again() -> None:
    driver, made = recording()
    after_a_lost_answer(driver)
    driver.ready()
    driver.say()
    driver.tick(LIMITS.max_backoff_ms)
    assert driver.state.at is State.ADDING_LOG
    assert (
        only(CommitCheckpoint, driver.feed(PartitionsAdded(driver.log.now_ms))).checkpoint.parts == made.parts
    )


@pytest.mark.parametrize("added", [False, True])
def test_who_is_fenced_while_recording_reads_who_is_in_charge(added: bool) -> None:
    driver = saving(ONE)
    part(driver, 0)
    if added:
        driver.feed(PartitionsAdded(driver.log.now_ms))
    driver.feed(TransactionFailed(FailureKind.FENCED, "fenced", driver.log.now_ms))
    assert driver.state.at is State.CHECKING_CLAIM


def test_a_record_of_another_coordinator_sends_to_read_who_is_in_charge() -> None:
    driver = saving(ONE)
    part(driver, 0)
    driver.see_step(checkpoint(3, 1))
    driver.feed(PartitionsAdded(driver.log.now_ms))
    assert driver.state.at is State.CHECKING_CLAIM
