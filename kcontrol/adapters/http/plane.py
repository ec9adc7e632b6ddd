"""What the operations of one server share: the projections, where writes go, and how a pipeline is found."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, cast

from fastapi import Depends, Path, Query, Request
from prometheus_client import CollectorRegistry
from pydantic import BaseModel, Field

from kcontrol.adapters.http.limits import MAX_WAIT_S
from kcontrol.adapters.http.output_pieces import OutputStreams
from kcontrol.adapters.http.push_desk import PushDesk
from kcontrol.adapters.http.record_texts import BoundaryTexts
from kcontrol.core.model import PipelineSpec
from kcontrol.core.regions.records import RegionAsked
from kcontrol.errors import KcontrolError, NotFoundError
from kcontrol.requests.agents import AskAgents, no_agents
from kcontrol.requests.region_rollbacks import Rollbacks, no_rollbacks
from kcontrol.requests.resets import Resets, no_resets
from kcontrol.requests.table_questions import TableAnswer, TableQuestion, nobody_answers
from kcontrol.sessions.ports import Clock, RecordLook
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.agents_facts import ClusterSeen
from kcontrol.views.cluster_projection import Blocked, Projections
from kcontrol.views.deliveries import DeliveriesSeen
from kcontrol.views.look_limits import MAX_LOOK_OFFSETS
from kcontrol.views.pipeline_projection import PipelineProjection
from kcontrol.views.regions_facts import RegionsSeen
from kcontrol.views.topic_safety import KnownSafety
from kcontrol.wire.names import MAX_PIPELINE_NAME

MAX_LONG = 2**63 - 1

Check = Callable[[], Sequence[Blocked]]
"""What else has to be there before the process is ready."""


class NotReachedError(KcontrolError):
    """The log has not been read up to the offset that an answer was asked to be as of."""


async def _as_it_is(condition: Callable[[], bool], _: float) -> bool:
    """Of a server that is told of no news."""
    return condition()


async def _no_regions(record: RegionAsked) -> int:
    raise NotFoundError(f"there is no region {record.region!r}")


async def _no_deliveries(pipeline: str) -> DeliveriesSeen:  # noqa: ARG001 - of none is anything known
    return DeliveriesSeen(unknown="this server does not ask for deliveries")


@dataclass(frozen=True)
class Plane:
    """checks: of the process that the server is part of, beside the projections' own. longest_wait_s: of a read that was
    asked to wait for what is not there yet. safety: what is known of a pipeline's topics; asks nobody. look: at single
    records of inputs; without it what steps have passed is taken for read. max_look_offsets: as in HttpLimits. ask: whoever
    answers questions about tables. streams: whoever follows outputs; None: nobody. pushes: whoever takes rows. agents: the
    cluster of agents, as it is known; ask_agents: asks them. regions: the same of regions. until_regions: waits until
    something holds of them, or for so many seconds. ask_region: writes what is asked, or said, down, and tells at which
    offset. resets: whoever resets pipelines. rollbacks: whoever plans rollbacks of regions, and asks for them. deliveries:
    what is known of a pipeline's; waits for seconds at most, and raises nothing."""

    settings: ClusterSettings
    projections: Projections
    clock: Clock
    registry: CollectorRegistry
    checks: Sequence[Check] = field(default=())
    longest_wait_s: float = MAX_WAIT_S
    texts: BoundaryTexts = field(default_factory=BoundaryTexts)
    safety: Callable[[PipelineSpec], KnownSafety] = field(default=lambda _: KnownSafety())
    look: RecordLook | None = None
    max_look_offsets: int = MAX_LOOK_OFFSETS
    ask: Callable[[TableQuestion], Awaitable[TableAnswer]] = nobody_answers
    streams: OutputStreams | None = None
    pushes: PushDesk = field(default_factory=PushDesk)
    agents: Callable[[], ClusterSeen] = ClusterSeen
    ask_agents: AskAgents = no_agents
    regions: Callable[[], RegionsSeen] = dict
    until_regions: Callable[[Callable[[], bool], float], Awaitable[bool]] = _as_it_is
    ask_region: Callable[[RegionAsked], Awaitable[int]] = _no_regions
    resets: Resets = no_resets
    rollbacks: Rollbacks = no_rollbacks
    deliveries: Callable[[str], Awaitable[DeliveriesSeen]] = _no_deliveries


class AsOf(BaseModel):
    """Up to where the logs had been read when an answer was made. Later answers of the
    same server are never as of less."""

    control_partition: int = Field(
        description="The partition of the control topic that the pipeline lives in."
    )
    control_offset: int = Field(
        description="Of the newest control record that counts in the answer; -1 if there is none."
    )
    steps_offset: int = Field(
        description="Of the newest record of the log of steps that counts; -1 if there is none."
    )


async def plane_of(request: Request) -> Plane:
    """Of the application that answers. Async, because FastAPI calls a plain function in a thread, for every
    request."""
    return cast(Plane, request.app.state.plane)


def as_of(plane: Plane, projection: PipelineProjection) -> AsOf:
    """Now."""
    return AsOf(
        control_partition=plane.projections.partition_number(projection.pipeline),
        control_offset=projection.control_offset,
        steps_offset=projection.steps_offset,
    )


ThePlane = Annotated[Plane, Depends(plane_of)]
PipelineName = Annotated[
    str,
    Path(
        alias="pipeline",
        description="Name of a pipeline.",
        pattern=r"^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$",
        max_length=MAX_PIPELINE_NAME,
    ),
]
MinOffset = Annotated[
    int,
    Query(
        ge=-1,
        le=MAX_LONG,
        description="Answer only as of this control offset or later: what a write has answered with. Waits "
        f"for it up to {MAX_WAIT_S:g} s.",
    ),
]


async def find_pipeline(
    plane: ThePlane, name: PipelineName, min_control_offset: MinOffset = -1
) -> PipelineProjection:
    """Raises NotFoundError, NotReachedError or NotReadyError."""
    projections = plane.projections
    if min_control_offset >= 0 and not await projections.reached(
        name, min_control_offset, plane.longest_wait_s
    ):
        raise NotReachedError(
            f"control partition {projections.partition_number(name)} was not read up to offset "
            f"{min_control_offset} within {plane.longest_wait_s:g} s"
        )
    return projections.get(name)


ThePipeline = Annotated[PipelineProjection, Depends(find_pipeline)]
