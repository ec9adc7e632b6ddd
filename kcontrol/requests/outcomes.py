"""What has become of a request, as far as the logs say: the same for whoever asks, and after any restart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from kcontrol.core.log.keys import key_of
from kcontrol.core.model import CheckpointRequest, Desired, InputDesired, Resume, SkipRequest
from kcontrol.errors import KcontrolError, NotFoundError
from kcontrol.requests.input_requests import noted, taken, why_not_yet
from kcontrol.views.pipeline_projection import PipelineProjection, Request


class RequestState(StrEnum):
    """What has become of a request."""

    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"
    SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What has become of a request. `step` is the one that a checkpoint saved, or that goes by a skip; 0 otherwise."""

    request_id: str
    kind: str
    """'checkpoint', 'resume', 'pause-input', 'resume-input', 'skip', or the mode that was asked for."""
    state: RequestState
    step: int = 0
    error: str = ""
    superseded_by: str = ""
    waits_for: str = ""
    """Of a skip that a coordinator goes by and that is not in force yet: why."""


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
            f"pipeline {projection.pipeline!r}: no request {request_id!r} is known; the log keeps the newest of each kind, and "
            "the status the answers to the last 16"
        )
    outcome = Outcome(request_id, _kind(request), RequestState.PENDING)
    if isinstance(request, SkipRequest) and request.from_ < request.to:
        return _of_skip(projection, request, offset, outcome)
    if said is not None and request_id in said.acknowledged:
        return replace(outcome, state=RequestState.DONE)
    newer = _newer(projection, request)
    if newer:
        return replace(outcome, state=RequestState.SUPERSEDED, superseded_by=newer)
    if isinstance(request, InputDesired | SkipRequest) and noted(projection, offset) is not None:
        return replace(outcome, state=RequestState.DONE)
    return outcome


def _of_skip(projection: PipelineProjection, request: SkipRequest, offset: int, outcome: Outcome) -> Outcome:
    made = projection.index.step_of_skip(request.request_id)
    newer = _newer(projection, request)
    if made is None and newer:
        return replace(outcome, state=RequestState.SUPERSEDED, superseded_by=newer)
    try:
        found = taken(projection, request, offset)
    except KcontrolError as error:
        if projection.committed.first > 1 and not _is_indexed(projection, request):
            raise NotFoundError(
                f"pipeline {projection.pipeline!r}: what became of request {request.request_id!r} is not known any more: the "
                f"step that began at its offset was dropped from the log, which begins with step {projection.committed.first}"
            ) from error
        return replace(outcome, state=RequestState.FAILED, error=str(error))
    if found is not None:
        return replace(outcome, state=RequestState.DONE, step=found.step)
    return replace(outcome, waits_for=why_not_yet(projection, request) if noted(projection, offset) is not None else "")


def _is_indexed(projection: PipelineProjection, request: SkipRequest) -> bool:
    where = (request.input, request.partition, request.from_)
    return projection.index.reader_of(*where) is not None or projection.index.skipper_of(*where) is not None


def _newer(projection: PipelineProjection, request: Request) -> str:
    """Id of the request that has taken this one's place; '' if none has."""
    newest = projection.view.latest.get(key_of(request))
    if newest is None or not isinstance(newest.record, type(request)) or newest.record.request_id == request.request_id:
        return ""
    return newest.record.request_id


def _kind(request: Request) -> str:
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
