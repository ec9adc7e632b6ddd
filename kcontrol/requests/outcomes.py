"""What has become of a request, as far as the logs say: the same for whoever asks, and after any restart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from kcontrol.core.log.keys import key_of
from kcontrol.core.model import (
    CheckpointRequest,
    Desired,
    InputDesired,
    LayoutPhase,
    LayoutRequest,
    Resume,
    SkipRequest,
    Status,
)
from kcontrol.core.step.skips import overtaken, unseen
from kcontrol.errors import NotFoundError
from kcontrol.views.pipeline_projection import PipelineProjection, Request
from kcontrol.views.upgrades import OVER, fate_of


class RequestState(StrEnum):
    """What has become of a request."""

    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"
    SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What has become of a request. `step` is the one that a checkpoint saved, or that goes by a skip, or the last one
    before a change of the layout; 0 otherwise."""

    request_id: str
    kind: str
    """'checkpoint', 'resume', 'pause-input', 'resume-input', 'skip', 'layout', 'withdraw-layout', or the mode that was asked
    for."""
    state: RequestState
    step: int = 0
    error: str = ""
    superseded_by: str = ""
    waits_for: str = ""
    """Of a skip that a coordinator goes by and that is not in force yet, or a change of the layout that is not made: why."""


def outcome_of(projection: PipelineProjection, request_id: str) -> Outcome:
    """Raises NotFoundError for a request that the log does not show, or no longer."""
    said = projection.view.status()
    offset, request = projection.requests.get(request_id, (-1, None))
    for answer in () if said is None else said.answers:
        if answer.request_id == request_id:
            state = RequestState.FAILED if answer.error else RequestState.DONE
            return Outcome(request_id, "checkpoint", state, answer.step, answer.error)
    if request is None:
        raise NotFoundError(
            f"pipeline {projection.pipeline!r}: no request {request_id!r} is known; the log keeps the "
            "newest of each kind, and the status the answers to the last 16"
        )
    outcome = Outcome(request_id, kind_of(request), RequestState.PENDING)
    if isinstance(request, SkipRequest):
        return _of_skip(projection, request, offset, outcome)
    if isinstance(request, LayoutRequest):
        return _of_layout(projection, request, outcome)
    if said is not None and request_id in said.acknowledged:
        return replace(outcome, state=RequestState.DONE)
    newer = newer_than(projection, request)
    if newer is not None:
        return replace(outcome, state=RequestState.SUPERSEDED, superseded_by=newer.request_id)
    if isinstance(request, InputDesired) and _is_noted(said, offset):
        return replace(outcome, state=RequestState.DONE)
    return outcome


def _of_layout(projection: PipelineProjection, request: LayoutRequest, outcome: Outcome) -> Outcome:
    """Done is one whose record is in the log; a withdrawal, once a coordinator goes by it."""
    told = projection.view.layout_told()
    answered = told is not None and told.request_id == request.request_id
    fate = fate_of(projection.view, projection.committed, request)
    if fate is LayoutPhase.DONE:
        made = projection.committed.assignment
        return replace(outcome, state=RequestState.DONE, step=0 if made is None else made.step)
    newer = newer_than(projection, request)
    if answered and told is not None and told.phase in OVER:
        if request.nodes == 0 and "withdrawn" in told.text:
            return replace(outcome, state=RequestState.DONE)
        return replace(outcome, state=RequestState.FAILED, error=told.text)
    if newer is not None:
        return replace(outcome, state=RequestState.SUPERSEDED, superseded_by=newer.request_id)
    if request.nodes and fate is not None:
        why = f"pipeline {projection.pipeline!r}: another change of the layout was made before it"
        return replace(outcome, state=RequestState.FAILED, error=why)
    return replace(outcome, waits_for="" if told is None or not answered else told.text)


