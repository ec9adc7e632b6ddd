"""Whether the newest definition can go on from the last step that was read."""

from __future__ import annotations

from kcontrol.core.coordinator.state import CoordinatorState
from kcontrol.core.model import PipelineSpec
from kcontrol.core.step.added_partitions import growth_refused


def not_submitted_yet(state: CoordinatorState, spec: PipelineSpec) -> str:
    """That the layout was changed, and the definition is not one for it, which whoever starts the pipeline brings; or ''."""
    assignment = state.steps.assignment
    if assignment is None or spec.assignment >= assignment.number:
        return ""
    if assignment.live:
        return (
            f"waiting: the layout was changed after step {assignment.step} and has {assignment.nodes} nodes since, which go on "
            "by it now"
        )
    return (
        f"waiting: the layout was changed after step {assignment.step} and has {assignment.nodes} nodes and "
        f"{len(assignment.owners)} shards since, and the definition was submitted before that, with nodes = {spec.nodes}: "
        f"start it with nodes = {assignment.nodes} and Layout(shuffle_partitions={len(assignment.owners)})"
    )


def refused(state: CoordinatorState, spec: PipelineSpec) -> str:
    """Why no step by this definition can follow the last one, or ''."""
    if not_submitted_yet(state, spec):
        return ""
    return _change_refused(state, spec) or growth_refused(spec, state.steps, state.view)


def _change_refused(state: CoordinatorState, spec: PipelineSpec) -> str:
    last, assignment = state.steps.last, state.steps.assignment
    number = 0 if assignment is None else assignment.number
    if last is not None and spec.assignment > number:
        return (
            f"the definition of pipeline {spec.pipeline} was submitted for its layout {spec.assignment}, which the log of "
            f"steps, with {number} changes up to step {last.step}, does not have: start it again"
        )
    if assignment is None and last is not None and spec.stateful and last.nodes != spec.nodes:
        return (
            f"pipeline {state.pipeline} keeps state, and its log was made by {last.nodes} nodes up to step "
            f"{last.step}; the definition submitted has nodes = {spec.nodes}. State is divided over the "
            f"nodes: submit it with nodes = {last.nodes}, then resume the pipeline; or stop it and change its layout: "
            f"kcontrol layout {state.pipeline} --nodes {spec.nodes}"
        )
    if last is None or last.fingerprint == spec.fingerprint or last.fingerprint in spec.compatible_with:
        return ""
    return (
        f"pipeline {state.pipeline} has changed: its log was made by definition {last.fingerprint} up to "
        f"step {last.step}, the one submitted is {spec.fingerprint}. Submit the old definition, declare the "
        "new one compatible with it, or give it a new name; then resume the pipeline"
    )
