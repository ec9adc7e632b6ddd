"""What a coordinator waits for others is not judged by time in which it stood still itself."""

from __future__ import annotations

from dataclasses import replace

from kcontrol.core.coordinator.table import State
from kcontrol.core.events import AddPartitions, CommitStep, InitProducer, TransactionFailed
from kcontrol.core.model import (
    Command,
    CommandKind,
    Desired,
    DesiredMode,
    FailureKind,
    HoldPhase,
    LayoutPhase,
    StepWork,
)
from tests.unit.core import test_live_layout as live
from tests.unit.core.drive import CoordinatorDriver, only, published
from tests.unit.core.made import LIMITS, SPEC
from tests.unit.core.saving import EVERY_MS, ONE, STEPS_ONLY, part, resting, saving
from tests.unit.core.test_holds_of_a_coordinator import hold
from tests.unit.core.test_inputs_of_a_coordinator import in_place

_BEAT_MS = 1_000


def attempting() -> tuple[CoordinatorDriver, StepWork]:
    driver = CoordinatorDriver()
    driver.in_place()
    return driver, driver.attempt(8, 2)


def listens(driver: CoordinatorDriver, work: StepWork, after_ms: int) -> None:
    """The node has the attempt under way and says so, for so long."""
    for _ in range(after_ms // _BEAT_MS):
        driver.tick(_BEAT_MS)
        driver.say(attempt=work.token)


def speaks(driver: CoordinatorDriver, for_ms: int) -> None:
    """The node speaks, and is heard, for so long."""
    for _ in range(for_ms // _BEAT_MS):
        driver.tick(_BEAT_MS)
        driver.say()


def phase(driver: CoordinatorDriver) -> HoldPhase:
    told = driver.status.hold
    assert told is not None
    return told.phase


def test_an_attempt_is_not_given_up_though_its_report_is_the_next_record() -> None:
    driver, work = attempting()
    opened_ms = driver.log.now_ms
    listens(driver, work, 20_000)
    driver.tick(35_000)
    assert driver.state.at is State.ATTEMPTING
    commit = only(CommitStep, driver.write(work))
    assert commit.boundary.opened_ms == opened_ms, "what the log says of it stays true"


def test_an_attempt_is_given_up_when_the_rest_of_its_time_is_over() -> None:
    driver, work = attempting()
    listens(driver, work, 20_000)
    driver.tick(25_000)
    listens(driver, work, 9_000)
    assert driver.state.at is State.ATTEMPTING
    assert driver.tick(_BEAT_MS)[0] == InitProducer(60_000)
    assert driver.state.trouble.failure is not None
    assert driver.state.trouble.failure.text.endswith("node 0 has not written within 30000 ms")
    assert driver.state.trouble.retry.lost == 1


def test_an_attempt_whose_transaction_is_over_is_made_again_and_nobody_is_blamed() -> None:
    """Kafka's own limit ran on."""
    driver, work = attempting()
    listens(driver, work, 20_000)
    driver.tick(35_000)
    listens(driver, work, 4_000)
    assert driver.state.at is State.ATTEMPTING
    assert driver.tick(_BEAT_MS)[0] == InitProducer(60_000)
    trouble = driver.state.trouble
    assert trouble.failure is not None
    assert trouble.failure.text.endswith(
        "node 0 has not written, and the transaction is over after 60000 ms, for 35000 of which the coordinator stood still"
    )
    assert (trouble.failure.kind, trouble.retry.lost, trouble.retry.passing) == (FailureKind.BROKER, 0, 1)


def test_an_attempt_that_was_written_before_its_transaction_was_over_is_for_kafka_to_judge() -> None:
    driver, work = attempting()
    driver.log.now_ms += 2 * LIMITS.transaction_timeout_ms
    only(CommitStep, driver.write(work))
    driver.feed(TransactionFailed(FailureKind.FENCED, "aborted by Kafka", driver.log.now_ms))
    assert driver.state.at is State.CHECKING_CLAIM
    assert driver.state.trouble.retry.lost == 0


def test_a_checkpoint_is_not_given_up_though_the_pin_is_the_next_record() -> None:
    driver = resting(ONE)
    driver.tick(EVERY_MS)
    serial = driver.state.nodes.commands[0].serial
    driver.tick(_BEAT_MS)
    driver.tick(LIMITS.pin_timeout_ms)
    driver.say(command_serial=serial)
    assert driver.status.checkpoint_failure == ""
    assert only(AddPartitions, part(driver, 0)).partitions == STEPS_ONLY


def test_a_checkpoint_is_given_up_when_the_rest_of_its_time_is_over() -> None:
    driver = resting(ONE)
    driver.tick(EVERY_MS)
    late = driver.state.nodes.commands[0].serial - 1
    driver.tick(LIMITS.pin_timeout_ms)
    for _ in range(LIMITS.pin_timeout_ms // _BEAT_MS):
        assert driver.status.checkpoint_failure == ""
        driver.say(command_serial=late)
        driver.tick(_BEAT_MS)
    assert driver.status.checkpoint_failure.endswith(
        f"node 0 has not pinned the step within {LIMITS.pin_timeout_ms} ms"
    )


def test_a_checkpoint_is_not_given_up_though_the_part_is_the_next_record() -> None:
    driver = saving(ONE)
    begun_ms = driver.log.now_ms
    driver.tick(LIMITS.save_timeout_ms)
    assert driver.status.checkpoint_failure == ""
    assert only(AddPartitions, part(driver, 0)).partitions == STEPS_ONLY
    assert driver.state.checkpointing.saving is not None
    assert driver.state.checkpointing.saving.begun_ms == begun_ms, "what the log says of it stays true"


def test_a_stop_does_not_go_on_without_the_checkpoint_that_is_the_next_record() -> None:
    driver = resting(replace(ONE, limits=replace(LIMITS, save_timeout_ms=10 * LIMITS.stop_save_timeout_ms)))
    driver.see(Desired("p", DesiredMode.STOPPED, "w"))
    driver.say()
    effects = driver.tick(LIMITS.stop_save_timeout_ms)
    assert [one.kind for one in published(Command, effects) if one.kind is CommandKind.STOP] == []
    assert only(AddPartitions, part(driver, 0)).partitions == STEPS_ONLY


def test_a_stop_goes_on_without_the_checkpoint_when_the_rest_of_its_time_is_over() -> None:
    driver = resting(replace(ONE, limits=replace(LIMITS, save_timeout_ms=10 * LIMITS.stop_save_timeout_ms)))
    driver.see(Desired("p", DesiredMode.STOPPED, "w"))
    driver.say()
    driver.tick(LIMITS.stop_save_timeout_ms)
    speaks(driver, LIMITS.stop_save_timeout_ms - _BEAT_MS)
    assert driver.state.stop.unsaved == ""
    speaks(driver, _BEAT_MS)
    assert f"took longer than {LIMITS.stop_save_timeout_ms} ms" in driver.state.stop.unsaved


def test_a_hold_is_not_given_up_though_it_was_renewed_meanwhile() -> None:
    driver = in_place(SPEC)
    hold(driver, request_id="h")
    driver.receive(9, 0)
    driver.tick(30_000)
    hold(driver, request_id="h")
    driver.say()
    assert phase(driver) is HoldPhase.HELD


def test_a_hold_is_given_up_when_the_rest_of_its_time_is_over() -> None:
    driver = in_place(SPEC)
    hold(driver, request_id="h")
    driver.receive(9, 0)
    driver.tick(40_000)
    speaks(driver, 29_000)
    assert phase(driver) is HoldPhase.HELD
    speaks(driver, _BEAT_MS)
    assert phase(driver) is HoldPhase.GIVEN_UP


def test_a_hold_that_was_given_up_before_stays_so() -> None:
    driver = in_place(SPEC)
    hold(driver, request_id="h")
    driver.receive(9, 0)
    speaks(driver, 30_000)
    assert phase(driver) is HoldPhase.GIVEN_UP
    driver.tick(40_000)
    hold(driver, request_id="h")
    driver.say()
    assert phase(driver) is HoldPhase.GIVEN_UP


def test_a_change_of_the_layout_is_given_up_when_the_rest_of_its_time_is_over() -> None:
    driver = live.running(saved=True)
    live.ask(driver)
    driver.tick(60_000)
    speaks(driver, 59_000)
    assert live.told(driver).phase is LayoutPhase.WAITING
    speaks(driver, _BEAT_MS)
    assert live.told(driver).phase is LayoutPhase.GIVEN_UP


def test_a_change_of_the_layout_is_not_given_up_though_all_have_made_ready_meanwhile() -> None:
    driver = live.running(saved=True)
    live.ask(driver)
    driver.tick(60_000)
    live.ready(driver)
    assert live.told(driver).phase is LayoutPhase.COPYING


def test_a_pause_for_a_change_of_the_layout_does_not_end_though_the_last_step_was_saved_meanwhile() -> None:
    driver, _ = live.held()
    driver.tick(LIMITS.open_timeout_ms)
    for node in range(2):
        driver.say(node)
    assert live.told(driver).phase is LayoutPhase.SWITCHING
