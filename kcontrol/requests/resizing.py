"""What becomes of a pipeline's layout where agents run its nodes, and the cluster's log says how many are wanted. Nothing is
written here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from uuid import uuid4

from kcontrol.core.cluster.model import ClusterJob
from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.model import AgentPlacement, LayoutRequest
from kcontrol.errors import ConfigurationError
from kcontrol.requests.layout_requests import is_at_work, live_change, next_number
from kcontrol.requests.record import NotNowError
from kcontrol.views.pipeline_projection import PipelineProjection
from kcontrol.views.upgrades import fate_of, nodes_in_force

TIMEOUT_MS = 15 * 60_000
"""For all who are to be nodes to be ready."""


class ForAgents(Enum):
    """What is asked of a pipeline and can't be where agents run it, by what is to be done instead."""

    NODES = (
        "say how many there are to be with kcontrol layout {pipeline} --nodes N, which tells them; to free a host, kcontrol "
        "drain it"
    )
    WITHDRAWAL = "they go on asking for the number that was said last: kcontrol layout {pipeline} --withdraw tells them"
    UPGRADE = "give them the new code with kcontrol submit or kcontrol place, by which all of them begin anew"


@dataclass(frozen=True, slots=True)
class LayoutSeen:
    """What its log says of a pipeline that is to have another number of nodes. nodes: how many it has, if no change is under
    way; else None. request: what is to be asked for now. why: what is waited for, or why nothing can be asked for. is_last:
    request asks for nothing, and is to be in the log before it is said how many nodes there are."""

    nodes: int | None = None
    request: LayoutRequest | None = None
    why: str = ""
    is_last: bool = False


def last_word(wish: AgentPlacement) -> AgentPlacement:
    """The wish of the last request of an entry, which asks for nothing: from then on nothing that the entry asks for counts.
    The next entry about the job is at that offset at the earliest."""
    return replace(wish, generation=wish.generation + 1)


def layout_seen(projection: PipelineProjection, wanted: int, wish: AgentPlacement, now_ms: int) -> LayoutSeen:
    """Of a pipeline that was submitted, both of whose logs were read, the control log first. wish: the entry of the cluster's
    log that wants so many. now_ms: by the wall clock.

    Nothing is said before the pipeline's log holds a request of this entry, be it that nothing is wanted: until then what an
    older entry asks for, of somebody who has not read this one, may still come and count. That there are as many as are wanted
    is said only once nothing can be asked for by this entry either, of somebody who does not know that it was said.
    """
    view, steps = projection.view, projection.committed
    if view.wish is not None and last_word(wish) < view.wish:
        return LayoutSeen(why="the job was changed since")
    is_said = view.wish == last_word(wish)
    nothing = LayoutRequest(projection.pipeline, uuid4().hex, next_number(steps), 0, 0, wish=wish)
    asked = view.layout_request()
    if asked is not None and _is_under_way(projection, asked):
        if (
            is_said
            or asked.nodes in (0, wanted)
            or asked.replaced
            or asked.owners
            or asked.left
            or asked.whole
        ):
            return LayoutSeen(why="a change of its layout is under way")
        return LayoutSeen(request=nothing)
    if is_said:
        return LayoutSeen(nodes_in_force(view, steps))
    found = _unasked(projection, wanted, wish, now_ms)
    if view.wish != wish:
        return LayoutSeen(request=found.request or nothing, why=found.why)
    return _with_the_last(view, found, wish) if found.nodes == wanted else found


def _with_the_last(view: PipelineView, found: LayoutSeen, wish: AgentPlacement) -> LayoutSeen:
    """The newest request, which was answered, once more: by its id it is answered again, and nobody sees another."""
    newest = view.user_layout_request()
    assert newest is not None, "it is of this wish, if it is of no other"
    return replace(found, request=replace(newest, wish=last_word(wish)), is_last=True)


def _unasked(projection: PipelineProjection, wanted: int, wish: AgentPlacement, now_ms: int) -> LayoutSeen:
    """While no change is under way."""
    nodes = nodes_in_force(projection.view, projection.committed)
    if nodes == wanted:
        return LayoutSeen(nodes)
    if not is_at_work(projection, now_ms):
        return LayoutSeen(nodes, why="the pipeline does not run, and its layout is changed while it does")
    try:
        request = live_change(projection, wanted, None).request(projection.pipeline, TIMEOUT_MS)
    except (NotNowError, ConfigurationError) as error:
        return LayoutSeen(nodes, why=str(error))
    return LayoutSeen(nodes, replace(request, wish=wish))


def _is_under_way(projection: PipelineProjection, asked: LayoutRequest) -> bool:
    """A withdrawal, too, until the coordinator has read it: before that it may still make what was withdrawn."""
    if asked.nodes:
        return fate_of(projection.view, projection.committed, asked) is None
    told = projection.view.layout_told()
    return told is None or told.request_id != asked.request_id


def goes_on_with(projection: PipelineProjection, nodes: int, now_ms: int) -> bool:
    """Whether the pipeline can be given so many nodes while it runs; False: its nodes have to begin anew for that, and may.

    Raises NotNowError, ConfigurationError: it divides its state or rows over its nodes, or has had its layout changed, and it
    can't be changed, or not now.
    """
    if nodes_in_force(projection.view, projection.committed) == nodes:
        return True
    if not is_at_work(projection, now_ms):
        return False
    spec = projection.spec()
    try:
        live_change(projection, nodes, None)
    except ConfigurationError:
        if projection.committed.step and (spec.divides or spec.assignment):
            raise
        return False
    return True


def refuse_beside_agents(job: ClusterJob | None, asked_for: ForAgents) -> None:
    """Raise ConfigurationError if agents run a pipeline as this job: they start and end its nodes as the log of their cluster
    says, which what is asked of the pipeline's own log says nothing to. A withdrawal can be while they ask for nothing. None:
    there is no such job."""
    if job is None or not job.active:
        return
    if asked_for is not ForAgents.WITHDRAWAL or job.kept:
        raise ConfigurationError(
            f"agents run pipeline {job.name!r}, and start and end its nodes themselves: "
            f"{asked_for.value.format(pipeline=job.name)}. Nothing was changed"
        )
