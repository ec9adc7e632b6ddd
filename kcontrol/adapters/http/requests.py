"""What a user asks of a pipeline: each is a control record, answered with its offset, and has an outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, Field

from kcontrol.adapters.http.limits import WRITE_SEEN_S
from kcontrol.adapters.http.plane import AsOf, Plane, ThePipeline, ThePlane, as_of
from kcontrol.adapters.http.problems import responses
from kcontrol.core.model import DesiredMode
from kcontrol.requests.outcomes import outcome_of
from kcontrol.requests.pipeline_requests import checkpoint_request, mode_requests
from kcontrol.requests.record import record
from kcontrol.views.pipeline_projection import PipelineProjection, Request

router = APIRouter(prefix="/v1/pipelines/{pipeline}", tags=["requests"])

ACCEPTED = 202


class Accepted(BaseModel):
    """A request is in the log, and will be followed by this coordinator or the next."""

    pipeline: str
    request_id: str
    control_partition: int
    control_offset: int = Field(description="Of the request's record. Reads take it as `min_control_offset`.")
    outcome: str = Field(description="Path of what becomes of it; also in the header Location.")


class OutcomeAnswer(BaseModel):
    """What has become of a request."""

    as_of: AsOf
    request_id: str
    kind: str = Field(
        description="running, paused, stopped, resume, checkpoint, pause-input, resume-input, skip, layout or withdraw-layout."
    )
    state: str = Field(description="pending; done; failed; or superseded by a newer request of its kind.")
    step: int = Field(
        description="The step that a checkpoint has saved, or that begins after a skip, or the last one before a layout; 0 "
        "otherwise."
    )
    error: str = Field(description="Why it failed; '' otherwise.")
    superseded_by: str = Field(description="Id of the newer request; '' otherwise.")
    waits_for: str = Field(
        description="Why a skip that was taken note of is not in force yet, or a change of the layout not made; '' otherwise."
    )


@router.post("/start", status_code=ACCEPTED, responses=responses(404, 409, 500))
async def start(plane: ThePlane, pipeline: ThePipeline, response: Response) -> Accepted:
    """Let it run after a pause or a stop. Refused after a halt, with its root cause: `resume` lifts it."""
    return await ask(
        plane, pipeline, response, mode_requests(pipeline.view, DesiredMode.RUNNING, lift_halt=False)
    )


@router.post("/resume", status_code=ACCEPTED, responses=responses(404, 409, 500))
async def resume(plane: ThePlane, pipeline: ThePipeline, response: Response) -> Accepted:
    """Let it go on after a pause, a stop or a halt. After a halt, put right first what its reason names."""
    return await ask(plane, pipeline, response, mode_requests(pipeline.view, DesiredMode.RUNNING))


@router.post("/pause", status_code=ACCEPTED, responses=responses(404, 409, 500))
async def pause(plane: ThePlane, pipeline: ThePipeline, response: Response) -> Accepted:
    """Make no more steps; the nodes stay open."""
    return await ask(plane, pipeline, response, mode_requests(pipeline.view, DesiredMode.PAUSED))


@router.post("/stop", status_code=ACCEPTED, responses=responses(404, 409, 500))
async def stop(plane: ThePlane, pipeline: ThePipeline, response: Response) -> Accepted:
    """Make no more steps, close the nodes' queries and shut their processes down."""
    return await ask(plane, pipeline, response, mode_requests(pipeline.view, DesiredMode.STOPPED))


@router.post("/shutdown", status_code=ACCEPTED, responses=responses(404, 409, 500))
async def shutdown(plane: ThePlane, pipeline: ThePipeline, response: Response) -> Accepted:
    """The same as `stop`: once a pipeline has stopped, the processes of its nodes have ended."""
    return await ask(plane, pipeline, response, mode_requests(pipeline.view, DesiredMode.STOPPED))


@router.post("/checkpoints", status_code=ACCEPTED, responses=responses(404, 409, 500))
async def checkpoint(plane: ThePlane, pipeline: ThePipeline, response: Response) -> Accepted:
    """Save the state of all nodes now: while steps go on, or in a pause. Refused once the pipeline has halted or was stopped,
    unless its last step is saved already."""
    return await ask(plane, pipeline, response, checkpoint_request(pipeline.view, pipeline.committed.step))


@router.get("/requests/{request_id}", responses=responses(404, 409, 500))
async def get_outcome(
    plane: ThePlane, pipeline: ThePipeline, request_id: Annotated[str, Path(pattern="^[0-9a-zA-Z-]{1,64}$")]
) -> OutcomeAnswer:
    """What has become of a request. Known are the newest requests, and the last 16 that were done."""
    found = outcome_of(pipeline, request_id)
    return OutcomeAnswer(
        as_of=as_of(plane, pipeline),
        request_id=request_id,
        kind=found.kind,
        state=found.state.value,
        step=found.step,
        error=found.error,
        superseded_by=found.superseded_by,
        waits_for=found.waits_for,
    )


async def ask(
    plane: Plane, pipeline: PipelineProjection, response: Response, requests: Sequence[Request]
) -> Accepted:
    """Write requests down, and answer with where the last one's outcome is; this server has then read it
    itself, if that was soon enough."""
    name = pipeline.pipeline
    recorded = await record(plane.projections.control_log(name), requests)
    await plane.projections.reached(name, recorded.offset, WRITE_SEEN_S)
    outcome = f"/v1/pipelines/{name}/requests/{recorded.request_id}"
    response.headers["Location"] = outcome
    return Accepted(
        pipeline=name,
        request_id=recorded.request_id,
        control_partition=plane.projections.partition_number(name),
        control_offset=recorded.offset,
        outcome=outcome,
    )
