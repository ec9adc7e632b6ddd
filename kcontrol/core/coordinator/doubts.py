"""What is wrong with a node, as far as the log was read, and may be so because it was not read to its end."""

from __future__ import annotations

from kcontrol.core.coordinator.standing import Readiness, standing
from kcontrol.core.coordinator.state import CoordinatorState
from kcontrol.core.model import PipelineSpec


def failed_behind(state: CoordinatorState, spec: PipelineSpec) -> str:
    """Which node failed for good while it ran steps again, by what was read of the log of steps; or ''. What it could not run
    again may have been dropped by a checkpoint that was not read."""
    for node in range(spec.nodes):
        said, now = state.view.node_state(node), standing(state, node, spec.limits)
        if said is not None and said.step < state.steps.step and now.place is Readiness.BROKEN:
            return now.text
    return ""
