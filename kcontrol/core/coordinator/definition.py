"""Whether the newest definition can go on from the last step that was read."""

from __future__ import annotations

from kcontrol.core.coordinator.state import CoordinatorState
from kcontrol.core.model import PipelineSpec
from kcontrol.core.step.added_partitions import growth_refused


def refused(state: CoordinatorState, spec: PipelineSpec) -> str:
    """Why no step by this definition can follow the last one, or ''."""
    return _change_refused(state, spec) or growth_refused(spec, state.steps, state.view)


def _change_refused(state: CoordinatorState, spec: PipelineSpec) -> str:
    last = state.steps.last
    if last is not None and spec.stateful and last.nodes != spec.nodes:
        return (
            f"pipeline {state.pipeline} keeps state, and its log was made by {last.nodes} nodes up to step "
            f"{last.step}; the definition submitted has nodes = {spec.nodes}. State is divided over the "
            f"nodes and can't be divided anew yet: submit it with nodes = {last.nodes}, then resume the "
            "pipeline, or give it a new name"
        )
    if last is None or last.fingerprint == spec.fingerprint or last.fingerprint in spec.compatible_with:
        return ""
    return (
        f"pipeline {state.pipeline} has changed: its log was made by definition {last.fingerprint} up to "
        f"step {last.step}, the one submitted is {spec.fingerprint}. Submit the old definition, declare the "
        "new one compatible with it, or give it a new name; then resume the pipeline"
    )
