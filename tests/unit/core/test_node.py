"""The node, event by event: whom it obeys, what it does with boundaries in any order, and what it says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kcontrol.core.events import (
    AttemptWritten,
    CancelAttempt,
    EngineFailed,
    EngineOpened,
    Exit,
    FinishStep,
    InputArrived,
    Joined,
    OpenEngine,
    RunStep,
    StepFinished,
)
from kcontrol.core.model import (
    AgentPlacement,
    CommandKind,
    FailureKind,
    InputRange,
    Layout,
    NodeJoin,
    NodePhase,
    NodeState,
    OutputLayout,
    Reason,
    Received,
    ReceivedPartition,
    Replaying,
    StepResult,
    StepWork,
    Token,
    Tombstone,
    Written,
)
from kcontrol.core.node.announce import FINISHED_WAITS_MS
from kcontrol.core.node.table import NodeStage
from tests.unit.core.drive import NodeDriver, only, published
from tests.unit.core.made import SPEC, boundary, checkpoint

RESULT = StepResult(boundary(1).inputs, (), (), True)


def work_of(driver: NodeDriver, step: int, attempt: int = 1) -> StepWork:
    token = Token(driver.epoch, attempt, 7, attempt, (driver.incarnation,))
    division = (InputRange("in", "input", "T1", 0, 5, 6), InputRange("in", "input", "T1", 1, 0, 1))
    return StepWork(step, token, "kcontrol.p", 5_000, Reason.RECORDS, division, Layout((), 1, ()), ((0, 1),))


def states(effects: list[Any]) -> list[NodeState]:
    return published(NodeState, effects)


def opened(driver: NodeDriver, step: int = 0) -> list[Any]:
    driver.command(CommandKind.OPEN if step else CommandKind.CREATE, step)
    return driver.feed(EngineOpened(step, driver.log.now_ms))


def writing(driver: NodeDriver, step: int = 1) -> StepWork:
    work = work_of(driver, step)
    assert only(RunStep, driver.command(CommandKind.STEP, step, work)) == RunStep(work, None)
    return work


def written(driver: NodeDriver, step: int = 1) -> StepWork:
    work = writing(driver, step)
    driver.feed(AttemptWritten(step, RESULT, driver.log.now_ms))
    return work


def test_a_node_says_what_it_can_open_and_waits_to_be_told() -> None:
    driver = NodeDriver()
    state = states(driver.joined(4, 3))[0]
    assert (state.phase, state.openable, state.incarnation, state.claim_epoch) == (
        NodePhase.CLOSED,
        (4, 3),
        driver.incarnation,
        driver.epoch,
    )
    assert only(OpenEngine, driver.command(CommandKind.OPEN, 3)) == OpenEngine(3, False)


def test_an_opening_is_acknowledged_when_it_is_done() -> None:
    driver = NodeDriver()
    driver.joined()
    assert only(OpenEngine, driver.command(CommandKind.CREATE, 0)) == OpenEngine(0, True)
    assert states(driver.tick(1_000))[0].command_serial == -1
    state = states(driver.feed(EngineOpened(0, driver.log.now_ms)))[0]
    assert (state.phase, state.step, state.command_epoch, state.command_serial) == (
        NodePhase.OPEN,
        0,
        driver.epoch,
        1,
    )


def test_an_attempt_from_the_command_to_the_next_step() -> None:
    driver = NodeDriver()
    driver.joined()
    opened(driver)
    work = work_of(driver, 1)
    driver.command(CommandKind.STEP, 1, work)
    effects = driver.feed(AttemptWritten(1, RESULT, driver.log.now_ms))
    state = states(effects)[0]
    assert (state.phase, state.attempt, state.command_serial, state.step) == (
        NodePhase.RUNNING,
        work.token,
        2,
        0,
    )
    report = published(Written, effects)[0]
    assert (report.token, report.step, report.inputs, report.watermark_moved, report.failure) == (
        work.token,
        1,
        RESULT.inputs,
        True,
        None,
    )
    assert only(FinishStep, driver.see_step(boundary(1, token=work.token))) == FinishStep(1)
    driver.feed(StepFinished(1, (1,), driver.log.now_ms))
    state = states(driver.tick(FINISHED_WAITS_MS))[0]
    assert (state.phase, state.step, state.attempt, state.openable) == (NodePhase.OPEN, 1, None, (1,))


@pytest.mark.parametrize("at", ["writing", "written"])
def test_the_boundary_of_another_attempt_takes_the_own_one_back(at: str) -> None:
    driver = NodeDriver()
    driver.joined()
    opened(driver)
    (writing if at == "writing" else written)(driver)
    other = boundary(1, token=Token(9, 9, 9, 9, (9,)))
    assert driver.see_step(other)[:2] == [CancelAttempt(), OpenEngine(0, True)]
    if at == "writing":
        assert driver.feed(EngineFailed(FailureKind.LOST, "cancelled", driver.log.now_ms)) == []
    effects = driver.feed(EngineOpened(0, driver.log.now_ms))
    assert only(RunStep, effects).expected == other
    assert only(RunStep, effects).work.token == other.token
    assert published(Replaying, effects)[0].step == 1


def test_a_node_replays_by_itself_what_it_lacks() -> None:
    driver = NodeDriver()
    for step in (1, 2, 3):
        driver.see_step(boundary(step, (4 + step, step - 1), (5 + step, step)))
    driver.joined(1)
    effects = opened(driver, 1)
    for step in (2, 3):
        run = only(RunStep, effects)
        assert run.expected is not None
        assert (run.work.step, run.expected.step, run.work.now_ms) == (step, step, 1_000 + step)
        assert driver.feed(AttemptWritten(step, RESULT, driver.log.now_ms))[0] == FinishStep(step)
        effects = driver.feed(StepFinished(step, (step, 1), driver.log.now_ms))
    assert driver.state.at is NodeStage.IDLE
    assert states(effects)[-1].step == 3
    assert not published(Written, effects)


def test_a_replay_writes_to_the_partitions_that_the_step_had_however_many_the_topic_has_now() -> None:
    driver = NodeDriver()
    made = replace(boundary(1), layout=Layout((), 1, (OutputLayout("out", 2, 1, "exact"),)))
    driver.see_step(made)
    [output] = SPEC.outputs
    driver.see(replace(SPEC, outputs=(replace(output, partitions=6), replace(output, name="added since"))))
    driver.joined()
    assert only(RunStep, opened(driver)).work.writers == ((0, 1), ())


def test_a_failed_attempt_is_reported_and_leaves_the_node_closed() -> None:
    driver = NodeDriver()
    driver.joined()
    opened(driver)
    work = writing(driver)
    error = "step 1, query 'q': boom"
    effects = driver.feed(EngineFailed(FailureKind.QUERY, error, driver.log.now_ms))
    report = published(Written, effects)[0]
    assert (report.token, report.failure, report.error, report.outputs) == (
        work.token,
        FailureKind.QUERY,
        error,
        (),
    )
    assert states(effects)[0].phase is NodePhase.CLOSED
    assert states(effects)[0].error == "step 1: query 'q': boom"


def test_a_written_attempt_stands_though_the_engine_fails_after_it() -> None:
    driver = NodeDriver()
    driver.joined()
    opened(driver)
    written(driver)
    effects = driver.feed(EngineFailed(FailureKind.LOST, "gone", driver.log.now_ms))
    assert not published(Written, effects)
    assert states(effects)[0].phase is NodePhase.CLOSED


def test_a_node_whose_engine_failed_says_what_can_be_opened_now() -> None:
    driver = NodeDriver()
    driver.joined()
    opened(driver)
    work = written(driver)
    driver.see_step(boundary(1, token=work.token))
    driver.feed(StepFinished(1, (1,), driver.log.now_ms))
    writing(driver, 2)
    effects = driver.feed(EngineFailed(FailureKind.LOST, "gone", driver.log.now_ms, openable=()))
    assert states(effects)[-1].openable == ()


@pytest.mark.parametrize("kind", [FailureKind.DIGEST, FailureKind.INPUT_GONE])
def test_a_replay_that_disagrees_needs_a_person(kind: FailureKind) -> None:
    driver = NodeDriver()
    driver.see_step(boundary(1))
    driver.joined()
    opened(driver)
    state = states(driver.feed(EngineFailed(kind, "expected 1, found 2", driver.log.now_ms)))[0]
    assert (state.phase, state.error) == (NodePhase.FAILED, "step 1: expected 1, found 2")
    assert only(OpenEngine, driver.command(CommandKind.CREATE, 0)) == OpenEngine(0, True)


def replaying(first: int = 0) -> NodeDriver:
    """A node that was opened at step 1 and runs step 2 again. first: of the checkpoint of step 3 that it has read, if not 0."""
    driver = NodeDriver()
    for step in (1, 2, 3):
        driver.see_step(boundary(step, (4 + step, step - 1), (5 + step, step)))
    if first:
        driver.see_step(replace(checkpoint(3, 1), first_step=first))
    driver.joined(1)
    opened(driver, 1)
    assert driver.state.at is NodeStage.REPLAYING
    return driver


@pytest.mark.parametrize(("first", "phase"), [(2, NodePhase.FAILED), (3, NodePhase.CLOSED)])
@pytest.mark.parametrize("late", [False, True])
def test_what_the_log_has_dropped_need_not_be_there(first: int, phase: NodePhase, late: bool) -> None:
    """An old end of the log had it opened before a checkpoint for which the rows of step 2 were deleted, and it reads of that
    before it fails or after."""
    driver = replaying(0 if late else first)
    said = states(driver.feed(EngineFailed(FailureKind.INPUT_GONE, "gone", driver.log.now_ms)))
    if late:
        assert said[-1].phase is NodePhase.FAILED
        said = states(driver.see_step(replace(checkpoint(3, 1), first_step=first)))
    assert (said[-1].phase, said[-1].error, said[-1].checkpoint) == (phase, "step 2: gone", 3)
    assert only(OpenEngine, driver.command(CommandKind.OPEN, 3)).step == 3


def test_a_replay_that_disagrees_stays_failed_whatever_the_log_drops() -> None:
    driver = replaying()
    driver.feed(EngineFailed(FailureKind.DIGEST, "expected 1, found 2", driver.log.now_ms))
    [said] = states(driver.see_step(replace(checkpoint(3, 1), first_step=3)))
    assert said.phase is NodePhase.FAILED


def test_nothing_of_an_older_coordinator_is_begun_once_a_newer_is_known() -> None:
    driver = NodeDriver()
    driver.joined()
    opened(driver)
    old = driver.epoch
    assert states(driver.claim())[0].claim_epoch == driver.epoch
    assert driver.command(CommandKind.STEP, 1, work_of(driver, 1), claim_epoch=old, serial=99) == []
    assert driver.command(CommandKind.CREATE, 0)[0] == OpenEngine(0, True)


def test_commands_for_another_incarnation_or_carried_out_before_are_ignored() -> None:
    driver = NodeDriver()
    driver.joined()
    assert driver.command(CommandKind.CREATE, 0, incarnation=driver.incarnation + 1) == []
    opened(driver)
    assert driver.command(CommandKind.CREATE, 0, serial=driver.serial) == []
    assert driver.command(CommandKind.CREATE, 0, serial=1) == []


def test_a_step_is_begun_only_where_the_node_and_the_log_are() -> None:
    driver = NodeDriver()
    driver.joined()
    opened(driver)
    assert driver.command(CommandKind.STEP, 2, work_of(driver, 2)) == []
    driver.see_step(boundary(1))
    assert driver.state.at is NodeStage.REPLAYING
    driver.feed(AttemptWritten(1, RESULT, driver.log.now_ms))
    effects = driver.feed(StepFinished(1, (1,), driver.log.now_ms))
    assert only(RunStep, effects).work.step == 2


def test_later_steps_can_not_be_opened_after_a_rollback() -> None:
    driver = NodeDriver()
    for step in (1, 2):
        driver.see_step(boundary(step, (4 + step, step - 1), (5 + step, step)))
    driver.joined(2, 1)
    state = states(opened(driver, 1))[0]
    assert state.openable == (1,)


@pytest.mark.parametrize("openable", [(), (1,)])
def test_a_newer_incarnation_ends_this_one(openable: tuple[int, ...]) -> None:
    driver = NodeDriver()
    driver.joined(*openable)
    effects = driver.see(NodeJoin("p", 0, "newer", "host", 3))
    assert only(Exit, effects).replaced
    assert driver.tick(5_000) == []


def test_an_incarnation_that_was_replaced_before_it_began_ends() -> None:
    driver = NodeDriver()
    driver.see(NodeJoin("p", 0, "newer", "host", 3))
    assert only(
        Exit, driver.feed(Joined(driver.incarnation, (), driver.log.now_ms, driver.log.wall_ms))
    ).replaced


PLACED = AgentPlacement(1, 20)


@pytest.mark.parametrize(
    ("other", "replaced"),
    [
        (AgentPlacement(1, 19), False),
        (AgentPlacement(1, 20), True),
        (AgentPlacement(1, 21), True),
        (AgentPlacement(2, 3), True),
        (None, True),
    ],
)
def test_a_process_of_an_older_placement_replaces_nobody(
    other: AgentPlacement | None, replaced: bool
) -> None:
    driver = NodeDriver(placement=PLACED)
    driver.joined()
    effects = driver.see(NodeJoin("p", 0, "other", "host", 3, placement=other))
    assert any(isinstance(one, Exit) and one.replaced for one in effects) is replaced


@pytest.mark.parametrize("before", [AgentPlacement(1, 21), AgentPlacement(2, 0)])
def test_a_process_of_an_older_placement_ends_where_a_newer_one_has_joined(before: AgentPlacement) -> None:
    driver = NodeDriver(placement=PLACED, before=(NodeJoin("p", 0, "newer", "host", 3, placement=before),))
    joined = Joined(driver.incarnation, (), driver.log.now_ms, driver.log.wall_ms)
    assert only(Exit, driver.feed(joined)).replaced


def test_the_state_is_repeated_every_second_and_no_two_are_equal() -> None:
    driver = NodeDriver()
    first = states(driver.joined())[0]
    assert driver.tick(999) == []
    second = states(driver.tick(1))[0]
    assert second.beat > first.beat
    assert replace(second, beat=first.beat) == first


def arrived(driver: NodeDriver, end: int, topic_id: str = "T1", earliest: int = 0) -> list[Any]:
    seen = (ReceivedPartition(0, topic_id, earliest, end), ReceivedPartition(1, topic_id, 0, 3))
    return driver.feed(InputArrived("in", seen, 100, driver.log.now_ms))


def test_received_input_is_said_when_it_grows_and_every_five_seconds() -> None:
    driver = NodeDriver()
    driver.joined()
    assert published(Received, arrived(driver, 8)) == []
    received = published(Received, opened(driver))[0]
    assert (received.step, received.records, received.size_bytes) == (1, 6, 100)
    assert published(Received, arrived(driver, 8)) == []
    assert published(Received, arrived(driver, 7)) == []
    assert published(Received, arrived(driver, 9))[0].partitions[0].to == 9
    assert published(Received, arrived(driver, 2, "T9", 1))[0].partitions[0] == ReceivedPartition(
        0, "T9", 1, 2
    )
    assert published(Received, driver.tick(5_000))[0].input == "in"


def test_input_is_not_said_while_the_node_is_behind() -> None:
    driver = NodeDriver()
    driver.see_step(boundary(1))
    driver.joined()
    effects = opened(driver)
    assert published(Replaying, effects)
    assert published(Received, effects + arrived(driver, 9)) == []
    driver.feed(AttemptWritten(1, RESULT, driver.log.now_ms))
    received = published(Received, driver.feed(StepFinished(1, (1,), driver.log.now_ms)))[0]
    assert (received.step, received.records) == (2, 5)


def test_a_step_whose_boundary_is_no_longer_in_the_log_can_not_be_replayed() -> None:
    driver = NodeDriver()
    driver.see_step(boundary(4))
    driver.joined()
    state = states(opened(driver))[0]
    assert state.phase is NodePhase.FAILED
    assert "step 1 is no longer in the log" in state.error


def test_a_node_that_has_dropped_a_boundary_reads_the_log_again_in_a_new_process() -> None:
    driver = NodeDriver()
    for step in (1, 2, 3):
        driver.see_step(boundary(step, (4 + step, step - 1), (5 + step, step)))
    driver.joined(3)
    leaving = only(Exit, opened(driver))
    assert not leaving.replaced
    assert "must read the log of pipeline p again" in leaving.reason


def test_tombstones_of_old_steps_change_nothing() -> None:
    driver = NodeDriver()
    driver.see_step(boundary(1))
    driver.joined(1)
    driver.feed(driver.log.next_step(Tombstone("step/1")))
    assert driver.state.steps.step == 1
    assert driver.state.steps.next_from == {("in", 0): 6, ("in", 1): 1}
