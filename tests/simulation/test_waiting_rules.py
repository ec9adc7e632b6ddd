"""Pipelines whose policy waits for several records, of inputs of which some offsets hold
none; and those rules switched off."""

from __future__ import annotations

from collections import Counter
from random import SystemRandom
from unittest.mock import patch

import pytest

from kcontrol.core.coordinator import between_steps
from kcontrol.core.model import Reason
from kcontrol.core.node import announce as node_voice
from kcontrol.core.step import due as reasons
from kcontrol.core.step.division import offsets_in
from tests.simulation.breaking import Patches, Rule, check_breaks
from tests.simulation.invariants import ENOUGH
from tests.simulation.schedule import run_schedule

_SCHEDULES = 150


def _offsets_count_as_records() -> Patches:
    return (patch.object(between_steps, "records_in", lambda ranges, seen: offsets_in(ranges)),)


def _nodes_keep_gaps_to_themselves() -> Patches:
    return (patch.object(node_voice, "gaps_after", lambda gaps, offset: ()),)


def _a_record_waits_for_as_many_as_the_policy_wants() -> Patches:
    return (patch.object(between_steps, "arrived_ms", lambda arrivals, ranges: None),)


def _what_holds_no_record_is_never_passed_over() -> Patches:
    return (patch.object(reasons, "gaps_over_ms", lambda policy, only_gaps_ms: None),)


def test_steps_wait_for_several_records_or_for_the_delay() -> None:
    seed = SystemRandom().randrange(10**9)
    print(f"seed {seed}")  # noqa: T201
    found: Counter[Reason] = Counter()
    for one in range(seed, seed + _SCHEDULES):
        world = run_schedule(one, Counter(), replicas=one % 4 == 0, patient=True).world
        found.update(boundary.reason for boundary in world.boundaries)
    assert found[Reason.RECORDS] > _SCHEDULES / 10
    assert found[Reason.DELAY] > _SCHEDULES / 10


RULES = (
    Rule(_offsets_count_as_records, ENOUGH, patient=True),
    Rule(_nodes_keep_gaps_to_themselves, ENOUGH, patient=True),
    Rule(
        _a_record_waits_for_as_many_as_the_policy_wants,
        "without faults the pipeline makes progress",
        patient=True,
    ),
    Rule(
        _what_holds_no_record_is_never_passed_over, "without faults the pipeline makes progress", patient=True
    ),
)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_without_the_rule_an_invariant_breaks(rule: Rule) -> None:
    check_breaks(rule)
