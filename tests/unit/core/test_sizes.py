"""Another number of nodes than made the log: taken up at once without state, refused with
it; nobody runs by the old one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.coordinator.table import State
from kcontrol.core.events import (
    AddPartitions,
    CancelAttempt,
    EngineOpened,
    Exit,
    OpenEngine,
    PartitionsAdded,
    RunStep,
)
from kcontrol.core.model import (
    SHARED_OUT,
    CheckpointPart,
    CheckpointSpec,
    Command,
    CommandKind,
    Desired,
    DesiredMode,
    NodePhase,
    PipelineSpec,
    Resume,
    Written,
)
from kcontrol.core.step.division import of_size
from tests.unit.core.drive import CoordinatorDriver, NodeDriver, only, published
from tests.unit.core.made import SPEC, boundary, checkpoint
from tests.unit.core.staged import DELIVERED, SHARED
from tests.unit.core.test_node import opened, work_of

ONE = replace(SPEC, stateful=False)
TWO = replace(
    ONE, nodes=2, fingerprint="f2", compatible_with=("f1",), inputs=(replace(SPEC.inputs[0], node_of=(0, 1)),)
)


def grown(spec: PipelineSpec = TWO, steps: int = 3, first: int = 1) -> CoordinatorDriver:
    """The coordinator of a pipeline whose log was made by one node, with older steps dropped."""
    driver = CoordinatorDriver(spec)
    for step in range(first, steps + 1):
        driver.see_step(boundary(step, (4 + step, step - 1), (5 + step, step)))
    driver.take_over()
    return driver


def closed(driver: CoordinatorDriver, number: int, *openable: int) -> tuple[CommandKind, int]:
    """A node joins and says what it can open; what it is told."""
    driver.join(number)
    (command,) = published(Command, driver.say(number, phase=NodePhase.CLOSED, openable=openable))
    return command.kind, command.step


@pytest.mark.parametrize("first", [1, 3])
def test_new_nodes_begin_after_the_last_step(first: int) -> None:
    driver = grown(first=first)
    assert closed(driver, 0, 2, 1) == (CommandKind.CREATE, 3)
    assert closed(driver, 1) == (CommandKind.CREATE, 3)
    driver.say(0)
    driver.say(1)
    assert driver.state.at is State.READY
    driver.receive(0, 6, number=0)
    assert driver.state.at is State.READY
    only(AddPartitions, driver.receive(0, 6, number=1))
    assert driver.state.current.plan is not None
    assert [(piece.from_, piece.to) for piece in driver.state.current.plan.division] == [(8, 8), (3, 6)]


def test_a_node_that_holds_the_last_step_keeps_it() -> None:
    assert closed(grown(), 0, 3, 2) == (CommandKind.OPEN, 3)


def test_steps_of_another_size_are_not_run_again() -> None:
    driver = grown()
    driver.see_step(boundary(4, (8, 3), (9, 4), nodes=2))
    driver.see_step(boundary(5, (9, 4), (10, 5), nodes=2))
    assert closed(driver, 0, 2, 1) == (CommandKind.CREATE, 5)
    assert closed(driver, 1, 4, 3, 2) == (CommandKind.OPEN, 4)


def test_a_lost_disk_costs_no_replay_without_state() -> None:
    assert closed(grown(ONE), 0) == (CommandKind.CREATE, 3)


@pytest.mark.parametrize("desired", [DesiredMode.RUNNING, DesiredMode.PAUSED])
def test_with_state_another_size_is_refused(desired: DesiredMode) -> None:
    driver = grown(replace(TWO, stateful=True))
    driver.see(Desired("p", desired, "r9"))
    assert driver.state.at is State.HALTED
    assert "nodes = 2" in driver.status.reason
    assert "made by 1 nodes up to step 3" in driver.status.reason
    driver.see(Resume("p", "r10"))
    assert driver.state.at is State.HALTED
    driver.see(replace(ONE, stateful=True))
    driver.see(Resume("p", "r11"))
    assert driver.state.at is not State.HALTED


def test_what_a_node_has_to_itself_is_shared_out_in_a_size_in_which_there_is_no_such_node() -> None:
    pinned = replace(
        TWO,
        inputs=(replace(TWO.inputs[0], node_of=(1, 1), node=1),),
        outputs=(replace(TWO.outputs[0], node=1),),
    )
    alone, three = of_size(pinned, 1), of_size(pinned, 3)
    assert (alone.inputs[0].node_of, alone.inputs[0].node, alone.outputs[0].node) == (
        (0, 0),
        SHARED_OUT,
        SHARED_OUT,
    )
    assert (three.inputs[0].node_of, three.outputs[0].node) == ((1, 1), 1)


def test_alone_a_node_exchanges_nothing_and_runs_no_query_that_only_sends() -> None:
    """One whose output is delivered sends, and is a query like others."""
    alone = of_size(replace(DELIVERED, watermarks=SHARED.watermarks), 1)
    assert (alone.queries, alone.exchanges, alone.stages, alone.watermarks) == (("q",), (), (), ())
    assert of_size(DELIVERED, 3).exchanges == DELIVERED.exchanges


def test_before_the_first_step_any_size_will_do() -> None:
    driver = grown(replace(TWO, stateful=True), steps=0)
    assert closed(driver, 1) == (CommandKind.CREATE, 0)


def test_a_plan_of_the_old_size_is_not_carried_out() -> None:
    driver = CoordinatorDriver(ONE)
    driver.in_place()
    only(AddPartitions, driver.receive(9, 3))
    driver.see(TWO)
    assert published(Command, driver.feed(PartitionsAdded(driver.log.now_ms))) == []
    assert driver.state.at is State.FENCING


def test_a_checkpoint_of_the_old_size_is_not_recorded() -> None:
    policy = CheckpointSpec("file:///c", 3_000, 2, 1)
    driver = CoordinatorDriver(replace(ONE, checkpoint=policy, stateful=True))
    driver.see_step(boundary(1))
    driver.take_over()
    driver.join()
    driver.say()
    assert [one.kind for one in published(Command, driver.tick(3_000))] == [CommandKind.CHECKPOINT]
    driver.say()
    command = driver.state.nodes.commands[0]
    part = CheckpointPart(
        "p", 0, driver.incarnations[0], command.claim_epoch, command.serial, 1, "m", 1, 1, ""
    )
    only(AddPartitions, driver.see(part))
    driver.see(replace(TWO, checkpoint=policy, stateful=True))
    driver.feed(PartitionsAdded(driver.log.now_ms))
    assert driver.state.at is State.FENCING
    driver.ready()
    assert driver.state.checkpointing.saving is None
    assert "definition was changed" in driver.status.checkpoint_failure


def test_a_checkpoint_has_no_part_for_a_node_that_came_later() -> None:
    driver = grown()
    driver.see_step(checkpoint(3, 1))
    assert closed(driver, 1) == (CommandKind.CREATE, 3)


# --- the node -----------------------------------------------------------------------------------------------


def test_a_node_creates_after_the_step_that_it_is_told() -> None:
    driver = NodeDriver(ONE)
    for step in (1, 2, 3):
        driver.see_step(boundary(step, (4 + step, step - 1), (5 + step, step)))
    driver.joined(2, 1)
    assert only(OpenEngine, driver.command(CommandKind.CREATE, 3)) == OpenEngine(3, True)
    assert driver.state.openable == ()
    driver.feed(EngineOpened(3, driver.log.now_ms))
    assert (driver.state.at, driver.state.step, driver.state.openable) == ("idle", 3, (3,))
    assert only(RunStep, driver.command(CommandKind.STEP, 4, work_of(driver, 4))).expected is None


def test_an_attempt_that_was_not_the_one_is_taken_back_and_not_created_anew() -> None:
    driver = NodeDriver(ONE)
    driver.see_step(boundary(1))
    driver.joined()
    driver.command(CommandKind.CREATE, 1)
    driver.feed(EngineOpened(1, driver.log.now_ms))
    driver.command(CommandKind.STEP, 2, work_of(driver, 2))
    assert only(OpenEngine, driver.see_step(boundary(2, (6, 1), (7, 2)))) == OpenEngine(1, False)


def test_a_node_ends_when_another_definition_is_submitted() -> None:
    driver = NodeDriver(ONE)
    driver.joined()
    opened(driver)
    driver.command(CommandKind.STEP, 1, work_of(driver, 1))
    assert driver.see(replace(ONE, policy=replace(ONE.policy, max_records=5))) == []
    effects = driver.see(TWO)
    only(CancelAttempt, effects)
    ended = only(Exit, effects)
    assert not ended.replaced
    assert "to nodes = 2" in ended.reason
    assert published(Written, effects) == []


def test_a_node_goes_by_the_definition_that_it_found() -> None:
    driver = NodeDriver(ONE)
    driver.see(TWO)
    driver.joined()
    assert driver.see(TWO) == []
    assert only(Exit, driver.see(ONE)).replaced is False


def test_a_node_does_not_run_again_what_another_number_of_nodes_made() -> None:
    """The log of steps may tell it of the change before the control log does."""
    driver = NodeDriver(ONE)
    driver.joined()
    opened(driver)
    effects = driver.see_step(boundary(1, nodes=2))
    assert [effect for effect in effects if isinstance(effect, RunStep)] == []
    assert "step 1 was made by 2 nodes, not 1" in only(Exit, effects).reason
