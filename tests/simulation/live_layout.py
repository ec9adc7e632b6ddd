"""Another layout asked for while the pipeline runs: users that ask at any moment, and processes that make ready, or say so and
have not."""

from __future__ import annotations

from dataclasses import replace

from kcontrol.core.model import Assignment, LayoutReady, LayoutRequest, PipelineSpec
from kcontrol.core.step.layout_change import assigned
from tests.simulation.specs import PIPELINE
from tests.simulation.world import World

SIZES = (2, 3)
TIMEOUT_MS = 8_000
ENDLESS_MS = 3_600_000
"""Of a request for which one of those who are to be nodes never comes by itself."""


def some_of(nodes: int, drawn: float) -> tuple[int, ...]:
    """One node, or several, or all of them. drawn: from 0 to 1."""
    chosen = 1 + int(drawn * (2**nodes - 1))
    return tuple(node for node in range(nodes) if chosen & 1 << node)


def submitted(spec: PipelineSpec, assignment: Assignment, nodes: int | None = None) -> PipelineSpec:
    """The definition by an assignment, as whoever starts the pipeline submits it. nodes: as many as that, if not given."""
    nodes = assignment.nodes if nodes is None else nodes
    plain = replace(spec, nodes=nodes, fingerprint="f1", assignment=0, owners=())
    history = dict.fromkeys((*spec.compatible_with, spec.fingerprint))
    return replace(assigned(plain, assignment), compatible_with=tuple(history))


def to_follow(world: World) -> PipelineSpec | None:
    """The definition by the newest change, if it was made while the pipeline ran, and nobody has submitted it yet."""
    newest = world.assignments[-1] if world.assignments else None
    if newest is None or not newest.live or world.spec.assignment >= newest.number:
        return None
    return submitted(world.spec, newest)


def asked(world: World) -> LayoutRequest | None:
    """What is asked for, unless the status says what became of it."""
    request, status = world.view.layout_request(), world.view.status()
    if request is None:
        return None
    told = None if status is None else status.layout
    answered = told is not None and told.request_id == request.request_id
    return (
        None if answered and told is not None and told.phase in ("done", "refused", "given_up") else request
    )


def make_ready(world: World, node: int, copied_step: int | None = None, error: str = "") -> None:
    """A process that is to be the node says how far it is. copied_step: None: it has all of the newest checkpoint."""
    request = asked(world)
    if request is None:
        return
    newest = world.checkpoints[-1].step if world.checkpoints else 0
    step = newest if copied_step is None else copied_step
    world.append(
        LayoutReady(
            *(PIPELINE, node, "sim", 1, f"process-{node}", request.request_id),
            *(step, step, step, error, len(world.control)),
        )
    )
