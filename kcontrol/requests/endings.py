"""What is said to a pipeline once agents have ended its job, or are about to. Nothing is written here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from uuid import uuid4

from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.model import AgentPlacement, Desired, DesiredMode, NodeJoin
from kcontrol.requests.pipeline_requests import mode_requests
from kcontrol.views.pipeline_projection import Request


@dataclass(frozen=True, slots=True)
class EndSeen:
    """What the log of a pipeline says of the end of its job. told: nothing is to be said any more. request: what is to be said
    now."""

    told: bool
    request: Desired | None = None


def end_seen(view: PipelineView, wish: AgentPlacement) -> EndSeen:
    """Of a pipeline that was submitted. wish: the entry that has ended its job.

    It is said once a node has joined that agents had placed, be it that none runs any more: another may have yet to join.
    Before, this may be another pipeline under that name, which is deleted and submitted again, and not begun yet. A pipeline
    that runs by somebody else's hand is left alone.
    """
    if view.ended is not None and view.ended >= wish:
        return EndSeen(told=True)
    if any(one > wish for one in view.placements.values()):
        return EndSeen(told=True)  # What runs was placed since.
    if not view.placements or _runs_by_hand(view):
        return EndSeen(told=False)
    return EndSeen(told=False, request=Desired(view.pipeline, DesiredMode.STOPPED, uuid4().hex, wish))


def stop_of_completed(view: PipelineView) -> Desired:
    """To a pipeline that has done all that it ever will; each of its nodes was placed by an agent.

    Of what was placed so far: a job that is placed anew runs, be it that this comes late, or that nobody asks for it to run.
    """
    return Desired(view.pipeline, DesiredMode.STOPPED, uuid4().hex, max(view.placements.values()))


def asked_by_users(view: PipelineView) -> int:
    """Offset of what users have asked of it last; -1 if they have asked for nothing."""
    found = view.latest.get(f"{view.pipeline}/desired")
    return -1 if found is None else found.offset


def to_run_again(view: PipelineView, submission: AgentPlacement, asked_before: int) -> tuple[Request, ...]:
    """To a pipeline that is stopped and whose job was submitted, however late this is said; nothing if it was stopped since.

    asked_before: as of `asked_by_users`, when the job was not submitted yet. What agents have said of an end is taken back in
    its own name, so a later end stands, be it said before this or after it.
    """
    now, user = view.desired(), view.latest.get(f"{view.pipeline}/desired")
    if now is None or now.mode is not DesiredMode.STOPPED:
        return ()
    if now.wish is not None and now.wish >= submission:
        return ()
    *before, wanted = mode_requests(view, DesiredMode.RUNNING)
    assert isinstance(wanted, Desired)
    stands = (
        user is not None and isinstance(user.record, Desired) and user.record.mode is not DesiredMode.RUNNING
    )
    if not stands:
        return (*before, replace(wanted, wish=now.wish))
    return (*before, wanted) if asked_by_users(view) <= asked_before else ()


def _runs_by_hand(view: PipelineView) -> bool:
    """Whether any of its nodes was started by no agent when it was started last."""
    spec = view.spec()
    nodes = range(0 if spec is None else spec.nodes)
    joins = (one for one in view.latest.values() if isinstance(one.record, NodeJoin))
    newest = {one.offset: one.record for one in joins if isinstance(one.record, NodeJoin)}
    found = [newest.get(view.incarnations.get(node, -1)) for node in nodes]
    return any(one is not None and one.placement is None for one in found)
