"""Checkpoints, as a node takes part in them: what it pins, what it says of its part, and what it could
open."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kcontrol.core.events import (
    DropParts,
    EngineFailed,
    EngineOpened,
    Joined,
    OpenEngine,
    PartSaved,
    PinStep,
    RunStep,
    SavePart,
    StepPinned,
)
from kcontrol.core.model import (
    Checkpoint,
    CheckpointPart,
    CheckpointSpec,
    CommandKind,
    FailureKind,
    Layout,
    NodePhase,
    NodeState,
    Reason,
    SavedFiles,
    StepWork,
    Token,
    Tombstone,
)
from kcontrol.core.node.table import NodeStage
from tests.unit.core.drive import NodeDriver, only, published
from tests.unit.core.made import SPEC, boundary, checkpoint

SAVED = SavedFiles("file:///c/3/manifest", 4, 500)


def idle(step: int = 3) -> NodeDriver:
    """A node that is open at the last of so many steps."""
    driver = NodeDriver(replace(SPEC, checkpoint=CheckpointSpec("file:///c", 3_000, 2, -1)))
    driver.joined(*range(step, 0, -1))
    logged(driver, step)
    driver.command(CommandKind.OPEN, step)
    driver.feed(EngineOpened(step, driver.log.now_ms))
    return driver


def logged(driver: NodeDriver, steps: int, saved: tuple[int, ...] = ()) -> None:
    for step in range(1, steps + 1):
        driver.see_step(boundary(step, (4 + step, step - 1), (5 + step, step)))
        if step in saved:
            driver.see_step(checkpoint(step, 1))


def pinned(driver: NodeDriver, error: str = "") -> list[Any]:
    assert only(PinStep, driver.command(CommandKind.CHECKPOINT, 3)) == PinStep(3)
    return driver.feed(StepPinned(3, error, driver.log.now_ms))


def parts(effects: list[Any]) -> list[CheckpointPart]:
    return published(CheckpointPart, effects)


def saved(
    driver: NodeDriver, serial: int, files: SavedFiles | None = SAVED, error: str = ""
) -> list[CheckpointPart]:
    return parts(driver.feed(PartSaved(driver.epoch, serial, files, error, driver.log.now_ms)))


def openable(effects: list[Any]) -> tuple[int, ...]:
    return published(NodeState, effects)[-1].openable


def test_a_step_is_pinned_acknowledged_saved_and_told_of() -> None:
    driver = idle()
    effects = pinned(driver)
    said = published(NodeState, effects)[0]
    assert (said.command_epoch, said.command_serial, said.phase) == (driver.epoch, 2, NodePhase.OPEN)
    assert only(SavePart, effects) == SavePart(3, driver.epoch, 2, "file:///c")
    assert saved(driver, 2) == [
        CheckpointPart("p", 0, driver.incarnation, driver.epoch, 2, 3, "file:///c/3/manifest", 4, 500, "")
    ]
    assert saved(driver, 2) == []


def test_a_pin_is_acknowledged_only_when_it_is_there() -> None:
    driver = idle()
    driver.command(CommandKind.CHECKPOINT, 3)
    assert published(NodeState, driver.tick(1_000))[0].command_serial == 1


def test_the_next_step_begins_when_the_pin_is_there() -> None:
    driver = idle()
    driver.command(CommandKind.CHECKPOINT, 3)
    work = StepWork(
        4,
        Token(driver.epoch, 1, 7, 1, (driver.incarnation,)),
        "t",
        9_000,
        Reason.RECORDS,
        (),
        Layout((), 1, ()),
        (),
    )
    assert driver.command(CommandKind.STEP, 4, work) == []
    effects = driver.feed(StepPinned(3, "", driver.log.now_ms))
    assert only(RunStep, effects) == RunStep(work, None)
    assert only(SavePart, effects).step == 3
    assert [one.step for one in saved(driver, 2)] == [3]


def test_what_can_not_be_pinned_or_saved_is_told_with_the_reason() -> None:
    driver = idle()
    effects = pinned(driver, "disk full")
    assert [(one.step, one.error, one.manifest) for one in parts(effects)] == [(3, "disk full", "")]
    assert not [one for one in effects if isinstance(one, SavePart)]
    driver = idle()
    pinned(driver)
    assert [(one.step, one.error) for one in saved(driver, 2, None, "no such bucket")] == [
        (3, "no such bucket")
    ]


def test_only_the_step_that_is_held_is_saved() -> None:
    driver = idle()
    effects = driver.command(CommandKind.CHECKPOINT, 2)
    assert [one.error for one in parts(effects)] == ["it was idle at step 3 when asked to save step 2"]
    assert published(NodeState, effects)[0].command_serial == 2
    driver.feed(EngineFailed(FailureKind.LOST, "gone", driver.log.now_ms))
    assert [one.error for one in parts(driver.command(CommandKind.CHECKPOINT, 3))] == [
        "it was closed at step 3 when asked to save step 3"
    ]


def test_what_was_saved_for_an_earlier_command_is_not_taken_for_a_later_one() -> None:
    driver = idle()
    pinned(driver)
    pinned(driver)
    assert saved(driver, 2) == []
    assert [one.command_serial for one in saved(driver, 3)] == [3]


def test_an_engine_that_fails_while_it_pins_has_no_part() -> None:
    driver = idle()
    driver.command(CommandKind.CHECKPOINT, 3)
    effects = driver.feed(EngineFailed(FailureKind.LOST, "gone", driver.log.now_ms))
    assert [one.error for one in parts(effects)] == ["gone"]
    assert driver.state.at is NodeStage.CLOSED


def test_a_pin_that_was_overtaken_by_an_opening_saves_nothing() -> None:
    driver = idle()
    driver.command(CommandKind.CHECKPOINT, 3)
    driver.command(CommandKind.OPEN, 3)
    assert driver.feed(StepPinned(3, "", driver.log.now_ms)) == []
    driver.feed(EngineOpened(3, driver.log.now_ms))
    assert only(SavePart, pinned(driver)).command_serial == 4


# --- what it could open -------------------------------------------------------------------------------------


def joined(driver: NodeDriver, own: tuple[int, ...], restorable: tuple[int, ...]) -> list[Any]:
    return driver.feed(Joined(driver.incarnation, own, driver.log.now_ms, driver.log.wall_ms, restorable))


def test_a_node_can_open_its_own_steps_and_the_checkpoints_that_it_can_read() -> None:
    driver = NodeDriver()
    logged(driver, 6, saved=(2, 4, 5))
    effects = joined(driver, own=(6, 5), restorable=(2, 5))
    assert openable(effects) == (6, 5, 2)
    assert published(NodeState, effects)[-1].checkpoint == 5


def test_a_checkpoint_without_a_part_of_this_node_is_of_no_use_to_it() -> None:
    driver = NodeDriver()
    logged(driver, 3)
    driver.see_step(replace(checkpoint(3, 1), parts=(replace(checkpoint(3, 1).parts[0], node=1),)))
    assert openable(joined(driver, own=(), restorable=(3,))) == ()


def test_an_empty_disk_is_filled_from_the_checkpoint() -> None:
    driver = NodeDriver()
    logged(driver, 3, saved=(2,))
    joined(driver, own=(), restorable=(2,))
    assert only(OpenEngine, driver.command(CommandKind.OPEN, 2)) == OpenEngine(2, False, checkpoint(2, 1))
    assert only(RunStep, driver.feed(EngineOpened(2, driver.log.now_ms))).work.step == 3


def test_a_log_that_begins_with_a_later_step_is_replayed_from_the_checkpoint() -> None:
    driver = NodeDriver()
    for step in (7, 8, 9):
        driver.see_step(boundary(step, (4 + step, step - 1), (5 + step, step)))
        if step == 8:
            driver.see_step(checkpoint(7, 1))
    assert openable(joined(driver, own=(), restorable=(7,))) == (7,)
    driver.command(CommandKind.OPEN, 7)
    assert only(RunStep, driver.feed(EngineOpened(7, driver.log.now_ms))).work.step == 8


@pytest.mark.parametrize("dropped", [1, 2])
def test_new_checkpoints_can_be_opened_and_dropped_ones_can_not_and_lose_their_files(dropped: int) -> None:
    driver = NodeDriver()
    logged(driver, 3, saved=(1, 2))
    effects = joined(driver, own=(), restorable=(1, 2))
    assert only(DropParts, effects) == DropParts((checkpoint(1, 1), checkpoint(2, 1)))
    assert openable(driver.see_step(checkpoint(3, 1))) == (3, 2, 1)
    effects = driver.see_step(Tombstone(f"checkpoint/{dropped}"))
    left: tuple[Checkpoint, ...] = (checkpoint(3 - dropped, 1), checkpoint(3, 1))
    assert only(DropParts, effects) == DropParts(left)
    assert openable(effects) == (3, 3 - dropped)


def test_nothing_is_dropped_while_no_checkpoint_is_in_the_log() -> None:
    driver = NodeDriver()
    logged(driver, 3)
    assert not [one for one in joined(driver, own=(3,), restorable=()) if isinstance(one, DropParts)]
