"""How a node is: the one account of it, for the command line, HTTP, the Console, metrics and whoever runs the
node.

A node is what it said last, until it has been silent for longer than it may: what it did then is no news any
more.
"""

from __future__ import annotations

from pydantic import Field

from kcontrol.core.model import NodeJoin, NodePhase, NodeState
from kcontrol.core.step.environments import made_otherwise
from kcontrol.views.base import Facts
from kcontrol.views.holder import holder
from kcontrol.views.life import SILENT, is_silent
from kcontrol.views.pipeline_projection import PipelineProjection

ABSENT = "absent"
"""What is said of a node that has never said how it is."""
REPLAYING = "replaying"


class NodeFacts(Facts):
    """The newest incarnation of a node."""

    node: int
    incarnation: int | None = Field(
        description="The offset of its join; null if no such node has ever joined."
    )
    host: str
    process_id: int | None
    listens: str = Field(description="URL of its metrics and profiles; '' if it does not listen.")
    phase: str = Field(
        description="open: at `step`, and at rest. running: a step, first or again. closed or failed. "
        "absent: it has never said anything. silent: not for too long."
    )
    step: int = Field(description="The last step that it holds complete.")
    running: int | None = Field(
        description="The step that it runs: when it is complete, the node holds it. Null if it rests, or "
        "is silent."
    )
    replaying: int | None = Field(
        description="The same, if it is in the log already and is run again; else null."
    )
    silent_ms: int = Field(description="Milliseconds since it was last heard of; it speaks every second.")
    error: str
    planning: str = Field(
        description="When Spark plans its queries: `once`, or `each step`, with the reasons, or once but for those that are "
        "named; '' if it has not said."
    )
    made_otherwise: str = Field(
        description="How what it computes with differs from what the last step was made with; '' if it "
        "does not."
    )

    @property
    def doing(self) -> str:
        """What it does, in a word: 'replaying', or its phase."""
        return self.phase if self.replaying is None else REPLAYING

    @property
    def doing_text(self) -> str:
        """In the words of the protocol: at rest at a step, or running (or replaying) the one after."""
        return (
            f"{self.doing}, step {self.step}" if self.running is None else f"{self.doing} step {self.running}"
        )


def nodes_of(projection: PipelineProjection, now_ms: int) -> list[NodeFacts]:
    """By number, every node that the definition in force has. now_ms: by the clock of whoever looks."""
    return [node_of(projection, node, now_ms) for node in range(projection.spec().nodes)]


def node_of(projection: PipelineProjection, node: int, now_ms: int) -> NodeFacts:
    """Of a node that the spec has, whether it has ever joined or not."""
    view = projection.view
    life, state = view.incarnation(node), view.node_state(node)
    join = holder(projection, node)
    phase = ABSENT if state is None else SILENT if is_silent(projection, node, now_ms) else state.phase.value
    running = state.step + 1 if state is not None and phase == NodePhase.RUNNING.value else None
    return NodeFacts(
        node=node,
        incarnation=life,
        host=join.host if join else "",
        process_id=join.process_id if join else None,
        listens=join.listens if join else "",
        phase=phase,
        step=state.step if state else 0,
        running=running,
        replaying=running if state is not None and _replays(projection, state) else None,
        silent_ms=projection.signs.silent_ms(node, now_ms) or 0,
        error=state.error if state else "",
        planning=join.planning if join else "",
        made_otherwise=_made_otherwise(projection, node, join),
    )


def heard_of_ms(projection: PipelineProjection, node: int, now_ms: int) -> int | None:
    """When a node's newest incarnation was last heard of, by the clock of whoever looks; None
    if it has never said how it is."""
    silent_ms = projection.signs.silent_ms(node, now_ms)
    return None if silent_ms is None or projection.view.node_state(node) is None else now_ms - silent_ms


def _replays(projection: PipelineProjection, said: NodeState) -> bool:
    """Whether the step that a node runs is in the log already."""
    return said.attempt is None and said.step < projection.committed.step


def _made_otherwise(projection: PipelineProjection, node: int, join: NodeJoin | None) -> str:
    last = projection.committed.last
    if last is None or join is None or node >= last.nodes:
        return ""
    return made_otherwise(last, node, join.environment)
