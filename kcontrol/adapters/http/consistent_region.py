"""`/v1/consistentregion`: the paths that members of a consistent region of IBM Streams know, as far as pipelines are
its members.

What a member is told is a level, not a message: whoever polls late, or again, is told what is so. Pipelines are spoken for by
their region's controller. Participants speak for themselves: they join, and say what they have done, again and again. What
they say is in Kafka before it is answered, and who is late has made no mistake.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, ConfigDict, Field, field_validator

from kcontrol.adapters.hints import hint_address
from kcontrol.adapters.http.plane import Plane, ThePlane
from kcontrol.adapters.http.problems import responses
from kcontrol.adapters.http.regions import ACCEPTED, After, TheRegion, WaitS, ask_for, until_changed
from kcontrol.core.regions.model import refused_asker, told
from kcontrol.core.regions.participants import was_given
from kcontrol.core.regions.records import RegionRequestKind, RegionSaid, SaidKind
from kcontrol.errors import NotFoundError
from kcontrol.requests.record import NotNowError
from kcontrol.views.regions_facts import RegionSight

router = APIRouter(prefix="/v1/consistentregion", tags=["regions"])

Member = Annotated[
    str, Path(pattern="^[a-z0-9-]{1,63}$", description="Name of a pipeline, or of a participant.")
]


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
    life: int = Field(description="The member's life that the region knows: nobody else is meant. -1: none.")
    version: int = Field(description="Number of the region's newest change.")


class MemberNotifications(BaseModel):
    """Of all regions that a member is in: one at most."""

    member: str
    regions: list[RegionNotification]
    version: int = Field(description="Another one whenever one of these regions has changed.")


class DrainOf(BaseModel):
    """operator: the member that asks, which has to be one of the region's triggers. seqId: of the drain that is asked for."""

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


class SaidOf(BaseModel):
    """process: made up by each process that begins. life: as `join` has told it; -1: it begins. seqId, resetAttempt: as told
    with what was done. hint: an address that is sent a datagram without content when there is news."""

    model_config = ConfigDict(extra="forbid", strict=True)

    process: str = Field(pattern="^[A-Za-z0-9-]{1,64}$")
    life: int = -1
    seqId: int = 0  # noqa: N815
    resetAttempt: int = 0  # noqa: N815
    hint: str = Field(default="", max_length=60)

    @field_validator("hint")
    @classmethod
    def _is_address(cls, hint: str) -> str:
        if hint:
            hint_address(hint)
        return hint


class ProgressBody(BaseModel):
    """What a participant has done."""

    model_config = ConfigDict(extra="forbid", strict=True)

    progress: SaidOf


class ParticipantAnswer(BaseModel):
    """life: of the process that speaks. rejected: why what it says means nothing any more."""

    region: str
    life: int
    rejected: str = ""


class RegionAsked(BaseModel):
    """rejected: why it means nothing, which is no error; else request_id is by what the region's `answers` name it."""

    region: str
    request_id: str = ""
    rejected: str = ""


@router.get("/pe/{member}", responses=responses(404))
async def notifications(
    plane: ThePlane, member: Member, wait_s: WaitS = 0, after: After = -1
) -> MemberNotifications:
    """All notifications of a member. `after`: a `version`."""

    def found() -> list[RegionSight]:
        seen = plane.regions().values()
        return [sight for sight in seen if member in sight.definition.settings.members]

    def has_news() -> bool:
        return not found() or _version(found()) != after

    if wait_s > 0:
        await plane.until_regions(has_news, min(wait_s, plane.longest_wait_s))
    if not found():
        raise NotFoundError(f"pipeline {member!r} is in no region")
    told = [_notification(sight, member) for sight in found()]
    return MemberNotifications(member=member, regions=told, version=_version(found()))


def _version(sights: Iterable[RegionSight]) -> int:
    """Numbers of changes only grow."""
    return sum(sight.change for sight in sights)


@router.get("/pe/{member}/region/{region}", responses=responses(404))
async def notification(
    plane: ThePlane, member: Member, found: TheRegion, wait_s: WaitS = 0, after: After = -1
) -> RegionNotification:
    """Those of one region. `after`: a `version`."""
    found = await until_changed(plane, found.definition.region, wait_s, after)
    if member not in found.definition.settings.members:
        raise NotFoundError(f"pipeline {member!r} is not in region {found.definition.region!r}")
    return _notification(found, member)


