"""Where answers to commits tell the next epoch, nodes are given the next step while the last one is being committed; and what
was told is made as it was told, or never under that epoch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.coordinator import telling
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
    Desired,
    DesiredMode,
    FailureKind,
    NodePhase,
    PipelineSpec,
    Reason,
    Status,
    StepWork,
)
from tests.unit.core.drive import CoordinatorDriver, only, published
from tests.unit.core.made import SPEC

EPOCH = 9


def shown(effects: list[object]) -> StepWork:
    (command,) = published(Command, effects)
    assert command.kind is CommandKind.STEP
    assert command.work is not None
    return command.work


def committing(spec: PipelineSpec = SPEC) -> tuple[CoordinatorDriver, CommitStep]:
    """Step 2 is being committed, under an epoch that the answer to step 1 told."""
    driver = CoordinatorDriver(spec)
    driver.in_place()
    first = only(CommitStep, driver.write(driver.attempt(8, 2)))
    assert published(Command, driver.tick()) == [], "whether Kafka tells epochs is not known"
    driver.receive(9, 3)
    work = shown(driver.answer(first, EPOCH))
    driver.say(phase=NodePhase.RUNNING, attempt=work.token)
    driver.feed(PartitionsAdded(driver.log.now_ms))
    return driver, only(CommitStep, driver.write(work))


def told(spec: PipelineSpec = SPEC) -> tuple[CoordinatorDriver, CommitStep, StepWork]:
    """And the node is told step 3 meanwhile."""
    driver, commit = committing(spec)
    driver.receive(15, 10)
    return driver, commit, shown(driver.tick())


def test_what_comes_next_is_told_while_the_commit_is_under_way() -> None:
    driver, commit, work = told()
    assert (work.step, work.token.producer_epoch, work.reason) == (3, EPOCH + 1, Reason.RECORDS)
    assert [part.from_ for part in work.division] == [9, 3]
    assert sum(part.to - part.from_ for part in work.division) == SPEC.policy.max_records
    assert published(Command, driver.tick()) == []
    effects = driver.answer(commit, EPOCH + 1)
    assert only(AddPartitions, effects).producer_epoch == EPOCH + 1
    assert published(Command, effects) == []
    assert published(Command, driver.feed(PartitionsAdded(driver.log.now_ms))) == []
    assert driver.state.at is State.ATTEMPTING
    driver.say(phase=NodePhase.RUNNING, attempt=work.token)
    boundary = only(CommitStep, driver.write(work)).boundary
    assert (boundary.step, boundary.token) == (3, work.token)
    assert boundary.received_ms > 0


def made_with_a_backlog(took_ms: int = 300) -> tuple[CoordinatorDriver, StepWork]:
    """Step 2 is under way, more waits than a step may read, and the last one took so long."""
    driver = CoordinatorDriver()
    driver.in_place()
    work = driver.attempt(8, 2)
    driver.log.now_ms += took_ms
    first = only(CommitStep, driver.write(work))
    driver.receive(90, 30)
    work = shown(driver.answer(first, EPOCH))
    driver.feed(PartitionsAdded(driver.log.now_ms))
    return driver, work


def test_a_step_that_can_not_hold_more_is_told_while_the_one_before_is_made() -> None:
    driver, work = made_with_a_backlog()
    assert published(Command, driver.tick()) == [], "it may not have read the last command"
    driver.say(step=1, phase=NodePhase.RUNNING, attempt=work.token)
    following = shown(driver.tick())
    assert (following.step, following.token.producer_epoch) == (3, EPOCH + 1)
    assert [part.from_ for part in following.division] == [part.to for part in work.division]
    assert sum(part.to - part.from_ for part in following.division) == SPEC.policy.max_records
    commit = only(CommitStep, driver.write(work))
    assert published(Command, driver.tick()) == []
    effects = driver.answer(commit, EPOCH + 1)
    assert published(Command, effects) == []
    driver.feed(PartitionsAdded(driver.log.now_ms))
    driver.say(phase=NodePhase.RUNNING, attempt=following.token)
    assert only(CommitStep, driver.write(following)).boundary.step == 3


def test_where_steps_are_long_what_comes_next_is_told_when_one_is_written() -> None:
    driver, work = made_with_a_backlog(telling.SHORT_MS + 1)
    assert published(Command, driver.tick()) == []
    driver.say(step=1, phase=NodePhase.RUNNING, attempt=work.token)
    only(CommitStep, driver.write(work))
    assert shown(driver.tick()).step == 3


def test_a_node_that_drops_an_attempt_is_noticed_though_it_was_told_what_comes_next() -> None:
    driver, work = made_with_a_backlog()
    driver.say(step=1, phase=NodePhase.RUNNING, attempt=work.token)
    shown(driver.tick())
    serial = driver.state.nodes.serial - 1
    only(InitProducer, driver.say(step=1, phase=NodePhase.OPEN, command_serial=serial))
    assert driver.state.current.told is None


def test_it_is_made_as_it_was_told_whatever_has_come_since() -> None:
    driver, commit, work = told()
    driver.receive(30, 20)
    driver.answer(commit, EPOCH + 1)
    driver.feed(PartitionsAdded(driver.log.now_ms))
    driver.say(phase=NodePhase.RUNNING, attempt=work.token)
    boundary = only(CommitStep, driver.write(work)).boundary
    told_of = [(part.from_, part.to) for part in work.division]
    assert [(piece.from_, piece.to) for piece in boundary.inputs] == told_of


def test_a_node_may_be_at_it_before_the_commit_is_known_here() -> None:
    driver, commit, work = told()
    driver.say(step=2, phase=NodePhase.RUNNING, attempt=work.token)
    driver.write(work)
    only(AddPartitions, driver.answer(commit, EPOCH + 1))
    assert only(CommitStep, driver.feed(PartitionsAdded(driver.log.now_ms))).boundary.token == work.token


def test_nothing_is_told_of_a_step_that_could_hold_more() -> None:
    driver, commit = committing()
    driver.receive(10, 3)
    assert published(Command, driver.tick()) == []
    driver.receive(12, 3)
    work = shown(driver.answer(commit, EPOCH + 1))
    assert [(part.from_, part.to) for part in work.division] == [(9, 12), (3, 3)]


def test_nothing_is_told_of_what_nobody_needs() -> None:
    driver, commit = committing()
    assert published(Command, driver.tick()) == []
    assert published(Command, driver.answer(commit, EPOCH + 1)) == []


@pytest.mark.parametrize("mode", [DesiredMode.PAUSED, DesiredMode.STOPPED])
def test_nothing_is_told_to_who_is_not_to_go_on(mode: DesiredMode) -> None:
    driver, _ = committing()
    driver.receive(15, 10)
    driver.see(Desired("p", mode, "r1"))
    assert published(Command, driver.tick()) == []


def test_nothing_is_told_where_a_checkpoint_comes_first() -> None:
    spec = replace(SPEC, checkpoint=CheckpointSpec("file:///saved", 60_000, 2, -1))
    driver, _ = committing(spec)
    driver.receive(15, 10)
    driver.say(step=1, phase=NodePhase.RUNNING, attempt=driver.state.current.attempt.token)  # type: ignore[union-attr]
    assert published(Command, driver.tick(after_ms=60_000)) == []


def test_nothing_is_told_under_the_last_epochs_of_a_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telling, "LAST_EPOCH", EPOCH)
    driver, _ = committing()
    driver.receive(15, 10)
    assert published(Command, driver.tick()) == []


def taken_back(driver: CoordinatorDriver, work: StepWork) -> None:
    """After the epoch was given up the node opens the last step that is in the log, and the next one is made under another."""
    assert driver.state.current.told is None
    effects = driver.say(step=2, phase=NodePhase.RUNNING, attempt=work.token, openable=(2,))
    assert [(each.kind, each.step) for each in published(Command, effects)] == [(CommandKind.OPEN, 2)]
    only(AddPartitions, driver.say(step=2, openable=(2,)))
    again = shown(driver.feed(PartitionsAdded(driver.log.now_ms)))
    assert (again.step, again.token.producer_epoch) == (3, driver.producer_epoch)


def test_if_the_answer_tells_another_epoch_the_one_that_was_told_is_given_up() -> None:
    driver, commit, work = told()
    effects = driver.answer(commit, EPOCH + 2)
    only(InitProducer, effects)
    assert published(Command, effects) == []
    driver.producer_epoch = EPOCH + 2
    driver.ready()
    taken_back(driver, work)


def test_if_a_node_is_another_one_since_the_epoch_that_was_told_is_given_up() -> None:
    driver, commit, _ = told()
    driver.join()
    effects = driver.answer(commit, EPOCH + 1)
    only(InitProducer, effects)
    assert published(Command, effects) == []


def test_if_the_definition_is_another_one_since_the_epoch_that_was_told_is_given_up() -> None:
    driver, commit, _ = told()
    driver.see(replace(SPEC, policy=replace(SPEC.policy, max_records=3)))
    only(InitProducer, driver.answer(commit, EPOCH + 1))


def test_what_was_told_is_taken_back_if_the_commit_fails() -> None:
    driver, commit, work = told()
    driver.feed(TransactionFailed(FailureKind.BROKER, "away", driver.log.now_ms))
    only(InitProducer, driver.tick(after_ms=60_000))
    driver.log.steps_end = commit.expected_offset
    driver.see_step(commit.boundary)  # It was committed, and nobody heard.
    driver.producer_epoch = EPOCH + 1
    driver.ready()
    taken_back(driver, work)


def test_a_pause_that_is_wanted_when_it_was_told_comes_after_it() -> None:
    driver, commit, work = told()
    driver.see(Desired("p", DesiredMode.PAUSED, "r1"))
    only(AddPartitions, driver.answer(commit, EPOCH + 1))
    driver.feed(PartitionsAdded(driver.log.now_ms))
    driver.say(phase=NodePhase.RUNNING, attempt=work.token)
    last = only(CommitStep, driver.write(work))
    assert published(Command, driver.tick()) == []
    effects = driver.answer(last, EPOCH + 2)
    assert driver.state.at is State.PAUSED
    assert [each.phase.value for each in published(Status, effects)] == ["paused"]
