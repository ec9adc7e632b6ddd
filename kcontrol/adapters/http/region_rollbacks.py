"""`POST /v1/regions/R/rollback`: all pipelines of a region, which have been stopped, back to a cut.

The server looks at everything and then asks; the region's controller carries it out, and goes on until all are back.
"""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from kcontrol.adapters.http.plane import ThePlane
from kcontrol.adapters.http.problems import responses
from kcontrol.adapters.http.regions import ACCEPTED, BY, TheRegion
from kcontrol.adapters.http.resets import MAX_LEFT, MAX_TEXT, By, OnlyPlan, Unseen, VoidRecords
from kcontrol.requests.region_rollbacks import AbandonOrder, RollbackOrder

router = APIRouter(prefix="/v1/regions/{region}", tags=["regions"])


class WantedRollback(BaseModel):
    """Which cut the pipelines go back to."""

    model_config = ConfigDict(extra="forbid", strict=True)

    to_cut: int = Field(ge=1, le=2**63 - 1, description="All steps after it are void.")
    why: str = Field(default="", max_length=MAX_TEXT, description="For whoever reads the logs.")
    by: By = ""
    leave_behind: list[str] = Field(
        default=[],
        max_length=MAX_LEFT,
        description="Pipelines outside of the region that read what void steps wrote, and `deliveries`, that are put right "
        "otherwise. Each has to be named; the detail of the problem says which there are.",
    )
    as_of: int | None = Field(
        default=None,
        ge=1,
        le=2**63 - 1,
        description="The region's newest change, as a plan has answered: refused if it is another one, so that the same "
        "request again takes nothing more back.",
    )
    plan: OnlyPlan = False


class UnwantedRollback(BaseModel):
    """Which rollback is given up."""

    model_config = ConfigDict(extra="forbid", strict=True)

    to_cut: int = Field(
        ge=1,
        le=2**63 - 1,
        description="The cut that it takes the pipelines back to, as the region's `going_back_to` shows it. Refused where "
        "another one is under way.",
    )
    as_of: int | None = Field(
        default=None,
        ge=1,
        le=2**63 - 1,
        description="A change of the region at which it was under way: refused if another one to the same cut is by now.",
    )
    why: str = Field(default="", max_length=MAX_TEXT, description="For whoever reads the logs.")
    by: By = ""


class AbandonAnswer(BaseModel):
    """What is asked for."""

    region: str
    to_cut: int
    request_id: str = Field(
        description="By which the region's `answers` name it once it is given up, with who is back in `why`, or it was refused."
    )


class BackAnswer(BaseModel):
    """What is void of one pipeline, or would be."""

    pipeline: str
    to_step: int
    void_to: int = Field(description="Its last step; `to_step`, where it was never beyond.")
    void_records: VoidRecords
    rerun_steps: int = Field(
        description="How many steps a node runs again that has not kept `to_step`, and compares with the log."
    )
    left_behind: list[str]
    unseen: Unseen


class RollbackAnswer(BaseModel):
    """What is asked for, or was planned."""

    region: str
    to_cut: int
    as_of: int = Field(description="Number of the region's newest change.")
    request_id: str = Field(
        description="By which the region's `answers` name it once all are back, or it was refused; '' for a plan."
    )
    pipelines: list[BackAnswer] = Field(description="In the order in which they are taken back.")


@router.post("/rollback", status_code=ACCEPTED, responses=responses(404, 409, 500))
async def rollback(plane: ThePlane, found: TheRegion, body: WantedRollback) -> RollbackAnswer:
    """Take all pipelines of a region back to a cut, each by a reset to its step of it. Refused while anybody works for one of
    them, and by servers that were not started with --allow-resets."""
    order = RollbackOrder(
        region=found.definition.region,
        to_cut=body.to_cut,
        why=body.why,
        by=body.by or BY,
        leave_behind=tuple(body.leave_behind),
        as_of=body.as_of,
        only_plan=body.plan,
    )
    # A client that goes away in the midst of it leaves it whole.
    told = await asyncio.shield(asyncio.ensure_future(plane.rollbacks(order)))
    return RollbackAnswer(
        region=told.region,
        to_cut=told.to_cut,
        as_of=told.as_of,
        request_id=told.request_id,
        pipelines=[
            BackAnswer(
                pipeline=one.pipeline,
                to_step=one.to_step,
                void_to=one.void_to,
                void_records=dict(one.void_records),
                rerun_steps=one.rerun_steps,
                left_behind=list(one.left_behind),
                unseen=list(one.unseen),
            )
            for one in told.pipelines
        ],
    )


@router.post("/rollback/abandon", status_code=ACCEPTED, responses=responses(404, 409, 500))
async def abandon(plane: ThePlane, found: TheRegion, body: UnwantedRollback) -> AbandonAnswer:
    """Give up the rollback under way, which can't be completed: who is back is back, the others stay where they are, and later
    cuts are void. Refused by servers that were not started with --allow-resets."""
    order = AbandonOrder(found.definition.region, body.to_cut, body.why, body.by or BY, body.as_of)
    told = await asyncio.shield(asyncio.ensure_future(plane.rollbacks(order)))
    return AbandonAnswer(region=told.region, to_cut=told.to_cut, request_id=told.request_id)
