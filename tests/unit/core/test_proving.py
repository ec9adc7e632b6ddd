"""What a coordinator was told is the end of the log of steps may be old. Before it calls a person, or answers one,
by what it has read, it writes a record of its own and reads beyond it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kcontrol.core.coordinator.table import State
from kcontrol.core.events import (
    EndProved,
    InitProducer,
    ProveEnd,
    StepCommitted,
    TransactionFailed,
)
from kcontrol.core.model import CheckpointRequest, Claim, FailureKind, NodePhase
from tests.unit.core.drive import CoordinatorDriver, only
from tests.unit.core.made import SPEC, boundary, checkpoint
from tests.unit.core.saving import ONE, TWO, resting


def told_of_an_old_end(driver: CoordinatorDriver) -> CoordinatorDriver:
    """Nothing is proved before the test says so."""
    driver.proves = False
    return driver


def new_definition(driver: CoordinatorDriver) -> list[Any]:
    return driver.see(replace(SPEC, fingerprint="f2"))


def other_size(driver: CoordinatorDriver) -> list[Any]:
    return driver.see(replace(TWO, fingerprint=SPEC.fingerprint, stateful=True))


def expired_input(driver: CoordinatorDriver) -> list[Any]:
    return driver.receive(9, 9, earliest=8)


def nothing_to_open(driver: CoordinatorDriver) -> list[Any]:
    for step in (1, 2):
        driver.forget_step(step)
    driver.join()
    return driver.say(phase=NodePhase.CLOSED, openable=())


def failed_in_a_replay(driver: CoordinatorDriver) -> list[Any]:
    driver.join()
    return driver.say(phase=NodePhase.FAILED, step=1, openable=(1,), error="step 2: gone")


def a_request(driver: CoordinatorDriver) -> list[Any]:
    return driver.see(CheckpointRequest("p", "later", 4))


HALTS = [new_definition, other_size, expired_input, nothing_to_open, failed_in_a_replay]


def what_was_missing(driver: CoordinatorDriver) -> None:
    """The steps that the coordinator had not been shown, and with them none of the reasons holds: made by the newer
    definition and number of nodes, behind the input that is gone, saved."""
    spec = driver.state.view.spec()
    assert spec is not None
    made = boundary(4, (8, 3), (9, 8), nodes=spec.nodes)
    driver.see_step(replace(made, fingerprint=spec.fingerprint))


@pytest.mark.parametrize("why", [*HALTS, a_request])
def test_nothing_is_said_before_a_record_of_its_own_was_written_and_read_beyond(
    why: Callable[[CoordinatorDriver], list[Any]],
) -> None:
    driver = told_of_an_old_end(resting(ONE, saved=(3,)))
    effects = why(driver)
    assert driver.state.at is State.PROVING
    assert only(ProveEnd, effects) == ProveEnd(7, driver.producer_epoch)
    assert driver.state.trouble.halt == ""
    assert all(one.request_id != "later" for one in driver.status.answers)
    assert only(InitProducer, driver.feed(EndProved(driver.log.now_ms)))
    assert driver.state.trouble.halt == ""


@pytest.mark.parametrize("why", HALTS)
def test_what_holds_at_the_true_end_halts(why: Callable[[CoordinatorDriver], list[Any]]) -> None:
    driver = resting(ONE, saved=(3,))
    why(driver)
    assert driver.state.at is State.HALTED
    assert driver.state.trouble.halt != ""


@pytest.mark.parametrize("why", [new_definition, other_size, expired_input])
def test_what_does_not_hold_at_the_true_end_halts_nobody(
    why: Callable[[CoordinatorDriver], list[Any]],
) -> None:
    driver = told_of_an_old_end(resting(ONE, saved=(3,)))
    why(driver)
    driver.feed(EndProved(driver.log.now_ms))
    what_was_missing(driver)
    driver.ready()
    assert driver.state.at in (State.ASSEMBLING, State.READY)
    assert driver.state.trouble.halt == ""


def test_a_checkpoint_that_was_not_seen_opens_the_node() -> None:
    """Seed 31838607 of the simulator: coordinator and node were both shown an old end, at which the log named a
    checkpoint whose files had been dropped when a newer one was recorded."""
    driver = told_of_an_old_end(resting(ONE, saved=(3,)))
    nothing_to_open(driver)
    driver.feed(EndProved(driver.log.now_ms))
    driver.see_step(boundary(4, (8, 3), (9, 8)))
    driver.see_step(checkpoint(4, 1))
    driver.ready()
    assert (driver.state.at, driver.state.trouble.halt) == (State.ASSEMBLING, "")
    driver.say(phase=NodePhase.CLOSED, openable=(4,))
    assert driver.state.nodes.commands[0].step == 4


def test_a_node_is_not_judged_before_it_has_read_what_may_have_made_its_steps_needless() -> None:
    """It was opened by an old end, and what its steps had exchanged was deleted for a checkpoint that neither had seen."""
    driver = told_of_an_old_end(resting(ONE, saved=(3,)))
    failed_in_a_replay(driver)
    driver.feed(EndProved(driver.log.now_ms))
    driver.see_step(boundary(4, (8, 3), (9, 8)))
    driver.see_step(checkpoint(4, 1))
    driver.ready()
    assert (driver.state.at, driver.state.trouble.halt) == (State.ASSEMBLING, "")
    driver.say(phase=NodePhase.FAILED, step=1, openable=(1,), error="step 2: gone", checkpoint=3)
    assert driver.state.trouble.halt == ""
    driver.say(phase=NodePhase.CLOSED, step=1, openable=(4,), error="step 2: gone")
    assert driver.state.nodes.commands[0].step == 4


def test_a_node_that_fails_although_it_has_read_all_halts() -> None:
    driver = told_of_an_old_end(resting(ONE, saved=(3,)))
    failed_in_a_replay(driver)
    driver.feed(EndProved(driver.log.now_ms))
    driver.see_step(boundary(4, (8, 3), (9, 8)))
    driver.see_step(checkpoint(4, 1))
    driver.ready()
    driver.say(phase=NodePhase.FAILED, step=1, openable=(1,), error="step 2: gone")
    assert (driver.state.at, driver.state.trouble.halt) == (State.HALTED, "node 0 failed: step 2: gone")


def test_a_request_is_answered_by_what_was_committed_when_it_was_made() -> None:
    """After a takeover a broker may show the log without its newest steps: seed 20938962 of the simulator."""
    driver = told_of_an_old_end(resting(ONE, saved=(3,)))
    a_request(driver)
    driver.feed(EndProved(driver.log.now_ms))
    driver.see_step(boundary(4, (8, 3), (9, 8)))
    driver.ready()
    driver.say(step=4)
    driver.tick()
    assert driver.state.checkpointing.saving is not None
    assert driver.state.checkpointing.saving.step == 4


def committed(driver: CoordinatorDriver) -> CoordinatorDriver:
    """Step 4 was asked of node 0 and is on its way to be committed."""
    driver.write(driver.attempt(9, 9))
    assert driver.state.at is State.COMMITTING
    return driver


def test_an_own_commit_proves_as_much() -> None:
    driver = told_of_an_old_end(committed(resting(ONE, saved=(3,))))
    driver.feed(StepCommitted(4, driver.log.now_ms))
    what_was_missing(driver)
    driver.ready()
    driver.say(step=4)
    driver.receive(12, 12, earliest=11)
    assert (driver.state.at, driver.state.trouble.halt != "") == (State.HALTED, True)


def test_what_it_has_written_before_proves_nothing_about_a_definition_that_comes_after() -> None:
    """Whoever submits it may have changed the layout, in a transaction of his own, while this coordinator rested."""
    driver = told_of_an_old_end(committed(resting(ONE, saved=(3,))))
    driver.feed(StepCommitted(4, driver.log.now_ms))
    what_was_missing(driver)
    driver.ready()
    assert driver.state.transaction.proved
    new_definition(driver)
    assert (driver.state.at, driver.state.trouble.halt) == (State.PROVING, "")


def test_nor_does_what_was_on_its_way_when_the_definition_came() -> None:
    driver = told_of_an_old_end(resting(ONE, saved=(3,)))
    expired_input(driver)
    assert driver.state.at is State.PROVING
    new_definition(driver)
    driver.feed(EndProved(driver.log.now_ms))
    driver.ready()
    assert (driver.state.at, driver.state.trouble.halt) == (State.PROVING, "")
    driver.feed(EndProved(driver.log.now_ms))
    driver.ready()
    assert driver.state.at is State.HALTED


@pytest.mark.parametrize("kind", [FailureKind.BROKER, FailureKind.FENCED])
def test_a_commit_without_an_answer_proves_nothing_any_more(kind: FailureKind) -> None:
    driver = resting(ONE, saved=(3,))
    a_request(driver)
    assert driver.state.transaction.proved
    committed(driver).feed(TransactionFailed(kind, "gone", driver.log.now_ms))
    assert not driver.state.transaction.proved


def test_whoever_takes_over_has_proved_nothing() -> None:
    driver = resting(ONE, saved=(3,))
    a_request(driver)
    assert driver.state.transaction.proved
    driver.see(Claim("p", "another", "host", 1))
    driver.take_over()
    assert not driver.state.transaction.proved


@pytest.mark.parametrize(
    ("kind", "then"),
    [
        (FailureKind.BROKER, State.BACKING_OFF),
        (FailureKind.FENCED, State.CHECKING_CLAIM),
        (FailureKind.DENIED, State.DENIED),
    ],
)
def test_what_can_not_be_written_proves_nothing(kind: FailureKind, then: State) -> None:
    driver = told_of_an_old_end(resting(ONE, saved=(3,)))
    expired_input(driver)
    driver.feed(TransactionFailed(kind, "not now", driver.log.now_ms))
    assert driver.state.at is then
    assert not driver.state.transaction.proved
