"""`/v1/pipelines/{pipeline}/steps/brief`: a line for each committed step, for those who look again and again.

A whole boundary names every partition of every input, so a page of them grows with the topics; a line does
not.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from kcontrol.adapters.http.limits import MAX_PAGE_SIZE, PAGE_SIZE
from kcontrol.adapters.http.plane import MAX_LONG, AsOf, ThePipeline, ThePlane, as_of
from kcontrol.adapters.http.problems import responses
from kcontrol.adapters.http.steps import FirstStep, LastStep, page_of
from kcontrol.core.model import StepBoundary
from kcontrol.views.pipeline_projection import PipelineProjection

router = APIRouter(prefix="/v1/pipelines/{pipeline}", tags=["steps"])


class StepLine(BaseModel):
    """One committed step."""

    step: int
    reason: str
    now_ms: int = Field(description="The time of the step: when it was due, in milliseconds since 1970.")
    opened_ms: int = Field(description="When its transaction was open.")
    committed_ms: int = Field(description="When its commit was asked for.")
    attempt: int = Field(description="Which attempt it was, of the coordinator that made it; the first is 1.")
    records_in: int = Field(description="Of all inputs.")
    records_out: int = Field(description="Of all outputs.")
    late_rows: int = Field(description="Rows that watermarks dropped, of all queries.")
    void_since: int | None = Field(description="The reset that has made the step void; null if it counts.")


class StepLines(BaseModel):
    """Committed steps, oldest first."""

    as_of: AsOf
    first: int = Field(description="The oldest step that was not dropped from the log.")
    last: int = Field(description="The last committed step; 0 before the first.")
    steps: list[StepLine]
    next_from: int | None = Field(
        description="Give it as `from` for the next page; null if this one ends with the last step."
    )


@router.get("/steps/brief", responses=responses(404, 409, 500))
async def list_step_lines(
    plane: ThePlane,
    pipeline: ThePipeline,
    from_: FirstStep = None,
    to: LastStep = MAX_LONG,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE)] = PAGE_SIZE,
) -> StepLines:
    """A page of committed steps, as `/steps` gives it, with what fits on a line of each."""
    answered = as_of(plane, pipeline)
    first, last = pipeline.committed.first, pipeline.committed.step
    found, next_from = await page_of(plane, pipeline, from_, to, limit)
    return StepLines(
        as_of=answered,
        first=first,
        last=last,
        steps=[_line(pipeline, one) for one in found],
        next_from=next_from,
    )


def _line(pipeline: PipelineProjection, boundary: StepBoundary) -> StepLine:
    void = pipeline.index.void_since(boundary.step)
    return StepLine(
        step=boundary.step,
        reason=boundary.reason.value,
        now_ms=boundary.now_ms,
        opened_ms=boundary.opened_ms,
        committed_ms=boundary.committed_ms,
        attempt=boundary.token.attempt,
        records_in=sum(each.records for each in boundary.inputs),
        records_out=sum(each.records for each in boundary.outputs),
        late_rows=sum(each.rows for each in boundary.late_rows),
        void_since=None if void is None else void.step,
    )
