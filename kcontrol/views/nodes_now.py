"""What each node of a pipeline does at the moment, in a word: for a display that is drawn anew."""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.core.model import NodePhase, NodeState
from kcontrol.views.life import SILENT, is_silent
from kcontrol.views.pipeline_projection import PipelineProjection

REPLAYING = "replaying"


@dataclass(frozen=True)
class NodeNow:
    """What one node does, as its newest life says. doing: 'missing', 'silent', a word of `NodePhase`, or 'replaying'."""

    node: int
    doing: str
    step: int
    error: str


def doing_text(doing: str, step: int) -> str:
    """In the words of the protocol: at rest at a step, or running (or replaying) the one after."""
    return f"{doing} step {step + 1}" if doing in (NodePhase.RUNNING.value, REPLAYING) else f"{doing}, step {step}"


def nodes_now(projection: PipelineProjection, now_ms: int) -> list[NodeNow]:
    """By number, every node that the definition in force has. now_ms: by the clock of this machine."""
    return [_node_now(projection, node, now_ms) for node in range(projection.spec().nodes)]


def _node_now(projection: PipelineProjection, node: int, now_ms: int) -> NodeNow:
    view = projection.view
    said = view.node_state(node)
    if said is None:
        return NodeNow(node, "missing", 0, "")
    if is_silent(projection, node, now_ms):
        return NodeNow(node, SILENT, said.step, said.error)
    return NodeNow(node, REPLAYING if replays(projection, said) else said.phase.value, said.step, said.error)


def replays(projection: PipelineProjection, said: NodeState) -> bool:
    """Whether the step that a node runs is in the log already."""
    runs_again = said.phase is NodePhase.RUNNING and said.attempt is None
    return runs_again and said.step < projection.committed.step
