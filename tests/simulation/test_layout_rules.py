"""A pipeline with state whose layout is changed again and again, with every other fault; and the rules of it, switched off: the
simulator must then find what the rule is there for."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import pytest

from kcontrol.core.coordinator.parts.transaction import TransactionState
from kcontrol.core.log import steps_view
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.node import checkpoints as node_checkpoints
from tests.simulation import directory, layout_faults, stored
from tests.simulation.breaking import Patches, Rule, check_breaks
from tests.simulation.invariants import CALLED, OPENABLE
from tests.simulation.layout_faults import layout_changed
from tests.simulation.schedule import run_schedule
from tests.simulation.states import BEGINS, CUT, NOT_WITHOUT
from tests.simulation.stored import FILES

_SCHEDULES = 300
_FEW = 100
"""In every run of tests; all with `-m heavy`."""


@pytest.mark.parametrize("schedules", [_FEW, pytest.param(_SCHEDULES, marks=pytest.mark.heavy)])
def test_no_schedule_with_changes_of_the_layout_breaks_an_invariant(schedules: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(schedules):
        try:
            # With replicas a coordinator reads the log of steps as its session does: when it has fenced, and not as it grows.
            run_schedule(
                *(seed, counts),
                likely=(layout_changed,) * 3,
                stages=2 + seed % 2,
                saving=True,
                replicas=seed % 4 == 0,
            )
        except Exception as error:
            error.add_note(
                f"seed {seed}, stages {2 + seed % 2}, replicas {seed % 4 == 0}, with layout_changed"
            )
            raise
    assert counts["layout changed"] > schedules / 6, counts
    assert counts["shards changed"] > schedules / 15, counts
    assert counts["cutting given up"] > (5 if schedules == _SCHEDULES else 0), counts


def _a_layout_is_changed_over_any_step() -> Patches:
    """H2 without the checkpoint."""
    return (patch.object(layout_faults, "may_change", lambda steps: steps.step > 0),)


def _a_directory_of_another_layout_counts() -> Patches:
    """H5, H8: what lies in a directory is taken for what the node owns."""
    return (patch.object(directory, "own_counts", lambda directory, now: True),)


def _only_its_own_part_can_be_opened() -> Patches:
    """H4 for a gaining node: it can't take what others have saved."""
    right = node_checkpoints.own_checkpoint

    def own(state: node_checkpoints.NodeMachine, step: int) -> object:
        found = right(state, step)
        return found if found is not None and found.part_of(state.node) else None

    return (patch.object(node_checkpoints, "own_checkpoint", own),)


def _no_step_knows_its_layout() -> Patches:
    """H1: the record is read, and nobody goes by it."""

    def forget(view: StepsView, assignment: object, offset: int) -> StepsView:
        return view

    return (patch.object(steps_view, "_with_assignment", forget),)


def _what_was_proved_stays_so() -> Patches:
    """Decision 085: whoever rests while the layout is changed takes what he knows for the end of the log."""
    return (patch.object(TransactionState, "overtaken", lambda self, *, writing: self),)


def _shards_are_changed_without_parts() -> Patches:
    """Other shards, over the parts that the nodes have saved."""
    return (patch.object(layout_faults, "named", lambda parts: ()),)


def _parts_that_were_made_anew_are_not_taken() -> Patches:
    """The record is read, and the checkpoint stays as the nodes have saved it."""
    return (patch.object(steps_view, "_cut_anew", lambda view, assignment: view),)


def _parts_made_anew_have_a_name_that_was_used() -> Patches:
    """What somebody left who died while he cut the state is taken for what was just made."""
    name = "{}/{}/anew".format
    return (patch.object(layout_faults, "part_name", lambda step, node, *_: name(step, node)),)


def _a_zombie_drops_what_newer_lives_have() -> Patches:
    return (patch.object(stored, "may_drop", lambda saved_by, incarnation: True),)


_LIKELY = (layout_changed,) * 3
RULES = [
    Rule(_a_layout_is_changed_over_any_step, NOT_WITHOUT, 16, likely=_LIKELY, stages=2, saving=True),
    Rule(_a_directory_of_another_layout_counts, BEGINS, likely=_LIKELY, stages=2, saving=True),
    Rule(_only_its_own_part_can_be_opened, OPENABLE, likely=_LIKELY, stages=2, saving=True),
    Rule(_no_step_knows_its_layout, CALLED, likely=_LIKELY, stages=2, saving=True),
    Rule(_what_was_proved_stays_so, CALLED, likely=_LIKELY, replicas=True, stages=2, saving=True),
    Rule(_shards_are_changed_without_parts, CUT, likely=_LIKELY, stages=2, saving=True),
    Rule(_parts_that_were_made_anew_are_not_taken, FILES, likely=_LIKELY, stages=2, saving=True),
    Rule(_parts_made_anew_have_a_name_that_was_used, CUT, 56, likely=_LIKELY, stages=2, saving=True),
    Rule(_a_zombie_drops_what_newer_lives_have, FILES, 17, likely=_LIKELY, stages=2, saving=True),
]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_without_the_rule_the_simulator_finds_what_it_is_there_for(rule: Rule) -> None:
    check_breaks(rule)
