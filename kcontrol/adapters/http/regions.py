"""`/v1/regions`: regions, their cuts, and what people ask of them."""

from __future__ import annotations

from typing import Annotated
from uuid import uuid4

from fastapi import APIRouter, Depends, Path, Query
from pydantic import BaseModel, Field

from kcontrol.adapters.http.limits import MAX_PAGE_SIZE, MAX_WAIT_S, PAGE_SIZE
from kcontrol.adapters.http.plane import MAX_LONG, Plane, ThePlane
from kcontrol.adapters.http.problems import responses
from kcontrol.core.regions.records import RegionRequest, RegionRequestKind
from kcontrol.errors import NotFoundError
from kcontrol.views.regions_facts import (
    RegionCutFacts,
    RegionFacts,
    RegionSight,
    WholeCutFacts,
    newest_cuts,
    region_facts,
    whole_cut,
)

router = APIRouter(prefix="/v1/regions", tags=["regions"])

ACCEPTED = 202
BY = "REST"


class RegionsAnswer(BaseModel):
    """Regions by name."""

    regions: list[RegionFacts]


class RegionCutsAnswer(BaseModel):
    """The newest cuts that are kept, the oldest of them first."""

    region: str
    cuts: list[RegionCutFacts]


class RegionAccepted(BaseModel):
    """A request is in the topic of regions, and stays there until it is answered or another one takes its place."""

    region: str
    request_id: str = Field(description="By which the region's `answers` name it once it is answered.")


async def the_region(
    plane: ThePlane, region: Annotated[str, Path(pattern="^[a-z0-9-]{1,63}$", description="Its name.")]
) -> RegionSight:
    """Raises NotFoundError."""
    seen = plane.regions()
    if region not in seen:
        raise NotFoundError(f"there is no region {region!r}")
    return seen[region]


TheRegion = Annotated[RegionSight, Depends(the_region)]
WaitS = Annotated[
    float,
    Query(ge=0, le=MAX_WAIT_S, description="Wait for so long while there is nothing newer than `after`."),
]
After = Annotated[int, Query(ge=-1, le=MAX_LONG, description="What the asker has had.")]


async def until_changed(plane: Plane, name: str, wait_s: float, after: int) -> RegionSight:
    """The region, once its newest change is another one than `after`, or the time is over. Raises NotFoundError."""

    def has_changed() -> bool:
        seen = plane.regions().get(name)
        return seen is None or seen.change != after

    if wait_s > 0:
        await plane.until_regions(has_changed, min(wait_s, plane.longest_wait_s))
    return await the_region(plane, name)


@router.get("", responses=responses())
async def regions(plane: ThePlane) -> RegionsAnswer:
    """All that are defined."""
    seen = plane.regions()
    return RegionsAnswer(regions=[region_facts(seen[name]) for name in sorted(seen)])


@router.get("/{region}", responses=responses(404))
async def region(plane: ThePlane, found: TheRegion, wait_s: WaitS = 0, after: After = -1) -> RegionFacts:
    """Where it is, who is in charge of it, what it waits for, and what became of the newest requests. `after`: a `change`."""
    return region_facts(await until_changed(plane, found.definition.region, wait_s, after))


@router.get("/{region}/cuts", responses=responses(404))
async def cuts(
    found: TheRegion,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE, description="So many newest cuts.")] = PAGE_SIZE,
) -> RegionCutsAnswer:
    """Between which steps nothing is in flight."""
    return RegionCutsAnswer(region=found.definition.region, cuts=list(newest_cuts(found, limit)))


@router.get("/{region}/cuts/{number}", responses=responses(404))
async def cut(
    found: TheRegion, number: Annotated[int, Path(ge=1, description="Of the cut.")]
) -> WholeCutFacts:
    """One cut, with the offsets up to which each pipeline had read and written: by these whoever feeds a topic tells what of it
    is in the cut."""
    if number not in found.view.cuts:
        raise NotFoundError(f"region {found.definition.region!r} has no cut {number}")
    return whole_cut(found.view.cuts[number])


@router.post("/{region}/drain", status_code=ACCEPTED, responses=responses(404, 500))
async def drain(
    plane: ThePlane,
    found: TheRegion,
    hold: Annotated[bool, Query(description="All stay at the cut until `resume`.")] = False,
) -> RegionAccepted:
    """Bring its pipelines to one moment. It is asked for until there is a cut, or no attempt is left."""
    return await ask_for(plane, found, RegionRequestKind.DRAIN, hold=hold)


@router.post("/{region}/reset", status_code=ACCEPTED, responses=responses(404, 500))
async def reset(
    plane: ThePlane,
    found: TheRegion,
    force: Annotated[bool, Query(description="With as many attempts more as it has.")] = False,
) -> RegionAccepted:
    """Give up a drain under way, and let all pipelines go on before the next one. No step is taken back."""
    return await ask_for(plane, found, RegionRequestKind.RESET, force=force)


@router.post("/{region}/resume", status_code=ACCEPTED, responses=responses(404, 500))
async def resume(plane: ThePlane, found: TheRegion) -> RegionAccepted:
    """Let pipelines go on that are held at a cut."""
    return await ask_for(plane, found, RegionRequestKind.RESUME)


async def ask_for(
    plane: Plane,
    found: RegionSight,
    kind: RegionRequestKind,
    *,
    by: str = BY,
    hold: bool = False,
    force: bool = False,
    member: str = "",
) -> RegionAccepted:
    """Write a request down."""
    name = found.definition.region
    request = RegionRequest(name, kind, by, plane.clock.now_ms(), uuid4().hex, hold, force, member=member)
    await plane.ask_region(request)
    return RegionAccepted(region=name, request_id=request.request_id)
