"""A pipeline with state whose layout is changed while it runs, with every other fault; and the rules of it, switched off: the
simulator must then find what the rule is there for."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from unittest.mock import patch

import pytest

from kcontrol.core.coordinator import changing
from kcontrol.core.coordinator.state import CoordinatorState
from kcontrol.core.model import Assignment, LayoutPhase, LayoutRequest, PipelineSpec
from kcontrol.core.step.balance import Fullest
from kcontrol.errors import DamagedRecordError
from tests.simulation import live_faults
from tests.simulation.breaking import Patches, Rule, check_breaks
from tests.simulation.invariants import Violation
from tests.simulation.live_faults import (
    last_step_is_not_saved,
    live_layout_asked,
    live_made_ready,
    nobody_comes,
    rebalancing_switched,
    started_with_another_number,
)
from tests.simulation.schedule import run_schedule
from tests.simulation.states import AS_ASKED, MEANWHILE, NEEDED, NO_TRACE, NOT_WITHOUT, PAUSE_ENDS

_SCHEDULES = 300
_FEW = 100
"""In every run of tests; all with `-m heavy`."""
_LIKELY = (live_layout_asked, live_made_ready) * 2
_ENDLESS = (nobody_comes,) * 3
_UNSAVED = (*_LIKELY, last_step_is_not_saved, last_step_is_not_saved)
_BALANCING = (rebalancing_switched, live_layout_asked, live_made_ready)


@pytest.mark.parametrize("schedules", [_FEW, pytest.param(_SCHEDULES, marks=pytest.mark.heavy)])
def test_no_schedule_with_live_changes_of_the_layout_breaks_an_invariant(schedules: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(schedules):
        try:
            schedule = run_schedule(
                *(seed, counts),
                likely=(_UNSAVED if seed % 7 == 0 else _LIKELY) + _ENDLESS * (seed % 10 == 0),
                stages=2 + seed % 2,
                saving=True,
                wide=True,
                three=seed % 3 == 1,
                replicas=seed % 4 == 0,
                epochs=seed % 3 == 0,
            )
        except Exception as error:
            error.add_note(f"seed {seed}, with live_layout_asked and live_made_ready")
            raise
        world = schedule.world
        made = [world.layouts[each.request_id] for each in world.assignments if each.live]
        counts["changed while it ran"] += len(made)
        counts["left out in the middle"] += sum(each.without >= 0 for each in made)
        counts["replaced together"] += sum(len(each.replaced) > 1 for each in made)
    assert counts["changed while it ran"] > schedules / 20, counts
    assert counts["replaced together"] > schedules / 150, counts
    assert counts["left out in the middle"] > schedules / 150, counts
    assert counts["ready without having copied"] > schedules / 60, counts


def _without_state(seed: int, counts: Counter[str]) -> int:
    """How often the layout was changed while it ran, of a pipeline that is then started with another number of nodes."""
    schedule = run_schedule(
        seed,
        counts,
        likely=_LIKELY * 2,
        saving=True,
        keeps=False,
        wide=True,
        three=seed % 3 == 1,
        epochs=seed % 3 == 0,
    )
    started_with_another_number(schedule.fleet, counts)
    schedule.run(to_progress=True)
    return sum(each.live for each in schedule.world.assignments)


def test_no_schedule_without_state_breaks_an_invariant_either() -> None:
    counts: Counter[str] = Counter()
    made = 0
    for seed in range(_FEW):
        try:
            made += _without_state(seed, counts)
        except Exception as error:
            error.add_note(f"seed {seed}, without state")
            raise
    assert made > _FEW / 5, counts
    assert counts["another number refused"] > _FEW / 20, counts


def test_the_log_is_damaged_where_a_layout_that_was_changed_does_not_say_how_many_nodes_there_are() -> None:
    """What `check_resize` is for, since a pipeline without state has a layout."""
    found = ""
    with patch.object(live_faults, "check_resize", lambda *_: None):
        for seed in range(_FEW):
            try:
                _without_state(seed, Counter())
            except (Violation, DamagedRecordError) as error:
                found = str(error)
                break
    assert "but by assignment" in found


@pytest.mark.heavy
def test_no_schedule_in_which_state_is_divided_anew_by_itself_breaks_an_invariant() -> None:
    counts: Counter[str] = Counter()
    for seed in range(_SCHEDULES):
        try:
            schedule = run_schedule(
                *(seed, counts),
                likely=_BALANCING,
                stages=2 + seed % 2,
                saving=True,
                wide=True,
                three=seed % 4 > 0,
                replicas=seed % 4 == 0,
                epochs=seed % 3 == 0,
            )
        except Exception as error:
            error.add_note(f"seed {seed}, with rebalancing_switched")
            raise
        world = schedule.world
        made = [world.layouts[each.request_id] for each in world.assignments if each.live]
        counts["by itself"] += sum(each.why != "" for each in made)
        counts["because somebody asked"] += sum(each.why == "" for each in made)
    assert counts["by itself"] > 8, counts
    assert counts["because somebody asked"] > 5, counts


def _nobody_has_to_have_too_much() -> Patches:
    return (patch.object(Fullest, "has_too_much", lambda *_: True),)


def _it_may_be_made_over_any_step() -> Patches:
    """H2 without the checkpoint: one that was given up is not missed."""
    return (
        patch.object(
            changing, "_is_over", lambda state, spec, change: change.switched == state.steps.step > 0
        ),
    )


def _its_number_is_not_looked_at() -> Patches:
    """Who has asked for another change than the next one gets the next one."""
    right = changing._refused

    def refused(state: CoordinatorState, spec: PipelineSpec, request: LayoutRequest) -> str:
        assignment = state.steps.assignment
        number = 1 if assignment is None else assignment.number + 1
        return right(state, spec, replace(request, number=number))

    return (
        patch.object(changing, "_refused", refused),
        patch.object(changing, "unread_by_change", lambda state: ""),
    )


def _one_alone_is_replaced() -> Patches:
    """Of several who are to be replaced in one change the record names the first."""
    right = changing.due_assignment

    def due(state: CoordinatorState, spec: PipelineSpec) -> Assignment | None:
        made = right(state, spec)
        return None if made is None else replace(made, replaced=made.replaced[:1])

    return (patch.object(changing, "due_assignment", due),)


def _what_was_given_up_is_taken_up_again() -> Patches:
    """Of all answers only that it is done counts."""
    return (patch.object(changing, "_OVER", (LayoutPhase.DONE,)),)


def _nobody_has_to_have_copied() -> Patches:
    """No step is made from the moment on at which the change is begun."""
    return (patch.object(changing, "_awaited", lambda *_: ""),)


def _steps_wait_while_it_is_prepared() -> Patches:
    return (patch.object(changing, "is_switching", lambda state: state.changing.now is not None),)


def _nothing_ends_it() -> Patches:
    """Whatever becomes of those who make ready, of the last checkpoint, and of the time."""
    return (patch.object(changing, "_lost", lambda *_: ""),)


RULES = [
    Rule(_nobody_has_to_have_too_much, NEEDED, 28, likely=_BALANCING, stages=2, saving=True, wide=True),
    Rule(_it_may_be_made_over_any_step, NOT_WITHOUT, likely=_UNSAVED, stages=2, saving=True, wide=True),
    Rule(_its_number_is_not_looked_at, AS_ASKED, 57, likely=_LIKELY, stages=2, saving=True, wide=True),
    Rule(_one_alone_is_replaced, AS_ASKED, likely=_LIKELY, stages=2, saving=True, wide=True),
    Rule(_what_was_given_up_is_taken_up_again, NO_TRACE, likely=_LIKELY, stages=2, saving=True, wide=True),
    Rule(_nobody_has_to_have_copied, MEANWHILE, likely=_LIKELY, stages=2, saving=True, wide=True),
    Rule(_steps_wait_while_it_is_prepared, MEANWHILE, likely=_ENDLESS, stages=2, saving=True, wide=True),
    Rule(_nothing_ends_it, PAUSE_ENDS, likely=_UNSAVED, stages=2, saving=True, wide=True),
]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_without_the_rule_the_simulator_finds_what_it_is_there_for(rule: Rule) -> None:
    check_breaks(rule)
