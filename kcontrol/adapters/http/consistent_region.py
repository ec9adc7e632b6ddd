"""`/v1/consistentregion`: the paths that members of a consistent region of IBM Streams know, as far as pipelines are
its members.

What a member is told is a level, not a message: whoever polls late, or again, is told what is so. Pipelines are spoken for by
their region's controller, so there is nothing to be put for them but the two requests.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, ConfigDict, Field

from kcontrol.adapters.http.plane import ThePlane
from kcontrol.adapters.http.problems import responses
from kcontrol.adapters.http.regions import ACCEPTED, TheRegion, ask_for
from kcontrol.core.regions.model import told
from kcontrol.core.regions.records import RegionRequestKind
from kcontrol.errors import NotFoundError
from kcontrol.views.regions_facts import RegionSight

router = APIRouter(prefix="/v1/consistentregion", tags=["regions"])

Member = Annotated[str, Path(pattern="^[a-z0-9-]{1,63}$", description="Name of a pipeline.")]


class RegionNotification(BaseModel):
    """What a member of a region is told now."""

    region: str
    notification: str | None = Field(
        description="triggerDrain, resumeSubmission, triggerReset, resetFailed or hold; null: nothing."
    )
    seqId: int = Field(description="Of the drain that it is about.")  # noqa: N815 - as those programs have it
    retId: int = Field(description="Cuts up to this one are needed for no reset.")  # noqa: N815
    pendCkpt: int = Field(description="1 while members go on and still save.")  # noqa: N815
    lastCompleted: int = Field(description="Number of the newest cut.")  # noqa: N815
    resetAttempt: int = Field(description="Which try at a reset this is, from 0; -1 where it is none.")  # noqa: N815


class MemberNotifications(BaseModel):
    """Of all regions that a member is in: one at most."""

    member: str
    regions: list[RegionNotification]


class DrainOf(BaseModel):
    """operator: who asks. seqId: of the drain that is asked for."""

    model_config = ConfigDict(extra="forbid", strict=True)

    operator: str = Field(min_length=1, max_length=200)
    seqId: int  # noqa: N815


class ResetOf(BaseModel):
    """force: with as many attempts more as the region has."""

    model_config = ConfigDict(extra="forbid", strict=True)

    force: bool = False


class DrainBody(BaseModel):
    """As those programs send it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    request: DrainOf


class ResetBody(BaseModel):
    """The same of a reset."""

    model_config = ConfigDict(extra="forbid", strict=True)

    request: ResetOf


class RegionAsked(BaseModel):
    """rejected: why it means nothing, which is no error; else request_id is by what the region's `answers` name it."""

    region: str
    request_id: str = ""
    rejected: str = ""


@router.get("/pe/{member}", responses=responses(404))
async def notifications(plane: ThePlane, member: Member) -> MemberNotifications:
    """All notifications of a member."""
    found = [
        _notification(sight, member)
        for sight in plane.regions().values()
        if member in sight.definition.settings.members
    ]
    if not found:
        raise NotFoundError(f"pipeline {member!r} is in no region")
    return MemberNotifications(member=member, regions=found)


@router.get("/pe/{member}/region/{region}", responses=responses(404))
async def notification(member: Member, found: TheRegion) -> RegionNotification:
    """Those of one region."""
    if member not in found.definition.settings.members:
        raise NotFoundError(f"pipeline {member!r} is not in region {found.definition.region!r}")
    return _notification(found, member)


@router.put("/region/{region}/drain", status_code=ACCEPTED, responses=responses(404, 500))
async def drain(plane: ThePlane, found: TheRegion, body: DrainBody, response: Response) -> RegionAsked:
    """Ask for the drain of a number: to be late is no error, and is answered with 200."""
    newest, name = found.view.newest, found.definition.region
    number = 1 if newest is None else newest.current_seq_id
    if body.request.seqId != number:
        response.status_code = 200
        return RegionAsked(region=name, rejected=f"the next drain is number {number}")
    made = await ask_for(plane, found, RegionRequestKind.DRAIN, by=body.request.operator)
    return RegionAsked(region=name, request_id=made.request_id)


@router.put("/region/{region}/reset", status_code=ACCEPTED, responses=responses(404, 500))
async def reset(plane: ThePlane, found: TheRegion, body: ResetBody) -> RegionAsked:
    """Have everybody brought into line."""
    made = await ask_for(plane, found, RegionRequestKind.RESET, force=body.request.force)
    return RegionAsked(region=found.definition.region, request_id=made.request_id)


def _notification(sight: RegionSight, member: str) -> RegionNotification:
    name, value = sight.definition.region, sight.view.value
    region = None if value is None else value.region
    life = None if region is None else region.lives.get(member)
    now = None if region is None or life is None else told(region, member, life)
    return RegionNotification(
        region=name,
        notification=None if now is None else now.word.value,
        seqId=0 if now is None else now.seq_id,
        retId=0 if now is None else now.to_retire,
        pendCkpt=int(now is not None and now.saving),
        lastCompleted=0 if region is None else region.last_completed_seq_id,
        resetAttempt=-1 if now is None else now.reset_attempt,
    )
