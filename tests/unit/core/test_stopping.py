"""A stop saves the last step before the nodes close, waits for nothing else, and says what it could not
save."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kcontrol.core.coordinator.table import State
from kcontrol.core.events import (
    CheckpointCommitted,
    CommitCheckpoint,
    EndsReached,
    PartitionsAdded,
    TransactionFailed,
)
from kcontrol.core.model import (
    AgentPlacement,
    CheckpointRequest,
    Claim,
    Command,
    CommandKind,
    Desired,
    DesiredMode,
    FailureKind,
    NodeJoin,
    NodePhase,
    PipelinePhase,
)
from tests.unit.core.drive import CoordinatorDriver, only, published
from tests.unit.core.made import LIMITS, SPEC, boundary
from tests.unit.core.saving import ONE, TWO, part, resting, saving, told

STOP_MS = LIMITS.stop_save_timeout_ms


def want(driver: CoordinatorDriver, mode: DesiredMode, request_id: str = "w") -> list[Any]:
    return driver.see(Desired("p", mode, request_id))


def kinds(effects: list[Any]) -> list[CommandKind]:
    return [command.kind for command in published(Command, effects)]


def record(driver: CoordinatorDriver) -> list[Any]:
    """All parts are there: the checkpoint is committed and read."""
    commit = only(CommitCheckpoint, driver.feed(PartitionsAdded(driver.log.now_ms)))
    driver.see_step(commit.checkpoint)
    driver.feed(CheckpointCommitted(commit.checkpoint.step, driver.log.now_ms))
    return driver.ready()


def save(driver: CoordinatorDriver, nodes: int) -> list[Any]:
    for number in range(nodes):
        driver.say(number)
        part(driver, number)
    return record(driver)


def close(driver: CoordinatorDriver, nodes: int) -> None:
    for _ in range(2):
        for number in range(nodes):
            driver.say(number, phase=NodePhase.CLOSED)


def test_a_stop_saves_the_last_step_before_it_closes_the_nodes() -> None:
    driver = resting(TWO)
    assert told(want(driver, DesiredMode.STOPPED)) == [(0, 3), (1, 3)]
    assert (driver.status.phase, driver.status.reason) == (
        PipelinePhase.RUNNING,
        "stopping, once step 3 is saved",
    )
    assert kinds(save(driver, 2)) == [CommandKind.STOP, CommandKind.STOP]
    close(driver, 2)
    assert (driver.status.phase, driver.status.checkpoint, driver.status.reason) == (
        PipelinePhase.STOPPED,
        3,
        "",
    )
    assert driver.status.acknowledged[-1] == "w"


def test_nothing_is_saved_where_nothing_is_new_or_nothing_can_be() -> None:
    assert kinds(want(resting(ONE, saved=(3,)), DesiredMode.STOPPED)) == [CommandKind.STOP]
    assert kinds(want(resting(replace(ONE, stateful=False)), DesiredMode.STOPPED)) == [CommandKind.STOP]
    driver = resting(SPEC)
    assert kinds(want(driver, DesiredMode.STOPPED)) == [CommandKind.STOP]
    close(driver, 1)
    assert (driver.status.phase, driver.status.reason) == (PipelinePhase.STOPPED, "")


def test_a_paused_pipeline_is_saved_too_when_it_is_stopped() -> None:
    driver = resting(ONE)
    assert kinds(want(driver, DesiredMode.PAUSED)) == [CommandKind.PAUSE]
    assert told(want(driver, DesiredMode.STOPPED, "w2")) == [(0, 3)]
    assert kinds(save(driver, 1)) == [CommandKind.STOP]


def test_a_checkpoint_under_way_is_waited_for_and_the_steps_since_are_saved_after_it() -> None:
    driver = saving(ONE)
    serial = driver.state.nodes.commands[0].serial
    driver.see_step(boundary(4, (8, 3), (9, 4)))
    driver.say()
    assert kinds(want(driver, DesiredMode.STOPPED)) == []
    part(driver, 0, command_serial=serial, step=3)
    assert told(record(driver)) == [(0, 4)]
    assert kinds(save(driver, 1)) == [CommandKind.STOP]


def test_a_checkpoint_of_the_last_step_that_is_under_way_is_enough() -> None:
    driver = saving(ONE)
    assert kinds(want(driver, DesiredMode.STOPPED)) == []
    part(driver, 0)
    assert kinds(record(driver)) == [CommandKind.STOP]


def test_what_fails_to_be_saved_is_said_and_the_stop_goes_on() -> None:
    driver = resting(ONE)
    want(driver, DesiredMode.STOPPED)
    driver.say()
    assert kinds(part(driver, 0, error="disk full")) == [CommandKind.STOP]
    close(driver, 1)
    assert driver.status.phase is PipelinePhase.STOPPED
    assert driver.status.reason == (
        "step 3 was not saved before the stop: the checkpoint of step 3 was given up: node 0: disk full"
    )


def test_a_stop_waits_for_a_checkpoint_no_longer_than_its_limit() -> None:
    driver = resting(replace(ONE, limits=replace(LIMITS, save_timeout_ms=10 * STOP_MS)))
    want(driver, DesiredMode.STOPPED)
    driver.say()
    last: list[Any] = []
    for _ in range(STOP_MS // 1_000):
        assert kinds(last) == []
        driver.say()
        last = driver.tick(1_000)
    assert kinds(last) == [CommandKind.STOP]
    assert f"took longer than {STOP_MS} ms" in driver.status.reason


def test_a_stop_does_not_wait_for_a_node_that_is_away_behind_or_broken() -> None:
    for changes, why in (
        ({}, "node 1 has joined and says nothing yet"),
        ({"phase": NodePhase.FAILED, "error": "digest"}, "the pipeline had halted"),
        ({"step": 1}, "node 1 replays step 2"),
    ):
        driver = resting(TWO)
        if changes:
            driver.say(1, **changes)
        else:
            driver.join(1)
        effects = want(driver, DesiredMode.STOPPED)
        assert told(effects) == []
        assert CommandKind.STOP in kinds(effects)
        assert f"step 3 was not saved before the stop: {why}" in driver.status.reason


def test_a_node_that_dies_meanwhile_ends_the_saving_and_not_the_stop() -> None:
    driver = resting(TWO)
    want(driver, DesiredMode.STOPPED)
    assert kinds(driver.join(1)) == [CommandKind.STOP]
    driver.say(1, phase=NodePhase.CLOSED)
    driver.say(1, phase=NodePhase.CLOSED)
    driver.say(0, phase=NodePhase.CLOSED)
    driver.say(0, phase=NodePhase.CLOSED)
    assert driver.status.phase is PipelinePhase.STOPPED
    assert "step 3 was given up: node 1 was restarted" in driver.status.reason


def test_a_second_stop_changes_nothing_and_is_answered_too() -> None:
    driver = resting(ONE)
    want(driver, DesiredMode.STOPPED)
    assert kinds(want(driver, DesiredMode.STOPPED, "again")) == []
    save(driver, 1)
    assert kinds(want(driver, DesiredMode.STOPPED, "and again")) == []
    close(driver, 1)
    assert driver.status.acknowledged[-1] == "and again"


def test_a_pipeline_that_is_to_run_again_goes_on_while_it_is_saved() -> None:
    driver = resting(ONE)
    want(driver, DesiredMode.STOPPED)
    driver.say()
    want(driver, DesiredMode.RUNNING, "on")
    assert driver.state.at is State.READY
    part(driver, 0)
    record(driver)
    assert driver.status.checkpoint == 3
    assert driver.status.phase is PipelinePhase.RUNNING


@pytest.mark.parametrize("kind", [FailureKind.BROKER, FailureKind.FENCED])
def test_the_record_of_the_checkpoint_is_tried_again_as_any_commit_is(kind: FailureKind) -> None:
    driver = resting(ONE)
    want(driver, DesiredMode.STOPPED)
    driver.say()
    part(driver, 0)
    only(CommitCheckpoint, driver.feed(PartitionsAdded(driver.log.now_ms)))
    driver.feed(TransactionFailed(kind, "lost", driver.log.now_ms))
    if kind is FailureKind.FENCED:
        driver.see(published(Claim, driver.feed(EndsReached(driver.log.steps_end, driver.log.now_ms)))[0])
        driver.ready()
        assert told(driver.say()) == [(0, 3)]
        driver.say()
        part(driver, 0)
    else:
        driver.tick(LIMITS.max_backoff_ms)
        driver.ready()
    driver.say()
    driver.tick(LIMITS.max_backoff_ms)
    assert kinds(record(driver)) == [CommandKind.STOP]
    assert driver.status.checkpoint == 3


def test_a_successor_does_not_lose_why_it_was_not_saved() -> None:
    driver = resting(ONE)
    want(driver, DesiredMode.STOPPED)
    driver.say()
    part(driver, 0, error="disk full")
    close(driver, 1)
    reason = driver.status.reason
    heir = CoordinatorDriver(ONE)
    heir.see(Desired("p", DesiredMode.STOPPED, "w"))
    for step in (1, 2, 3):
        heir.see_step(boundary(step, (4 + step, step - 1), (5 + step, step)))
    heir.see(driver.status)
    heir.take_over()
    assert (heir.status.phase, heir.status.reason) == (PipelinePhase.STOPPED, reason)


# --- asked for at rest --------------------------------------------------------------------------------------


def answer(driver: CoordinatorDriver) -> tuple[str, int, str]:
    said = driver.status.answers[-1]
    return said.request_id, said.step, said.error


def test_a_paused_pipeline_is_saved_when_it_is_asked_for() -> None:
    driver = resting(TWO)
    want(driver, DesiredMode.PAUSED)
    driver.say(0)
    driver.say(1)
    assert told(driver.see(CheckpointRequest("p", "now"))) == [(0, 3), (1, 3)]
    save(driver, 2)
    assert answer(driver) == ("now", 3, "")
    assert (driver.status.phase, driver.status.checkpoint) == (PipelinePhase.PAUSED, 3)


def test_a_paused_pipeline_that_lacks_a_node_says_so_at_once() -> None:
    driver = resting(TWO)
    want(driver, DesiredMode.PAUSED)
    driver.say(0)
    driver.say(1, phase=NodePhase.CLOSED)
    assert told(driver.see(CheckpointRequest("p", "now"))) == []
    assert answer(driver) == (
        "now",
        0,
        "pipeline p is paused, and node 1 is closed; a paused pipeline opens no node: resume it first",
    )


def test_a_halted_or_stopped_pipeline_says_that_it_can_not_be_saved() -> None:
    driver = resting(ONE)
    driver.say(phase=NodePhase.FAILED, error="digest")
    driver.see(CheckpointRequest("p", "now"))
    assert answer(driver)[2].startswith(
        "pipeline p has halted, and is not saved before it goes on: node 0 failed: digest"
    )
    driver = resting(SPEC)
    want(driver, DesiredMode.STOPPED)
    close(driver, 1)
    driver.see(CheckpointRequest("p", "now"))
    assert "has no place for checkpoints" in answer(driver)[2]
    driver = resting(ONE)
    driver.say(phase=NodePhase.CLOSED)
    want(driver, DesiredMode.STOPPED)
    close(driver, 1)
    driver.see(CheckpointRequest("p", "now"))
    assert (
        answer(driver)[2]
        == "pipeline p is stopped, and its nodes are closed: there is nothing that could save it"
    )


def test_a_stopped_pipeline_whose_last_step_is_saved_answers_with_it() -> None:
    driver = resting(ONE)
    want(driver, DesiredMode.STOPPED)
    save(driver, 1)
    close(driver, 1)
    driver.see(CheckpointRequest("p", "now"))
    assert answer(driver) == ("now", 3, "")


def test_who_is_told_that_its_job_has_ended_stops_until_a_newer_node_is_there() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    end = Desired("p", DesiredMode.STOPPED, "e1", AgentPlacement(7, 20))
    assert published(Command, driver.see(end))[0].kind is CommandKind.STOP
    assert published(Command, driver.say(phase=NodePhase.CLOSED))[0].kind is CommandKind.SHUTDOWN
    driver.say(phase=NodePhase.CLOSED)
    assert (driver.status.phase, driver.status.acknowledged[-1]) == (PipelinePhase.STOPPED, "e1")
    driver.incarnations[0] = driver.log.end
    driver.see(NodeJoin("p", 0, "newer", "host", 2, placement=AgentPlacement(7, 21)))
    assert published(Command, driver.say(phase=NodePhase.CLOSED))[0].kind is CommandKind.CREATE
    assert driver.see(replace(end, request_id="late")) == []