@router.put("/region/{region}/drain", status_code=ACCEPTED, responses=responses(404, 409, 500))
async def drain(plane: ThePlane, found: TheRegion, body: DrainBody, response: Response) -> RegionAsked:
    """Ask for the drain of a number, in a member's name: to be late is no error, and is answered with 200; not to be one of the
    region's triggers is. Persons ask with `POST /v1/regions/REGION/drain`."""
    newest, name, member = found.view.newest, found.definition.region, body.request.operator
    refused = refused_asker(found.definition.settings, member)
    if refused:
        raise NotNowError(refused)
    number = 1 if newest is None else newest.current_seq_id
    if body.request.seqId != number:
        response.status_code = 200
        return RegionAsked(region=name, rejected=f"the next drain is number {number}")
    made = await ask_for(plane, found, RegionRequestKind.DRAIN, by=member, member=member)
    return RegionAsked(region=name, request_id=made.request_id)


@router.put("/region/{region}/reset", status_code=ACCEPTED, responses=responses(404, 500))
async def reset(plane: ThePlane, found: TheRegion, body: ResetBody) -> RegionAsked:
    """Have everybody brought into line."""
    made = await ask_for(plane, found, RegionRequestKind.RESET, force=body.request.force)
    return RegionAsked(region=found.definition.region, request_id=made.request_id)


@router.put("/region/{region}/pe/{member}/join", status_code=ACCEPTED, responses=responses(404, 500))
async def join(
    plane: ThePlane, found: TheRegion, member: Member, body: ProgressBody, response: Response
) -> ParticipantAnswer:
    """A process begins to speak for a participant, or says again that it is there. What those before it say means nothing."""
    return await _say(plane, found, member, SaidKind.JOINED, body.progress, response)


@router.put("/region/{region}/pe/{member}/checkpoint", status_code=ACCEPTED, responses=responses(404, 500))
async def checkpoint(
    plane: ThePlane, found: TheRegion, member: Member, body: ProgressBody, response: Response
) -> ParticipantAnswer:
    """Its part of the cut `seqId` is saved."""
    return await _say(plane, found, member, SaidKind.CHECKPOINT_DONE, body.progress, response)


@router.put(
    "/region/{region}/pe/{member}/blockingcheckpoint", status_code=ACCEPTED, responses=responses(404, 500)
)
async def blocking_checkpoint(
    plane: ThePlane, found: TheRegion, member: Member, body: ProgressBody, response: Response
) -> ParticipantAnswer:
    """It holds fast what it will save of the cut `seqId`, and can go on."""
    return await _say(plane, found, member, SaidKind.BLOCKING_CHECKPOINT_DONE, body.progress, response)


@router.put("/region/{region}/pe/{member}/reset", status_code=ACCEPTED, responses=responses(404, 500))
async def reset_done(
    plane: ThePlane, found: TheRegion, member: Member, body: ProgressBody, response: Response
) -> ParticipantAnswer:
    """It stands at the cut `seqId`, for the attempt `resetAttempt`."""
    return await _say(plane, found, member, SaidKind.RESET_DONE, body.progress, response)


async def _say(
    plane: Plane, found: RegionSight, member: str, kind: SaidKind, said: SaidOf, response: Response
) -> ParticipantAnswer:
    region = found.definition.region
    if member not in found.definition.settings.participants:
        raise NotFoundError(
            f"region {region!r} has no participant {member!r}: its pipelines are spoken for by its controller"
        )
    known = found.said.get(member)
    if said.life >= 0 and known is not None and said.life < known.life:
        response.status_code = 200
        return ParticipantAnswer(
            region=region, life=said.life, rejected="another process speaks for it since"
        )
    if said.life < 0 and kind is not SaidKind.JOINED:
        response.status_code = 200
        return ParticipantAnswer(region=region, life=-1, rejected="it has not joined: life is missing")
    word = RegionSaid(
        *(region, member, said.process, said.life, kind, plane.clock.now_ms()),
        *(said.seqId, said.resetAttempt, said.hint),
    )
    offset = await plane.ask_region(word)
    if not was_given(said.life, offset):
        response.status_code = 200
        return ParticipantAnswer(
            region=region, life=said.life, rejected="no process was given this life: it has to join again"
        )
    return ParticipantAnswer(region=region, life=offset if said.life < 0 else said.life)


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
        life=-1 if life is None else life,
        version=sight.change,
    )
