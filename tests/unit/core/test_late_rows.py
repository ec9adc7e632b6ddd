"""Rows that a watermark dropped: counted in the boundary of the step, or a halt without a commit."""

from __future__ import annotations

from dataclasses import replace

from kcontrol.core.events import CommitStep
from kcontrol.core.model import LateRows, LateRowsPolicy, PipelinePhase
from tests.unit.core.drive import CoordinatorDriver, only
from tests.unit.core.made import SPEC

HALTING = replace(SPEC, policy=replace(SPEC.policy, late_rows=LateRowsPolicy.HALT))
LATE = (LateRows("q", 0, 12),)


def test_late_rows_are_counted_in_the_boundary() -> None:
    driver = CoordinatorDriver()
    driver.in_place()
    effects = driver.write(driver.attempt(8, 2), late_rows=LATE)
    assert only(CommitStep, effects).boundary.late_rows == LATE


def test_late_rows_halt_a_pipeline_that_wants_it_and_nothing_is_committed() -> None:
    driver = CoordinatorDriver(HALTING)
    driver.in_place()
    effects = driver.write(driver.attempt(8, 2), late_rows=LATE)
    assert not [effect for effect in effects if isinstance(effect, CommitStep)]
    driver.ready()
    assert driver.status.phase is PipelinePhase.HALTED
    assert "passed 12 rows of query 'q' on node 0" in driver.status.reason
    assert "late_rows='count'" in driver.status.reason


def test_none_that_are_late_is_no_reason_to_halt() -> None:
    driver = CoordinatorDriver(HALTING)
    driver.in_place()
    effects = driver.write(driver.attempt(8, 2), late_rows=(LateRows("q", 0, 0),))
    assert only(CommitStep, effects)


def test_another_wish_counts_at_the_next_attempt() -> None:
    driver = CoordinatorDriver(HALTING)
    driver.in_place()
    driver.write(driver.attempt(8, 2), late_rows=LATE)
    driver.ready()
    driver.see(SPEC)
    driver.resume()
    driver.say()
    effects = driver.write(driver.attempt(8, 2), late_rows=LATE)
    assert only(CommitStep, effects).boundary.late_rows == LATE
