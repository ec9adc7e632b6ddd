"""The layout of a pipeline, and how far a change of it is that was asked for while it runs."""

from __future__ import annotations

from collections import Counter

from pydantic import Field

from kcontrol.core.model import LayoutRequest, LayoutStatus
from kcontrol.core.step.assignment import owners_of
from kcontrol.views.base import Facts
from kcontrol.views.pipeline_projection import PipelineProjection
from kcontrol.views.upgrades import OVER, fate_of


class LayoutChangeFacts(Facts):
    """The newest change that was asked for while the pipeline ran."""

    request_id: str
    phase: str = Field(
        description="asked: no coordinator has looked at it. waiting: for the processes that are to be nodes, or for a "
        "checkpoint. copying: each copies what it will own. switching: no step is made. done, refused or given_up: it is over."
    )
    nodes: int = Field(
        description="How many nodes there are to be; 0: what was asked for before is withdrawn."
    )
    replaced: list[int] = Field(description="Nodes that other processes are to be.")
    step: int = Field(
        description="Done: the last step by the layout before. Else the checkpoint that is copied; 0: none yet."
    )
    moved_shards: int
    copied_bytes: int = Field(description="Over all nodes, as far as they have said.")
    total_bytes: int | None = Field(description="null: not known.")
    seconds_left: int | None = Field(description="Until all is copied, about; null: not known.")
    text: str = Field(description="What it waits for, why it was refused or given up.")
    upgrade: str = Field(description="The way of `kcontrol upgrade` that it is of; '' if it is of none.")
    why: str = Field(
        description="Of a rebalancing, which the coordinator asks for itself: what it is for; '' if somebody has asked."
    )
    left: list[int] = Field(description="Nodes that the upgrade has still to come to after it.")


class LayoutFacts(Facts):
    """Who owns how much of a pipeline's state, and what is about to be changed of that."""

    number: int = Field(description="How often it was changed.")
    nodes: int
    shards: list[int] = Field(
        description="By node, how many shards of state it owns; empty for a pipeline without state."
    )
    balance: str = Field(
        description="With `rebalance`: how unevenly state is divided, and what is done about it; '': it is even, or there is "
        "nothing to go by."
    )
    change: LayoutChangeFacts | None = Field(description="null: none was ever asked for while it ran.")

    @property
    def changes(self) -> LayoutChangeFacts | None:
        """What is under way."""
        change = self.change
        return change if change is not None and change.phase not in OVER else None


def layout_of(projection: PipelineProjection) -> LayoutFacts:
    """Raises NotFoundError when there is no such pipeline."""
    spec = projection.spec()
    owned = Counter(owners_of(spec)) if spec.stateful else {}
    return LayoutFacts(
        number=spec.assignment,
        nodes=spec.nodes,
        shards=[owned[node] for node in range(spec.nodes)] if owned else [],
        balance="" if (said := projection.view.status()) is None else said.balance,
        change=_change(projection),
    )


def _change(projection: PipelineProjection) -> LayoutChangeFacts | None:
    request, told = projection.view.layout_request(), projection.view.layout_told()
    if request is None:
        return None
    if told is not None and told.request_id != request.request_id:
        told = None
    return _facts(projection, request, told)


def _facts(
    projection: PipelineProjection, request: LayoutRequest, told: LayoutStatus | None
) -> LayoutChangeFacts:
    fate = fate_of(projection.view, projection.committed, request)
    # The record of a change lies in the log before anything is said of it.
    phase = fate.value if fate is not None else "asked" if told is None else told.phase.value
    return LayoutChangeFacts(
        request_id=request.request_id,
        phase=phase,
        nodes=request.nodes,
        replaced=list(request.replaced),
        step=0 if told is None else told.step,
        moved_shards=0 if told is None else told.moved_shards,
        copied_bytes=0 if told is None else told.copied_bytes,
        total_bytes=None if told is None or told.total_bytes < 0 else told.total_bytes,
        seconds_left=None if told is None or told.seconds_left < 0 else told.seconds_left,
        text="" if told is None else told.text,
        upgrade=request.way,
        why=request.why,
        left=list(request.left),
    )
