"""Pipelines that are reset again and again, with every other fault; and the rules of it, switched off: the simulator must then
find what the rule is there for."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import pytest

from kcontrol.core.coordinator.parts.transaction import TransactionState
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.node import decide as node_decide
from tests.simulation import reset_faults
from tests.simulation.breaking import Patches, Rule, check_breaks
from tests.simulation.invariants import CALLED
from tests.simulation.reset_faults import pipeline_reset
from tests.simulation.schedule import run_schedule
from tests.simulation.states import DROPPED, REACHABLE, VOID

_SCHEDULES = 150
_LIKELY = (pipeline_reset,) * 2


def test_no_schedule_with_resets_breaks_an_invariant() -> None:
    counts: Counter[str] = Counter()
    for seed in range(_SCHEDULES):
        how = {
            "stages": 1 + seed % 3,
            "saving": seed % 2 == 0,
            "replicas": seed % 4 == 0,
            "epochs": seed % 5 == 0,
        }
        try:
            run_schedule(seed, counts, likely=_LIKELY, **how)
        except Exception as error:
            error.add_note(f"seed {seed}, {how}, with pipeline_reset")
            raise
    assert counts["pipeline reset"] > 25, counts
    assert counts["steps made void"] > 25, counts
    assert counts["reset not committed"] > 2, counts
    assert counts["steps run again that rows crossed in"] > 0, counts


def _void_steps_are_steps_like_others() -> Patches:
    """Whoever holds one, on his disk, goes on from it."""
    return (patch.object(StepsView, "void_by", lambda self, step: None),)


def _nodes_outlive_a_reset() -> Patches:
    """What a node holds of void steps it goes on with."""
    return (patch.object(node_decide, "ends_with", lambda state: False),)


def _checkpoints_of_void_steps_stay_in_the_log() -> Patches:
    return (patch.object(reset_faults, "void_checkpoints", lambda steps, to_step: ()),)


def _any_step_can_be_gone_back_to() -> Patches:
    return (patch.object(reset_faults, "may_go_back", lambda spec, steps, to_step: True),)


def _what_was_proved_stays_so() -> Patches:
    """Whoever rests while the pipeline is reset takes what he knows for the end of the log."""
    return (patch.object(TransactionState, "overtaken", lambda self, *, writing: self),)


RULES = [
    Rule(_void_steps_are_steps_like_others, VOID, 25, likely=_LIKELY, saving=True),
    Rule(_nodes_outlive_a_reset, VOID, 35, likely=_LIKELY),
    Rule(_checkpoints_of_void_steps_stay_in_the_log, DROPPED, 90, likely=_LIKELY),
    Rule(_any_step_can_be_gone_back_to, REACHABLE, 18, likely=_LIKELY, saving=True),
    Rule(_what_was_proved_stays_so, CALLED, 119, likely=_LIKELY, replicas=True, saving=True),
]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_without_the_rule_the_simulator_finds_what_it_is_there_for(rule: Rule) -> None:
    check_breaks(rule)
