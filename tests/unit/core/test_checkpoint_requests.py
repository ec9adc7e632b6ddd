"""Requests for a checkpoint and what becomes of them; what a node is told to open when steps were dropped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kcontrol.core.coordinator.table import State
from kcontrol.core.events import (
    CheckpointCommitted,
    CommitCheckpoint,
    PartitionsAdded,
)
from kcontrol.core.model import (
    CheckpointRequest,
    Command,
    CommandKind,
    NodePhase,
)
from tests.unit.core.drive import CoordinatorDriver, only, published
from tests.unit.core.made import LIMITS, SPEC, boundary, checkpoint
from tests.unit.core.saving import ONE, part, resting, saving, told

# --- requests -----------------------------------------------------------------------------------------------


def ask(driver: CoordinatorDriver, request_id: str = "now") -> list[Any]:
    return driver.see(CheckpointRequest("p", request_id))


def answer(driver: CoordinatorDriver) -> tuple[str, int, str]:
    said = driver.status.answers[-1]
    return said.request_id, said.step, said.error


def test_a_request_makes_a_checkpoint_at_once_and_is_answered_when_it_is_in_the_log() -> None:
    driver = resting()
    assert told(ask(driver)) == [(0, 3), (1, 3)]
    for number in (0, 1):
        driver.say(number)
        part(driver, number)
    commit = only(CommitCheckpoint, driver.feed(PartitionsAdded(driver.log.now_ms)))
    assert commit.checkpoint.request_id == "now"
    assert driver.status.answers == ()
    driver.see_step(commit.checkpoint)
    driver.feed(CheckpointCommitted(3, driver.log.now_ms))
    driver.ready()
    assert answer(driver) == ("now", 3, "")
    assert "now" in driver.status.acknowledged


def saved_up_to_date() -> CoordinatorDriver:
    """At rest; the checkpoint of the last step is in the log as far as it was read, and request `now` is
    answered."""
    driver = resting()
    ask(driver)
    for number in (0, 1):
        driver.say(number)
        part(driver, number)
    commit = only(CommitCheckpoint, driver.feed(PartitionsAdded(driver.log.now_ms)))
    driver.see_step(commit.checkpoint)
    driver.feed(CheckpointCommitted(3, driver.log.now_ms))
    driver.ready()
    assert answer(driver) == ("now", 3, "")
    return driver


def test_a_request_that_names_a_step_which_never_was_is_refused_and_keeps_nobody_from_working() -> None:
    driver = saved_up_to_date()
    driver.see(CheckpointRequest("p", "wrong", 99))
    assert answer(driver) == (
        "wrong",
        0,
        "step 99 was committed when a checkpoint was asked for, and the log of steps was read to step 3 only: "
        "nothing was saved; ask again",
    )
    assert driver.state.at in (State.ASSEMBLING, State.READY)
    assert driver.state.trouble.halt == ""


def test_a_request_during_a_checkpoint_gets_one_of_its_own_if_there_is_more_to_save() -> None:
    driver = saving(ONE)
    assert told(ask(driver)) == []
    serial = driver.state.nodes.commands[0].serial
    driver.attempt(9, 3)
    driver.see_step(boundary(4, (8, 3), (9, 3), nodes=2))
    assert driver.status.answers == ()
    assert part(driver, 0, command_serial=serial, step=3) == []


def test_a_successor_answers_a_request_whose_checkpoint_is_in_the_log() -> None:
    driver = resting(ONE, saved=(2,))
    driver.see_step(replace(checkpoint(3, 1), request_id="now"))
    ask(driver)
    assert answer(driver) == ("now", 3, "")


def test_a_request_with_nothing_new_to_save_is_answered_by_the_newest_checkpoint() -> None:
    driver = resting(ONE, saved=(3,))
    assert told(ask(driver)) == []
    assert answer(driver) == ("now", 3, "")


def test_requests_that_can_not_be_met_are_answered_by_an_error() -> None:
    driver = resting(SPEC)
    ask(driver)
    assert answer(driver)[2].startswith("pipeline p has no place for checkpoints: give its definition")
    driver = resting(ONE, steps=0)
    ask(driver)
    assert answer(driver)[2] == "pipeline p has no committed step yet: there is nothing to save"


def test_a_request_whose_checkpoint_fails_is_told_why_and_not_tried_for_ever() -> None:
    driver = resting(ONE)
    ask(driver)
    driver.say()
    effects = part(driver, 0, error="disk full")
    assert answer(driver) == ("now", 0, "the checkpoint of step 3 was given up: node 0: disk full")
    assert told(effects) == []


def test_a_request_outlives_the_restart_of_a_node_but_leaves_time_for_a_step() -> None:
    driver = resting(ONE)
    ask(driver)
    driver.join()
    assert driver.status.answers == ()
    assert told(driver.say()) == []
    assert told(driver.tick(LIMITS.max_backoff_ms - 1)) == []
    assert told(driver.tick(1)) == [(0, 3)]


# --- opening ------------------------------------------------------------------------------------------------


def closed(driver: CoordinatorDriver, **changes: Any) -> list[Command]:
    driver.join()
    return published(Command, driver.say(phase=NodePhase.CLOSED, **changes))


def with_dropped_steps() -> CoordinatorDriver:
    """The log holds steps 4 to 6, and a checkpoint of step 4."""
    driver = resting(ONE, steps=6, saved=(4,))
    for step in (1, 2, 3):
        driver.forget_step(step)
    return driver


def test_a_node_opens_the_newest_step_that_it_can_go_on_from() -> None:
    command = closed(with_dropped_steps(), openable=(7, 4, 2))[0]
    assert (command.kind, command.step) == (CommandKind.OPEN, 4)
    command = closed(with_dropped_steps(), openable=(3, 2))[0]
    assert (command.kind, command.step) == (CommandKind.OPEN, 3)


def test_a_node_that_can_open_nothing_of_what_is_left_halts_the_pipeline_until_it_can() -> None:
    driver = with_dropped_steps()
    closed(driver, openable=(2,))
    assert driver.state.at is State.HALTED
    assert driver.status.reason.startswith(
        "node 0 of pipeline p can't be opened: the log holds steps 4 to 6, so it must begin at"
    )
    assert (
        "one from 3 to 6. Steps that it can open, from its own disk or from a checkpoint: 2;"
        in driver.status.reason
    )
    assert "checkpoints in the log: 4." in driver.status.reason
    driver.join()
    driver.say(phase=NodePhase.CLOSED, openable=(4,))
    command = published(Command, driver.resume())[0]
    assert (command.kind, command.step) == (CommandKind.OPEN, 4)


def test_a_node_is_not_judged_before_it_knows_the_checkpoints_in_the_log() -> None:
    driver = with_dropped_steps()
    assert closed(driver, openable=(2,), checkpoint=0) == []
    assert driver.state.at is State.ASSEMBLING
    command = published(Command, driver.say(phase=NodePhase.CLOSED, openable=(4, 2)))[0]
    assert (command.kind, command.step) == (CommandKind.OPEN, 4)
