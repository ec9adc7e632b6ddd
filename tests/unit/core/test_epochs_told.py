"""Where the answer to a commit tells the next epoch, the next step neither fences nor reads, and is shown to nodes
that have yet to read the boundary."""

from __future__ import annotations

from dataclasses import replace

from kcontrol.core.coordinator.table import State
from kcontrol.core.events import (
    AddPartitions,
    CommitStep,
    InitProducer,
    PartitionsAdded,
    TransactionFailed,
)
from kcontrol.core.model import (
    CheckpointSpec,
    Command,
    CommandKind,
    FailureKind,
    NodePhase,
    StepBoundary,
    StepWork,
    Token,
)
from tests.unit.core.drive import CoordinatorDriver, only, published
from tests.unit.core.made import SPEC


def _committed(
    driver: CoordinatorDriver, ends: tuple[int, int] = (8, 2)
) -> tuple[StepBoundary, Token, list[object]]:
    """Step 1 is committed, and the answer tells epoch 9; what is done then."""
    work = driver.attempt(*ends)
    commit = only(CommitStep, driver.write(work))
    return commit.boundary, work.token, driver.answer(commit, 9)


def test_the_next_step_begins_under_the_epoch_that_was_told_without_fencing_or_reading() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    work = driver.attempt(8, 2)
    commit = only(CommitStep, driver.write(work))
    driver.receive(9, 3)
    effects = driver.answer(commit, 9)
    assert driver.state.steps.last == commit.boundary
    command = published(Command, effects)[0]
    assert command.work is not None
    assert (command.kind, command.step, command.work.token.producer_epoch) == (CommandKind.STEP, 2, 9)
    assert only(AddPartitions, effects).producer_epoch == 9
    driver.say(step=0, phase=NodePhase.RUNNING, attempt=work.token, command_serial=command.serial - 1)
    assert published(Command, driver.feed(PartitionsAdded(driver.log.now_ms))) == []
    assert driver.state.at is State.ATTEMPTING
    driver.say(phase=NodePhase.RUNNING, attempt=command.work.token)
    assert only(CommitStep, driver.write(command.work)).expected_offset == commit.expected_offset + 2


def test_a_report_that_comes_before_the_partitions_are_added_counts_then() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    commit = only(CommitStep, driver.write(driver.attempt(8, 2)))
    driver.receive(9, 3)
    work = _shown(driver.answer(commit, 9))
    driver.say(phase=NodePhase.RUNNING, attempt=work.token)
    assert driver.write(work) == []
    assert only(CommitStep, driver.feed(PartitionsAdded(driver.log.now_ms))).boundary.token == work.token


def _shown(effects: list[object]) -> StepWork:
    work = published(Command, effects)[0].work
    assert work is not None
    return work


def test_what_was_shown_is_taken_back_when_its_partitions_can_not_be_added() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    commit = only(CommitStep, driver.write(driver.attempt(8, 2)))
    driver.receive(9, 3)
    work = _shown(driver.answer(commit, 9))
    driver.feed(TransactionFailed(FailureKind.BROKER, "away", driver.log.now_ms))
    only(InitProducer, driver.tick(after_ms=60_000))
    assert driver.state.current.attempt is None
    driver.ready()
    told = published(Command, driver.say(phase=NodePhase.RUNNING, attempt=work.token, openable=(1,)))
    assert [(command.kind, command.step) for command in told] == [(CommandKind.OPEN, 1)]


def test_a_boundary_that_the_answer_told_is_not_taken_for_a_second_one_when_it_is_read() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    boundary, _, _ = _committed(driver)
    driver.see_step(boundary)
    assert (driver.state.steps.step, driver.state.steps.doubles) == (1, ())


def test_a_checkpoint_waits_until_all_nodes_have_read_the_boundary() -> None:
    spec = replace(SPEC, checkpoint=CheckpointSpec("file:///saved", 0, 2, -1))
    driver = CoordinatorDriver(spec)
    driver.in_place()
    work = driver.attempt(8, 2)
    commit = only(CommitStep, driver.write(work))
    driver.receive(9, 3)
    assert published(Command, driver.answer(commit, 9)) == []
    told = published(Command, driver.say(phase=NodePhase.OPEN))
    assert [command.kind for command in told] == [CommandKind.CHECKPOINT]


def test_a_node_that_does_not_come_to_read_the_boundary_is_told_to_open() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    _, token, effects = _committed(driver)
    assert published(Command, effects) == []
    assert driver.state.at is State.READY
    limit_ms, waited_ms, told = SPEC.limits.replay_timeout_ms, 0, []
    while waited_ms <= limit_ms + 2_000 and not told:
        waited_ms += 500
        driver.log.now_ms += 500
        told = published(Command, driver.say(step=0, phase=NodePhase.RUNNING, attempt=token, openable=(1,)))
        told += published(Command, driver.tick())
    assert waited_ms >= limit_ms
    assert [(command.kind, command.step) for command in told] == [(CommandKind.OPEN, 1)]


def test_an_attempt_of_an_earlier_step_is_never_taken_for_the_one_that_was_committed() -> None:
    """Only who has written what was committed is as good as in place."""
    driver = CoordinatorDriver()
    driver.in_place()
    work = driver.attempt(8, 2)
    commit = only(CommitStep, driver.write(work))
    driver.receive(9, 3)
    driver.say(step=0, phase=NodePhase.RUNNING, attempt=replace(work.token, attempt=work.token.attempt + 1))
    assert published(Command, driver.answer(commit, 9)) == []
    assert driver.state.at is State.ASSEMBLING
