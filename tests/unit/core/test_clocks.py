"""Wall clocks that are set, forward or back: waits are as long as before, and the time of
steps neither jumps nor rests."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.coordinator.table import State
from kcontrol.core.events import CommitStep, PartitionsAdded, StepCommitted
from kcontrol.core.model import Command, FailureKind, NodePhase, NodeState
from tests.unit.core.drive import CoordinatorDriver, NodeDriver, only, published
from tests.unit.core.made import LIMITS, SPEC, boundary

HOUR_MS, YEAR_MS = 3_600_000, 31_536_000_000
TOLERANCE_MS = LIMITS.clock_tolerance_ms
SET_MS = (-HOUR_MS, HOUR_MS, YEAR_MS)


@pytest.mark.parametrize("set_ms", SET_MS)
def test_a_dead_node_is_noticed_when_the_coordinators_wall_clock_was_set(set_ms: int) -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    driver.attempt(6)
    driver.log.set_ms = set_ms
    for _ in range(LIMITS.heartbeat_timeout_ms // 1_000 - 1):
        driver.tick(1_000)
    assert driver.state.current.attempt is not None
    driver.tick(1_000)
    assert driver.state.current.attempt is None
    assert driver.state.trouble.failure is not None
    assert "said nothing" in driver.state.trouble.failure.text


@pytest.mark.parametrize("set_ms", SET_MS)
def test_the_next_attempt_waits_no_longer_when_the_wall_clock_was_set(set_ms: int) -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    work = driver.attempt(6)
    driver.write(work, failure=FailureKind.LOST, error="a worker died")
    driver.ready()
    driver.say()
    driver.log.set_ms = set_ms
    driver.tick(LIMITS.backoff_ms - 1)
    assert driver.state.at is State.READY
    driver.tick(1)
    assert driver.state.at is State.ADDING


@pytest.mark.parametrize("set_ms", SET_MS)
def test_a_node_goes_on_speaking_every_second_when_its_wall_clock_was_set(set_ms: int) -> None:
    node = NodeDriver()
    node.joined()
    node.log.set_ms = set_ms
    assert not published(NodeState, node.tick(999))
    for _ in range(3):
        assert published(NodeState, node.tick(1_000))


def test_steps_go_on_by_the_monotonic_clock_when_the_wall_clock_was_set_back() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    first = _made(driver, 6)
    driver.log.set_ms = -HOUR_MS
    driver.tick(700)
    assert _made(driver, 9) - first == 700


def test_a_wall_clock_that_was_set_forward_moves_steps_no_further_than_is_tolerated_and_is_reported() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    first = _made(driver, 6)
    driver.log.set_ms = YEAR_MS
    driver.tick(700)
    second = _made(driver, 9)
    assert second - first == 700 + TOLERANCE_MS
    driver.tick(600)
    assert _made(driver, 12) - second == 600, "the tolerance counts once, not with each step"
    assert driver.status.clock_difference_ms == YEAR_MS - TOLERANCE_MS
    driver.log.set_ms = 0
    driver.tick(1)
    driver.say()
    assert driver.status.clock_difference_ms == -TOLERANCE_MS, (
        "what was gained is not lost: time never goes back"
    )


def test_a_coordinator_that_takes_over_with_a_wrong_wall_clock_goes_by_what_the_log_says() -> None:
    driver = CoordinatorDriver()
    driver.log.set_ms = YEAR_MS
    driver.in_place()
    assert _made(driver, 6) == driver.log.now_ms + TOLERANCE_MS


def test_a_pipeline_that_rested_for_a_day_goes_on_at_the_time_of_day() -> None:
    driver = CoordinatorDriver()
    driver.see_step(boundary(1))
    driver.log.now_ms += 24 * HOUR_MS
    driver.in_place()
    assert driver.attempt(9, 9).now_ms == driver.log.now_ms


def test_of_nodes_that_disagree_the_middle_one_is_believed() -> None:
    """Where the log has the nodes' own timestamps: a topic that was made otherwise than by kcontrol."""
    driver = CoordinatorDriver(replace(SPEC, nodes=3, inputs=(replace(SPEC.inputs[0], node_of=(0, 1)),)))
    driver.take_over()
    for number in range(3):
        driver.join(number)
    clocks = {0: YEAR_MS, 1: 0, 2: -HOUR_MS}
    driver.log.set_ms = YEAR_MS
    driver.tick(1)
    for number, ahead_ms in clocks.items():
        driver.log.stamped_ms = ahead_ms
        driver.say(number, phase=NodePhase.CLOSED)
        driver.say(number)
    assert driver.state.step_clock.ahead_ms == TOLERANCE_MS


def test_a_policys_clock_ticks_by_the_time_of_steps_when_the_wall_clock_was_set_back() -> None:
    driver = CoordinatorDriver(
        replace(SPEC, policy=replace(SPEC.policy, clock_ms=500, max_delay_ms=HOUR_MS, min_records=100))
    )
    driver.in_place()
    first = _made(driver)
    driver.log.set_ms = -HOUR_MS
    driver.tick(500)
    assert _made(driver) - first == 500


def _made(driver: CoordinatorDriver, *ends: int) -> int:
    """The time of the next step, which is decided now, written and committed."""
    before = driver.state.steps.step
    driver.receive(*ends) if ends else driver.tick()
    command = published(Command, driver.feed(PartitionsAdded(driver.log.now_ms)))[0]
    assert command.work is not None
    driver.say(attempt=command.work.token)
    boundary = only(CommitStep, driver.write(command.work)).boundary
    driver.see_step(boundary)
    driver.feed(StepCommitted(boundary.step, driver.log.now_ms))
    driver.say()
    driver.ready()
    assert driver.state.steps.step == before + 1
    return boundary.now_ms
