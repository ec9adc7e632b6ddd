"""`POST /v1/pipelines/P/reset`: a stopped pipeline back to one of its steps.

Unlike other writes it is no request that a coordinator follows: none is at work then. The server makes the step that says so
itself, or nothing, before it answers.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from kcontrol.adapters.http.plane import ThePipeline, ThePlane
from kcontrol.adapters.http.problems import responses
from kcontrol.requests.resets import ResetOrder

router = APIRouter(prefix="/v1/pipelines/{pipeline}", tags=["requests"])

MAX_TEXT = 500
MAX_LEFT = 1_000

Unseen = Annotated[
    list[str],
    Field(
        description="Of inputs whose files this server can't look at, and why: nobody knows whether they are as they were."
    ),
]
By = Annotated[str, Field(max_length=MAX_TEXT, description="Who asks; it is recorded as it is.")]
OnlyPlan = Annotated[bool, Field(description="Look at everything, and change nothing.")]
VoidRecords = Annotated[
    dict[str, int], Field(description="By topic, how many records void steps wrote. They stay there.")
]


class WantedReset(BaseModel):
    """Which step the pipeline goes back to."""

    model_config = ConfigDict(extra="forbid", strict=True)

    to_step: int = Field(
        ge=1, le=2**63 - 1, description="The last step that is to count: all after it are void."
    )
    why: str = Field(default="", max_length=MAX_TEXT, description="For whoever reads the log.")
    by: By = ""
    leave_behind: list[str] = Field(
        default=[],
        max_length=MAX_LEFT,
        description="Pipelines that read what void steps wrote, and `deliveries`, that are put right otherwise. Each has to be "
        "named; the detail of the problem says which there are.",
    )
    last_step: int | None = Field(
        default=None,
        ge=1,
        le=2**63 - 1,
        description="The newest step, as a plan has answered with `void_to`: refused if it is another one, so that the same "
        "request again resets nothing more.",
    )
    plan: OnlyPlan = False


class ResetAnswer(BaseModel):
    """What is void, or would be."""

    pipeline: str
    reset: bool = Field(description="Whether it was made; false for a plan.")
    to_step: int
    step: int = Field(description="The step that says so. The pipeline goes on with the one after it.")
    void_from: int
    void_to: int
    void_records: VoidRecords
    rerun_after: int = Field(
        description="The step whose state is opened by a node that has not kept `to_step`."
    )
    rerun_steps: int = Field(description="How many steps such a node runs again, and compares with the log.")
    left_behind: list[str]
    unseen: Unseen


@router.post("/reset", responses=responses(404, 409, 500))
async def reset(plane: ThePlane, pipeline: ThePipeline, body: WantedReset) -> ResetAnswer:
    """Take a stopped pipeline back to one of its steps, with its state, its positions and its watermark, in one transaction.
    Refused while anybody works for it, and by servers that were not started with --allow-resets."""
    order = ResetOrder(
        pipeline=pipeline.pipeline,
        to_step=body.to_step,
        why=body.why,
        by=body.by or "REST",
        leave_behind=tuple(body.leave_behind),
        last_step=body.last_step,
        only_plan=body.plan,
    )
    # A client that goes away in the midst of it leaves it whole.
    found = await asyncio.shield(asyncio.ensure_future(plane.resets(order)))
    return ResetAnswer(
        pipeline=found.pipeline,
        reset=found.reset,
        to_step=found.to_step,
        step=found.step,
        void_from=found.void_from,
        void_to=found.void_to,
        void_records=dict(found.void_records),
        rerun_after=found.rerun_after,
        rerun_steps=found.rerun_steps,
        left_behind=list(found.left_behind),
        unseen=list(found.unseen),
    )
