"""`/v1/pipelines/{pipeline}/inputs`: how far each is, and what is asked of single ones: to
pause, to go on, to skip offsets."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, ConfigDict, Field

from kcontrol.adapters.http.plane import MAX_LONG, AsOf, Plane, ThePipeline, ThePlane, as_of
from kcontrol.adapters.http.problems import responses
from kcontrol.adapters.http.requests import ACCEPTED, Accepted, ask
from kcontrol.requests.input_requests import pause_request, skip_request
from kcontrol.views.input_facts import INPUT_KIND, WaitingInput, WaitingSkip, waiting_inputs
from kcontrol.views.pipeline_projection import PipelineProjection

router = APIRouter(prefix="/v1/pipelines/{pipeline}/inputs", tags=["inputs"])

InputName = Annotated[str, Path(min_length=1, max_length=63, description="Name of an input.")]

MAX_BY = 255


class InputPartition(BaseModel):
    """One partition of an input."""

    partition: int
    start: int = Field(description="Where step 1 began.")
    committed: int = Field(description="One past the last offset that is in a committed step.")
    received: int | None = Field(
        description="How far its node has seen committed input; null if it has not said."
    )
    end: int | None = Field(
        description="How far Kafka says that committed input reaches; null if it could not be asked."
    )
    waiting: int = Field(
        description="Records that wait, at most: offsets, less those that are known to hold none."
    )


class InputFacts(BaseModel):
    """One input."""

    input: str
    kind: str = Field(description=INPUT_KIND)
    topic: str
    waiting: int
    waiting_ms: int | None = Field(
        description="For how long the oldest that waits has been known to; 0 if nothing waits, null if "
        "that is not known."
    )
    unasked: str = Field(description="Why Kafka could not be asked how far the input reaches; '' if it was.")
    paused: bool = Field(description="Whether no step shall read it.")
    noted: bool = Field(description="Whether the coordinator goes by whether it is paused.")
    skips: list[WaitingSkip]
    partitions: list[InputPartition]


class InputsAnswer(BaseModel):
    """The inputs of a pipeline."""

    as_of: AsOf
    inputs: list[InputFacts]


class InputAnswer(BaseModel):
    """One input."""

    as_of: AsOf
    input: InputFacts


class SkipOrder(BaseModel):
    """What to skip."""

    model_config = ConfigDict(extra="forbid", strict=True)

    partition: int = Field(ge=0, le=2**31 - 1)
    to_offset: int = Field(ge=0, le=MAX_LONG, description="Where the next step begins instead.")
    by: str = Field(
        min_length=1,
        max_length=MAX_BY,
        description="Who asks. It is in the log of steps as long as that keeps the step.",
    )


@router.get("", responses=responses(404, 409, 500))
async def get_inputs(plane: ThePlane, pipeline: ThePipeline) -> InputsAnswer:
    """How far each input is committed and received, what waits, what is paused, what is to be skipped."""
    return InputsAnswer(as_of=as_of(plane, pipeline), inputs=_facts(plane, pipeline))


@router.get("/{input}", responses=responses(404, 409, 500))
async def get_input(plane: ThePlane, pipeline: ThePipeline, input: InputName) -> InputAnswer:
    """One input."""
    name = pipeline.input(input).name
    (found,) = (one for one in _facts(plane, pipeline) if one.input == name)
    return InputAnswer(as_of=as_of(plane, pipeline), input=found)


@router.post("/{input}/pause", status_code=ACCEPTED, responses=responses(404, 409, 500))
async def pause_input(
    plane: ThePlane, pipeline: ThePipeline, input: InputName, response: Response
) -> Accepted:
    """Read nothing of it in any step from now on; the other inputs go on. Lasts over restarts."""
    return await ask(plane, pipeline, response, pause_request(pipeline, input, paused=True))


@router.post("/{input}/start", status_code=ACCEPTED, responses=responses(404, 409, 500))
async def start_input(
    plane: ThePlane, pipeline: ThePipeline, input: InputName, response: Response
) -> Accepted:
    """Read it again, from where it was paused."""
    return await ask(plane, pipeline, response, pause_request(pipeline, input, paused=False))


@router.post("/{input}/resume", status_code=ACCEPTED, responses=responses(404, 409, 500))
async def resume_input(
    plane: ThePlane, pipeline: ThePipeline, input: InputName, response: Response
) -> Accepted:
    """The same as `start`."""
    return await ask(plane, pipeline, response, pause_request(pipeline, input, paused=False))


@router.post("/{input}/skip", status_code=ACCEPTED, responses=responses(400, 404, 409, 500))
async def skip_input(
    plane: ThePlane, pipeline: ThePipeline, input: InputName, order: SkipOrder, response: Response
) -> Accepted:
    """Go past offsets of one partition that no step shall read: expired ones, or records that no query can
    digest.

    The pipeline must have halted, or be paused or stopped, or the input must be paused (else 409). The range,
    who asked and when are in the log of steps as long as it keeps the step (`keep_steps`). A waiting skip can
    be changed, or taken back by the offset where it begins.
    """
    look_at = partial(plane.projections.reach, pipeline.pipeline)
    wanted = (input, order.partition, order.to_offset)
    requests = await skip_request(pipeline, wanted, order.by, plane.clock.now_ms(), look_at)
    return await ask(plane, pipeline, response, requests)


def _facts(plane: Plane, pipeline: PipelineProjection) -> list[InputFacts]:
    told = {one.input: one for one in waiting_inputs(pipeline, plane.clock.now_ms())}
    return [_fact(pipeline, told[item.name]) for item in pipeline.spec().inputs]


def _fact(pipeline: PipelineProjection, told: WaitingInput) -> InputFacts:
    parts = [
        InputPartition(
            partition=part.partition,
            start=part.start,
            committed=part.committed,
            received=part.received,
            end=part.end,
            waiting=part.waiting,
        )
        for part in pipeline.lag_of(told.input).partitions
    ]
    return InputFacts(
        input=told.input,
        kind=told.kind,
        topic=pipeline.input(told.input).topic,
        waiting=told.waiting,
        waiting_ms=told.waiting_ms,
        unasked=told.unasked,
        paused=told.paused,
        noted=told.noted,
        skips=told.skips,
        partitions=parts,
    )
