"""What a checkpoint is of, with state and without, switched off: the simulator must then find it."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from kcontrol.core.coordinator import checkpointing
from tests.simulation.breaking import Patches, Rule, check_breaks
from tests.simulation.states import PARTS


def _nodes_without_state_save_parts() -> Patches:
    return (patch.object(checkpointing, "parts_wanted", lambda spec: spec.nodes),)


def _nodes_with_state_save_none() -> Patches:
    return (patch.object(checkpointing, "parts_wanted", lambda spec: 0),)


RULES = (Rule(_nodes_without_state_save_parts, PARTS), Rule(_nodes_with_state_save_none, PARTS))


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_the_simulator_finds_what_a_rule_is_there_for(rule: Rule) -> None:
    check_breaks(rule)
