"""`/v1/cluster`: the cluster of agents, its hosts, what runs where, and why something waits; jobs killed or tried again, and
hosts drained."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field

from kcontrol.adapters.http.limits import MAX_PAGE_SIZE, PAGE_SIZE
from kcontrol.adapters.http.plane import ThePlane
from kcontrol.adapters.http.problems import responses
from kcontrol.requests.agents import HostDrainAsked, JobKillAsked, JobRetryAsked
from kcontrol.views.agents_facts import (
    AgentFacts,
    EntryFacts,
    JobFacts,
    PolicyFacts,
    agents_of,
    entry_of,
    jobs_of,
    policy_of,
)
from kcontrol.wire.names import MAX_PIPELINE_NAME

JobName = Annotated[
    str,
    Path(pattern="^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$", max_length=MAX_PIPELINE_NAME, description="Its name."),
]
AgentName = Annotated[str, Path(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$", description="Its name.")]

router = APIRouter(prefix="/v1/cluster", tags=["cluster"])


class ClusterAnswer(BaseModel):
    """The cluster of agents as of an offset of its log. Without agents there is nothing in it."""

    as_of: int = Field(description="Offset of the newest entry of the log that counts; -1 if there is none.")
    level: int = Field(description="Of the function that all agents apply.")
    scheduler: str = Field(description="How slots are shared among jobs.")
    members: int
    slots: int = Field(description="Of members that take nodes.")
    used: int = Field(description="Of them, those with a node.")
    snapshot: int = Field(description="Offset of the newest confirmed snapshot; -1 if there is none.")
    policy: PolicyFacts = Field(description="What all agents do alike.")


class AgentsAnswer(BaseModel):
    """Agents by name."""

    as_of: int
    agents: list[AgentFacts]


class JobsAnswer(BaseModel):
    """Jobs by precedence: what was submitted first comes first."""

    as_of: int
    jobs: list[JobFacts]


class LogAnswer(BaseModel):
    """The newest entries of the cluster's log that this server has read, the oldest first."""

    as_of: int
    entries: list[EntryFacts]


@router.get("", responses=responses())
async def cluster(plane: ThePlane) -> ClusterAnswer:
    """How many hosts there are, and what room is left."""
    value = plane.agents().replica
    return ClusterAnswer(
        as_of=value.offset,
        level=value.level,
        scheduler=str(value.policy.scheduler),
        members=len(value.members),
        slots=sum(agent.slots for agent in value.usable().values()),
        used=len(value.places()),
        snapshot=value.base.offset,
        policy=policy_of(value),
    )


@router.get("/agents", responses=responses())
async def agents(plane: ThePlane) -> AgentsAnswer:
    """Who is there, with how many slots, and who watches whom."""
    seen = plane.agents()
    return AgentsAnswer(as_of=seen.replica.offset, agents=agents_of(seen))


@router.get("/jobs", responses=responses())
async def jobs(plane: ThePlane) -> JobsAnswer:
    """What runs where, and why something waits."""
    seen = plane.agents()
    return JobsAnswer(as_of=seen.replica.offset, jobs=jobs_of(seen.replica, seen.entries))


@router.get("/log", responses=responses())
async def log(
    plane: ThePlane,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE, description="So many newest entries.")] = PAGE_SIZE,
) -> LogAnswer:
    """What was asked for and said, and what it changed."""
    seen = plane.agents()
    entries = [entry_of(one) for one in list(seen.entries)[-limit:]]
    return LogAnswer(as_of=seen.replica.offset, entries=entries)


@router.post("/jobs/{job}/kill", responses=responses(404, 409, 500))
async def kill(plane: ThePlane, job: JobName) -> EntryFacts:
    """End the nodes of a job, and stop its pipeline; what that has committed stays. Answered once it counts, with the entry of
    the cluster's log."""
    return entry_of(await plane.ask_agents(JobKillAsked(job)))


@router.post("/jobs/{job}/retry", responses=responses(404, 409, 500))
async def retry(plane: ThePlane, job: JobName) -> EntryFacts:
    """Have nodes of a job tried again also on hosts that could not run them, once what was wrong there is put right; a job that
    has failed begins again. Answered once it counts, with the entry of the cluster's log; asked again, it changes nothing, and
    is answered with 404."""
    return entry_of(await plane.ask_agents(JobRetryAsked(job)))


@router.post("/agents/{agent}/drain", responses=responses(404, 409, 500))
async def drain(
    plane: ThePlane,
    agent: AgentName,
    off: Annotated[bool, Query(description="Let it have nodes again.")] = False,
) -> EntryFacts:
    """Move all nodes away from an agent's host, before it is shut down. Answered once it counts, with the entry of the
    cluster's log."""
    return entry_of(await plane.ask_agents(HostDrainAsked(agent, not off)))
