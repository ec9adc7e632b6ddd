"""The rules about reading from replicas, switched off: see test_rules.py. And one rule that nothing depends
on."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import pytest

from kcontrol.core.coordinator import between_steps
from tests.simulation import replicas, world
from tests.simulation.breaking import Patches, Rule, check_breaks
from tests.simulation.broker_faults import leader_moves_at_a_takeover
from tests.simulation.invariants import CALLED
from tests.simulation.schedule import run_schedule

_LEADERS_MOVE = (leader_moves_at_a_takeover,) * 10
_WITHOUT_EPOCHS = 200


def _whatever_was_read_is_taken_for_the_end() -> Patches:
    """The acknowledgement of a boundary says where it lies, and nobody asks whether that is the end that was
    read to."""
    return (patch.object(world, "lies_at_the_end", lambda offset, expected_offset: True),)


def _the_same_and_the_broker_does_not_know_what_a_step_is() -> Patches:
    """So that processes go on and read what was written."""
    nobody = (
        patch.object(world, name, lambda *given: None)
        for name in ("check_commit", "check_checkpoint", "check_kept")
    )
    return (*_whatever_was_read_is_taken_for_the_end(), *nobody)


def _half_a_log_is_gone_by() -> Patches:
    """Although a node says that it has read more."""
    return (patch.object(between_steps, "unread", lambda state, nodes: ""),)


def _what_was_read_needs_no_proof() -> Patches:
    """Halts, and answers to requests, rest on whatever a broker says is the end."""
    return (patch.object(between_steps, "_is_unproved", lambda found, what: False),)


RULES = (
    Rule(_whatever_was_read_is_taken_for_the_end, "no two committed attempts", 8_514, _LEADERS_MOVE, True),
    Rule(
        _the_same_and_the_broker_does_not_know_what_a_step_is,
        "no input record is in two committed steps that are not void",
        8_514,
        _LEADERS_MOVE,
        True,
    ),
    Rule(_what_was_read_needs_no_proof, CALLED, 8_845, _LEADERS_MOVE, True),
    Rule(_half_a_log_is_gone_by, "without faults the processes come to rest", 440, _LEADERS_MOVE, True),
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule}: {rule.invariant}")
def test_without_the_rule_an_invariant_breaks(rule: Rule) -> None:
    check_breaks(rule)


def test_the_leader_epoch_in_a_fetch_is_not_what_safety_rests_on() -> None:
    """It makes a deposed leader refuse, so that less is read in vain; without it every invariant holds all
    the same."""
    counts: Counter[str] = Counter()
    with patch.object(replicas, "EPOCH_IN_FETCH", False):
        for seed in range(_WITHOUT_EPOCHS):
            run_schedule(seed, counts, to_progress=seed % 4 == 0, likely=_LEADERS_MOVE, replicas=True)
    assert counts["leader moves at a takeover"] > _WITHOUT_EPOCHS
