"""`max_delay` counts from when the first waiting record arrived, whatever the coordinator was doing then."""

from __future__ import annotations

from dataclasses import replace

from kcontrol.core.coordinator.table import State
from kcontrol.core.events import CommitStep, StepCommitted
from kcontrol.core.model import CommandKind, Desired, DesiredMode, Reason, StepWork
from tests.unit.core.drive import START_MS, CoordinatorDriver, only
from tests.unit.core.made import SPEC
from tests.unit.core.test_inputs_of_a_coordinator import begun, in_place

DELAY_MS = 6_000
PATIENT = replace(SPEC, policy=replace(SPEC.policy, min_records=5, max_records=5, max_delay_ms=DELAY_MS))


def committed(driver: CoordinatorDriver, work: StepWork) -> None:
    """The step ends, and the coordinator rests."""
    driver.see_step(only(CommitStep, driver.write(work)).boundary)
    driver.feed(StepCommitted(work.step, driver.log.now_ms))
    driver.ready()
    driver.say()


def first_begun(driver: CoordinatorDriver) -> StepWork:
    """A step of five records."""
    driver.receive(10, 0)
    return begun(driver)


def is_due(driver: CoordinatorDriver) -> bool:
    driver.tick()
    return driver.state.at is State.ADDING


def test_a_record_that_came_while_a_step_was_made_waits_only_what_is_left_of_the_delay() -> None:
    driver = in_place(PATIENT)
    work = first_begun(driver)
    driver.log.now_ms += 1_000
    driver.receive(11, 0)
    driver.log.now_ms += 5_000
    driver.receive(12, 0)
    committed(driver, work)
    assert driver.state.at is State.READY
    driver.log.now_ms += DELAY_MS - 5_000 - 1
    assert not is_due(driver)
    driver.log.now_ms += 1
    assert is_due(driver)
    work = begun(driver)
    assert work.reason is Reason.DELAY
    assert only(CommitStep, driver.write(work)).boundary.received_ms == START_MS + 1_000


def test_what_has_waited_for_longer_than_the_delay_is_due_at_once() -> None:
    driver = in_place(PATIENT)
    work = first_begun(driver)
    driver.receive(11, 0)
    driver.log.now_ms += 2 * DELAY_MS
    committed(driver, work)
    assert driver.state.at is State.ADDING


def test_what_a_step_left_of_a_backlog_has_waited_since_it_came() -> None:
    driver = in_place(PATIENT)
    driver.receive(12, 0)
    work = begun(driver)
    assert [(one.from_, one.to) for one in work.division] == [(5, 10), (0, 0)]
    driver.log.now_ms += 5_000
    committed(driver, work)
    driver.log.now_ms += DELAY_MS - 5_000
    assert is_due(driver)


def test_the_delay_is_kept_over_an_attempt_that_failed() -> None:
    driver = in_place(PATIENT)
    driver.receive(6, 0)
    driver.tick(DELAY_MS)
    work = begun(driver)
    driver.log.now_ms += 700
    driver.join()
    driver.say(command_epoch=-1, command_serial=-1)
    driver.ready()
    driver.tick(SPEC.limits.max_backoff_ms)
    again = begun(driver)
    assert (again.step, again.reason) == (work.step, Reason.DELAY)
    assert only(CommitStep, driver.write(again)).boundary.received_ms == START_MS


def test_a_coordinator_that_takes_over_counts_from_when_it_reads_of_the_record() -> None:
    """When its predecessor heard of it is nowhere: the log's timestamps are other machines' clocks."""
    driver = CoordinatorDriver(PATIENT)
    driver.join()
    driver.receive(6, 0)
    driver.log.now_ms += 4_000
    driver.take_over()
    driver.say(command_epoch=-1, command_serial=-1)
    driver.log.now_ms += DELAY_MS - 4_000 - 1
    assert not is_due(driver)
    driver.log.now_ms += 1
    assert is_due(driver)


def test_setting_the_wall_clock_changes_no_delay() -> None:
    driver = in_place(PATIENT)
    driver.receive(6, 0)
    driver.log.set_ms = 3_600_000
    driver.log.now_ms += DELAY_MS - 1
    assert not is_due(driver)
    driver.log.set_ms = -3_600_000
    driver.log.now_ms += 1
    assert is_due(driver)


def test_a_paused_pipeline_s_records_have_waited_meanwhile() -> None:
    driver = in_place(PATIENT)
    driver.see(Desired("p", DesiredMode.PAUSED, "r1"))
    driver.say(command_serial=driver.state.nodes.commands[0].serial)
    assert driver.state.nodes.commands[0].kind is CommandKind.PAUSE
    driver.receive(6, 0)
    driver.log.now_ms += DELAY_MS
    driver.see(Desired("p", DesiredMode.RUNNING, "r2"))
    driver.say()
    assert driver.state.at is State.ADDING


def test_marks_are_bounded_and_the_first_one_stays() -> None:
    driver = in_place(replace(PATIENT, policy=replace(PATIENT.policy, min_records=1_000, max_records=1_000)))
    for end in range(6, 506):
        driver.receive(end, 0)
        driver.log.now_ms += 1
    assert len(driver.state.arrivals.marks["in", 0]) <= 64
    assert driver.state.arrivals.marks["in", 0][0][0] == START_MS
    assert driver.state.arrivals.marks["in", 0][-1][1] == 505
