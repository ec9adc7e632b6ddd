"""A pipeline that is held, as its coordinator sees it: up to limits, altogether, for a while."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kcontrol.core.coordinator.table import State
from kcontrol.core.events import AddPartitions
from kcontrol.core.model import (
    CheckpointRequest,
    Command,
    CommandKind,
    Desired,
    DesiredMode,
    Hold,
    HoldPhase,
    HoldStatus,
    ReadLimit,
    Reason,
)
from tests.unit.core.drive import CoordinatorDriver, only, published
from tests.unit.core.made import SPEC, boundary
from tests.unit.core.test_inputs_of_a_coordinator import BOTH, begun, committed, in_place, ranges

SLOW = replace(SPEC, policy=replace(SPEC.policy, min_records=1_000, max_delay_ms=60_000))


def hold(driver: CoordinatorDriver, *limits: tuple[str, int, int], **changes: Any) -> list[Any]:
    request = Hold(
        "p", "region r", 7, tuple(ReadLimit(*each) for each in limits), False, 30_000, f"h{driver.log.end}"
    )
    return driver.see(replace(request, **changes))


def listens(driver: CoordinatorDriver, after_ms: int) -> None:
    """The node speaks, and is heard, for so long."""
    for _ in range(after_ms // 1_000):
        driver.tick(1_000)
        driver.say()


def said(driver: CoordinatorDriver) -> tuple[HoldPhase, int]:
    told = driver.status.hold
    assert told is not None
    assert told.request_id == f"h{driver.state.holding.offset}"
    return told.phase, told.step


def test_a_pipeline_that_is_held_makes_no_step_and_says_where_it_stands() -> None:
    driver = in_place(SPEC, (boundary(1),))
    hold(driver)
    assert said(driver) == (HoldPhase.HELD, 1)
    assert driver.receive(50, 50) == []
    assert only(AddPartitions, hold(driver, released=True))
    assert driver.status.hold == HoldStatus(f"h{driver.log.end - 1}", HoldPhase.RELEASED, 0)


def test_it_reads_up_to_its_limits_and_stands_there() -> None:
    driver = in_place(SPEC)
    hold(driver, ("input", 0, 8), ("input", 1, 2))
    assert said(driver) == (HoldPhase.NOTED, 0)
    driver.receive(50, 50)
    work = begun(driver)
    assert ranges(work) == {("in", 0): (5, 8), ("in", 1): (0, 2)}
    committed(driver, work)
    driver.tick()
    assert said(driver) == (HoldPhase.HELD, 1)
    assert driver.receive(60, 60) == []


def test_partitions_that_are_not_named_of_a_topic_that_is_are_not_read() -> None:
    driver = in_place(SPEC)
    hold(driver, ("input", 0, 8))
    driver.receive(8, 2)
    assert ranges(begun(driver)) == {("in", 0): (5, 8), ("in", 1): (0, 0)}


def test_other_inputs_are_read_until_all_limits_are_reached() -> None:
    driver = in_place(BOTH)
    hold(driver, ("other", 0, 4))
    driver.receive(9, 0)
    assert ranges(begun(driver))["in", 0] == (5, 9)
    driver = in_place(BOTH)
    hold(driver, ("other", 0, 0))
    assert driver.receive(9, 0) == []
    assert said(driver) == (HoldPhase.HELD, 0)


def test_what_lies_before_the_limits_waits_for_no_policy() -> None:
    driver = in_place(SLOW)
    driver.receive(7, 0)
    assert driver.state.at is State.READY
    hold(driver, ("input", 0, 7), ("input", 1, 0))
    work = begun(driver)
    assert (work.reason, ranges(work)["in", 0]) == (Reason.DELAY, (5, 7))


def test_a_step_under_way_is_not_touched_and_the_hold_is_noted_after_it() -> None:
    driver = in_place(SPEC)
    driver.receive(9, 0)
    work = begun(driver)
    hold(driver)
    assert driver.status.hold is None
    committed(driver, work)
    assert said(driver) == (HoldPhase.HELD, 1)


def test_the_step_that_a_watermark_owes_is_made_first_and_reads_nothing() -> None:
    driver = CoordinatorDriver(SPEC)
    driver.see_step(replace(boundary(1), watermark_moved=True))
    hold(driver)
    driver.take_over()
    driver.join()
    driver.receive(90, 90)
    driver.say(command_epoch=-1, command_serial=-1)
    assert said(driver) == (HoldPhase.NOTED, 0)
    work = begun(driver)
    assert (work.reason, ranges(work)) == (Reason.WATERMARK, {("in", 0): (6, 6), ("in", 1): (1, 1)})
    committed(driver, work)
    assert said(driver) == (HoldPhase.HELD, 2)


def test_a_hold_that_is_not_renewed_is_given_up() -> None:
    driver = in_place(SPEC)
    hold(driver)
    driver.receive(9, 0)
    listens(driver, 20_000)
    hold(driver)
    driver.say()
    listens(driver, 20_000)
    assert said(driver) == (HoldPhase.HELD, 0)
    listens(driver, 10_000)
    assert driver.status.hold is not None
    assert driver.status.hold.phase is HoldPhase.GIVEN_UP


def test_what_was_given_up_stays_so_for_another_coordinator() -> None:
    driver = in_place(SPEC)
    hold(driver)
    listens(driver, 30_000)
    assert driver.status.hold is not None
    assert driver.status.hold.phase is HoldPhase.GIVEN_UP
    after = CoordinatorDriver(SPEC)
    after.log.end = 0
    hold(after, request_id="h")
    after.see(replace(driver.status, hold=HoldStatus("h", HoldPhase.GIVEN_UP, 0)))
    after.in_place()
    after.receive(9, 0)
    assert after.state.at is State.ADDING


def test_a_hold_outlives_the_coordinator_and_counts_anew() -> None:
    driver = CoordinatorDriver(SPEC)
    hold(driver)
    driver.log.now_ms += 25_000
    driver.in_place()
    driver.receive(9, 0)
    assert said(driver) == (HoldPhase.HELD, 0)
    driver.tick(29_000)
    assert said(driver) == (HoldPhase.HELD, 0)


def test_a_pipeline_that_is_held_can_be_saved_and_paused() -> None:
    saving = replace(SPEC, checkpoint=replace(SPEC.checkpoint, location="/c", every_ms=3_600_000))
    driver = in_place(saving, (boundary(1),))
    hold(driver)
    effects = driver.see(CheckpointRequest("p", "c1", 1))
    assert [each.kind for each in published(Command, effects)] == [CommandKind.CHECKPOINT]
    driver = in_place(SPEC, (boundary(1),))
    hold(driver)
    driver.see(Desired("p", DesiredMode.PAUSED, "r1"))
    assert driver.state.at is State.PAUSED