def _of_skip(projection: PipelineProjection, request: SkipRequest, offset: int, outcome: Outcome) -> Outcome:
    """In force is one that a coordinator goes by, and whose range its node has seen, until a step goes by
    it."""
    made = projection.index.step_of_skip(request.request_id)
    if made is not None:
        return replace(outcome, state=RequestState.DONE, step=made)
    newer = newer_than(projection, request)
    if newer is not None:
        return replace(outcome, state=RequestState.SUPERSEDED, superseded_by=newer.request_id)
    if not _is_noted(projection.view.status(), offset):
        return outcome
    if request.from_ == request.to:
        return _of_taken_back(projection, request, outcome)
    where = projection.spec(), projection.committed, projection.view, request
    if why := overtaken(*where):
        if projection.committed.first > 1 and not _is_indexed(projection, request):
            raise NotFoundError(
                f"pipeline {projection.pipeline!r}: what became of request {request.request_id!r} is not "
                "known any more: the step that began at its offset was dropped from the log, which begins "
                f"with step {projection.committed.first}"
            )
        return replace(outcome, state=RequestState.FAILED, error=_nothing_skipped(projection, why))
    if waits_for := unseen(*where):
        return replace(outcome, waits_for=waits_for)
    return replace(outcome, state=RequestState.DONE, step=projection.committed.step + 1)


def _of_taken_back(projection: PipelineProjection, request: SkipRequest, outcome: Outcome) -> Outcome:
    """A request to begin where the log ends takes back a skip, unless a step that went
    by that was under way already."""
    made = projection.index.skipper_of(request.input, request.partition, request.from_)
    if made is None:
        return replace(outcome, state=RequestState.DONE)
    why = (
        f"pipeline {projection.pipeline!r}: nothing was taken back: step {made} had gone past offset "
        f"{request.from_} before"
    )
    return replace(outcome, state=RequestState.FAILED, error=why)


def superseded_text(projection: PipelineProjection, request: Request) -> str:
    """Why a request that was superseded came to nothing, as a sentence for whoever has waited for it."""
    if isinstance(request, SkipRequest):
        return _nothing_skipped(
            projection, overtaken(projection.spec(), projection.committed, projection.view, request)
        )
    newer = newer_than(projection, request)
    what = "another one" if newer is None else f"another one ({kind_of(newer)})"
    return (
        f"pipeline {projection.pipeline!r}: before a coordinator has acted on the request "
        f"({kind_of(request)}), {what} took its place; see kcontrol status {projection.pipeline}"
    )


def _nothing_skipped(projection: PipelineProjection, why: str) -> str:
    return f"pipeline {projection.pipeline!r}: nothing was skipped: {why}"


def _is_noted(said: Status | None, offset: int) -> bool:
    """Whether the coordinator goes by the request about an input at this control offset."""
    return said is not None and said.inputs_offset >= offset


def _is_indexed(projection: PipelineProjection, request: SkipRequest) -> bool:
    where = (request.input, request.partition, request.from_)
    return projection.index.reader_of(*where) is not None or projection.index.skipper_of(*where) is not None


def newer_than(projection: PipelineProjection, request: Request) -> Request | None:
    """The request that has taken this one's place; None if none has."""
    if isinstance(request, LayoutRequest) and not request.why:
        asked = projection.view.user_layout_request()
        return None if asked is None or asked.request_id == request.request_id else asked
    if isinstance(request, Desired):
        desired = projection.view.desired()
        return None if desired is None or desired.request_id == request.request_id else desired
    newest = projection.view.latest.get(key_of(request))
    if (
        newest is None
        or not isinstance(newest.record, type(request))
        or newest.record.request_id == request.request_id
    ):
        return None
    return newest.record


def kind_of(request: Request) -> str:
    """The word for what is asked for, as in `Outcome.kind`."""
    match request:
        case Desired():
            return request.mode.value
        case Resume():
            return "resume"
        case CheckpointRequest():
            return "checkpoint"
        case InputDesired():
            return "pause-input" if request.paused else "resume-input"
        case SkipRequest():
            return "skip"
        case LayoutRequest():
            return "layout" if request.nodes else "withdraw-layout"
