"""What a step was made with, and what it is run again with: the first thing to look at when
the two give different records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.model import Environment, NodeJoin, StepBoundary


def made_in(view: PipelineView, incarnations: Sequence[int]) -> tuple[Environment, ...]:
    """For a boundary: the environment of each node's incarnation, or only one if all are
    the same; () if one is not known."""
    joins = {one.offset: one.record for one in view.latest.values() if isinstance(one.record, NodeJoin)}
    found = tuple(
        join.environment
        for incarnation in incarnations
        if (join := joins.get(incarnation)) is not None and join.environment is not None
    )
    if len(found) < len(incarnations):
        return ()
    return found[:1] if len(set(found)) == 1 else found


def environment_of(boundary: StepBoundary, node: int) -> Environment | None:
    """What a node has made its part of a step with; None if the log does not say: an older kcontrol wrote
    it."""
    if not boundary.environments:
        return None
    return boundary.environments[0] if len(boundary.environments) == 1 else boundary.environments[node]


def made_otherwise(boundary: StepBoundary, node: int, here: Environment | None) -> str:
    """A clause that says how what a node made a step with differs from what there is here; '' if
    it does not, as far as is known."""
    made = environment_of(boundary, node)
    if made is None or here is None or made == here:
        return ""
    changed = [
        field.name for field in fields(Environment) if getattr(made, field.name) != getattr(here, field.name)
    ]
    return f"step {boundary.step} was made with {_text(made, changed)}; here is {_text(here, changed)}"


def _text(environment: Environment, names: Sequence[str]) -> str:
    return ", ".join(f"{name} {getattr(environment, name) or 'not installed'}" for name in names)
