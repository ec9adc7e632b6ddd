"""The rules about clocks, switched off: the simulator, which sets wall clocks at any
moment, must find what they are for."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from kcontrol.core.coordinator import clock as step_clock
from tests.simulation.breaking import Patches, Rule, check_breaks
from tests.simulation.coordinator_actor import CoordinatorActor
from tests.simulation.invariants import ONE_CLOCK
from tests.simulation.node_actor import NodeActor


def _deadlines_count_the_wall_clock() -> Patches:
    return tuple(
        patch.object(actor, "now_ms", property(lambda self: self.wall_ms))
        for actor in (CoordinatorActor, NodeActor)
    )


def _the_wall_clock_is_believed() -> Patches:
    return (patch.object(step_clock, "_witness", lambda state, nodes: None),)


RULES = (
    Rule(_deadlines_count_the_wall_clock, "without faults the pipeline makes progress", 250),
    Rule(_the_wall_clock_is_believed, ONE_CLOCK, 35),
)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_without_the_rule_an_invariant_breaks(rule: Rule) -> None:
    check_breaks(rule)
