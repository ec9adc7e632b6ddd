"""What each node of a pipeline does at the moment, in a word: for a display that is drawn anew."""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.core.model import NodePhase
from kcontrol.runtime.life import SILENT, is_silent
from kcontrol.runtime.projection import PipelineProjection


@dataclass(frozen=True)
class NodeNow:
    """What one node does, as its newest life says. doing: 'missing', 'silent', a word of `NodePhase`, or 'replaying'."""

    node: int
    doing: str
    step: int
    error: str


def nodes_now(projection: PipelineProjection, now_ms: int) -> list[NodeNow]:
    """By number, every node that the definition in force has. now_ms: by the clock of this machine."""
    return [_node_now(projection, node, now_ms) for node in range(projection.spec().nodes)]


def _node_now(projection: PipelineProjection, node: int, now_ms: int) -> NodeNow:
    view = projection.view
    said, replayed = view.node_state(node), view.replaying(node)
    if said is None:
        return NodeNow(node, "missing", 0, "")
    if is_silent(projection, node, now_ms):
        return NodeNow(node, SILENT, said.step, said.error)
    at_work = said.phase in (NodePhase.OPEN, NodePhase.RUNNING)
    replays = at_work and replayed is not None and said.step < replayed.step <= projection.committed.step
    return NodeNow(node, "replaying" if replays else said.phase.value, said.step, said.error)
