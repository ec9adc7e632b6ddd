"""The last step as one of another layout, which a node that is to be runs to warm up."""

from __future__ import annotations

from dataclasses import replace

from kcontrol.adapters.spark.engine.replay_check import Replays
from kcontrol.apps.warm_up import step_by
from kcontrol.core.step.layout_change import assigned
from tests.unit.core.made import boundary
from tests.unit.core.test_environments import ARM, HERE
from tests.unit.core.test_layout_change import given
from tests.unit.core.test_live_layout import WIDE


def test_a_node_more_warms_up_with_a_step_that_two_nodes_of_two_versions_have_made() -> None:
    last = replace(boundary(7, nodes=2), environments=(HERE, ARM))
    spec = assigned(replace(WIDE, nodes=3), given(nodes=3, owners=(0, 1, 2, 0)))
    step = step_by(spec, last, 6)
    assert (step.step, step.nodes, step.inputs) == (6, 3, last.inputs)
    assert Replays(spec, 2, HERE, compares=False).check(step).made_otherwise == ""
