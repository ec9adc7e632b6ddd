"""A user's request, from the record in the control log to its outcome: how every command asks, and waits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from kcontrol.core.model import CheckpointRequest, Desired, InputDesired, LayoutRequest, Resume, SkipRequest
from kcontrol.errors import KcontrolError, RetriableError
from kcontrol.requests.outcomes import Outcome, RequestState, newer_than, outcome_of, superseded_text
from kcontrol.requests.record import RecordedRequest, record
from kcontrol.views.pipeline_projection import PipelineProjection, Request
from kcontrol.views.reader import PipelineReader


async def ask(logs: PipelineReader, requests: Sequence[Request], timeout_s: float) -> Outcome:
    """Write requests down and wait until the last one is done; `logs` are then as of that moment.

    timeout_s: for a coordinator and nodes to act on it. Raises KcontrolError when it failed, when another one
    took its place, and when nothing was saved in time; RetriableError when nobody has acted on anything else
    in time. What was written stays.
    """
    asked = await record(logs.control, requests)
    outcome = await await_outcome(logs, asked, timeout_s)
    match outcome.state:
        case RequestState.DONE:
            return outcome
        case RequestState.FAILED:
            raise KcontrolError(outcome.error)
        case RequestState.SUPERSEDED:
            raise KcontrolError(superseded_text(logs, asked.request))
        case RequestState.PENDING:
            raise _too_late(logs, asked.request, outcome, timeout_s)


async def await_outcome(logs: PipelineReader, asked: RecordedRequest, timeout_s: float) -> Outcome:
    """What becomes of a request; `pending` if that is not decided in time.

    Of one that another for the very same took the place of, it is that one's: what a later
    checkpoint saves is newer still.
    """
    outcome = Outcome(asked.request_id, "", RequestState.PENDING)
    try:
        async with asyncio.timeout(timeout_s):
            async for chunk in logs.control.tail():
                if isinstance(asked.request, SkipRequest):
                    await logs.read_steps_on()
                for logged in chunk:
                    logs.see_control([logged])
                    if logs.control_offset >= asked.offset:
                        outcome = _outcome(logs, asked.request)
                    if outcome.state is not RequestState.PENDING:
                        return outcome
    except TimeoutError:
        return outcome
    raise RetriableError("the control topic ended")


def _outcome(projection: PipelineProjection, request: Request) -> Outcome:
    newer = newer_than(projection, request)
    found = outcome_of(projection, request.request_id)
    if found.state is RequestState.SUPERSEDED and newer is not None and _is_as_good(newer, request):
        return outcome_of(projection, found.superseded_by)
    return found


def _is_as_good(newer: Request, request: Request) -> bool:
    """Whether what answers the one answers the other: it asks for the very same, or for no older step to be
    saved."""
    if isinstance(newer, CheckpointRequest) and isinstance(request, CheckpointRequest):
        return newer.committed >= request.committed
    return newer == replace(request, request_id=newer.request_id)


def _too_late(logs: PipelineReader, request: Request, outcome: Outcome, timeout_s: float) -> KcontrolError:
    about = f"pipeline {logs.pipeline!r}: the request is recorded, but"
    match request:
        case Desired() | Resume():
            return RetriableError(
                f"{about} no coordinator has acted on it within {timeout_s:g} s; "
                "see that one runs (kcontrol coordinator) and look at kcontrol status"
            )
        case CheckpointRequest():
            said = logs.view.status()
            why = () if said is None else (said.reason, said.checkpoint_failure)
            return KcontrolError(
                f"{about} nothing was saved within {timeout_s:g} s; see that a coordinator and all nodes run "
                "(kcontrol status), and give a longer --timeout where there is much to copy"
                + "".join(f"; it says: {text}" for text in why if text)
            )
        case InputDesired() | SkipRequest() | LayoutRequest():
            why_not = outcome.waits_for or "no coordinator has acted on it"
            return RetriableError(
                f"{about} not in force after {timeout_s:g} s: {why_not}; see that a coordinator and all "
                "nodes run, and look at kcontrol status"
            )
