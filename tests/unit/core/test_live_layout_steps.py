"""Steps around a change of the layout that is made while a pipeline runs: of one without state, and the first one after it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.coordinator.attempt import make_plan
from kcontrol.core.events import CommitCheckpoint, PartitionsAdded
from kcontrol.core.model import InputRange, LayoutPhase, Reason
from kcontrol.core.step.layout_change import assigned
from tests.unit.core.drive import CoordinatorDriver, only
from tests.unit.core.made import boundary
from tests.unit.core.test_layout_change import given
from tests.unit.core.test_live_layout import WIDE, ask, ready, running, to_save, told


def test_without_state_nothing_is_saved_or_copied_and_the_change_is_recorded_over_the_last_step() -> None:
    driver = running(spec=replace(WIDE, stateful=False, exchanges=(), owners=()))
    ask(driver)
    assert told(driver).phase is LayoutPhase.WAITING
    effects = ready(driver)
    assert not to_save(effects)
    made = only(CommitCheckpoint, driver.feed(PartitionsAdded(driver.log.now_ms)))
    assert made.checkpoint is None
    assert made.assignment is not None
    assert (made.assignment.step, made.assignment.nodes) == (1, 3)
    assert [each.nodes for each in made.assignment.inputs] == [(0, 1, 2)]


@pytest.mark.parametrize(("step", "taken"), [(1, 2), (2, 10)])
def test_the_first_step_after_it_is_as_large_as_the_last_one_whatever_has_come_since(
    step: int, taken: int
) -> None:
    """And the next one takes what was left, as far as a step may."""
    steps = [boundary(1, nodes=2), given(), boundary(2, (6, 1), (7, 2), nodes=2)]
    driver = CoordinatorDriver(assigned(WIDE, given()))
    for each in steps[: step + 1]:
        driver.see_step(each)
    waiting = tuple(InputRange("in", "input", "T1", partition, 7, 30) for partition in range(2))
    spec = driver.state.view.spec()
    assert spec is not None
    plan = make_plan(driver.state, spec, Reason.RECORDS, waiting)
    assert sum(each.to - each.from_ for each in plan.division) == taken
