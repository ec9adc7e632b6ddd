"""The value of a cluster of agents as bytes, in parts that fit into records of Kafka (decision 112).

A mapping is a list of records here: what a reader finds is what the schema says, field by field.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kcontrol.core.cluster.model import (
    AS_OF_LEVEL,
    BOUNDS_LEVEL,
    COORDINATOR_LEVEL,
    RESIZE_LEVEL,
    STANDBY_LEVEL,
    Agent,
    ClusterJob,
    ClusterPolicy,
    Mark,
    Place,
    Proposed,
    Replica,
)
from kcontrol.errors import DamagedRecordError
from kcontrol.wire.codec import HEADER_BYTES, MAGIC, record_bytes, record_of
from kcontrol.wire.schemas import Schema, current_schemas, released_schemas

PART_BYTES = 512 << 10
MAX_SNAPSHOT_BYTES = 64 << 20
_VERSIONS_FROM = (RESIZE_LEVEL, AS_OF_LEVEL, STANDBY_LEVEL, BOUNDS_LEVEL, COORDINATOR_LEVEL)
"""The level that each version of the schema came with, from the second on."""


@dataclass(frozen=True, slots=True)
class WatchPair:
    """`by` watches, or will watch, `watched`."""

    by: str
    watched: str


@dataclass(frozen=True, slots=True)
class UnitPlace:
    """Where a unit is placed; None: nowhere."""

    job: str
    task: str
    index: int
    place: Place | None


@dataclass(frozen=True, slots=True)
class JobTask:
    """A task of a job."""

    job: str
    task: str


@dataclass(frozen=True, slots=True)
class BadAgents:
    """Agents that could not run a unit."""

    unit: str
    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnableAgent:
    """An agent on whose host a coordinator could not run, and why."""

    agent: str
    error: str


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """A replica. empty: tasks that have a list of places without one in it."""

    level: int
    offset: int
    founded_ms: int
    policy: ClusterPolicy
    agents: tuple[Agent, ...]
    members: tuple[str, ...]
    pairs: tuple[WatchPair, ...]
    prepared: tuple[WatchPair, ...]
    accepted: tuple[WatchPair, ...]
    waiting: tuple[str, ...]
    collectors: tuple[str, ...]
    jobs: tuple[ClusterJob, ...]
    forgotten: int
    places: tuple[UnitPlace, ...]
    empty: tuple[JobTask, ...]
    bad: tuple[BadAgents, ...]
    coordinators: tuple[Place, ...]
    proposed: Proposed | None
    base: Mark
    configured: int = -1
    unable: tuple[UnableAgent, ...] = ()


def snapshot_bytes(replica: Replica) -> bytes:
    """Raises ValueError for one of more than MAX_SNAPSHOT_BYTES."""
    data = record_bytes(_snapshot(replica), _schema(replica.level))
    if len(data) > MAX_SNAPSHOT_BYTES:
        raise ValueError(f"a snapshot of {len(data)} bytes is larger than {MAX_SNAPSHOT_BYTES}")
    return data


def _schema(level: int) -> Schema:
    """The newest that all who support the level know (decision 111)."""
    return released_schemas()[ClusterSnapshot.__name__][bisect_right(_VERSIONS_FROM, level)]


def replica_of(data: bytes) -> Replica | None:
    """None if these bytes are no snapshot."""
    found = snapshot_of(data)
    return None if found is None else _replica(found)


def snapshot_of(data: bytes) -> ClusterSnapshot | None:
    """What was written, of whatever version; None if these bytes are no snapshot."""
    name = ClusterSnapshot.__name__
    known = {schema.fingerprint: schema for schema in released_schemas()[name]}
    written = known.get(data[len(MAGIC) : HEADER_BYTES])
    if written is None or not data.startswith(MAGIC):
        return None
    try:
        found: ClusterSnapshot = record_of(
            data, written, current_schemas()[name], ClusterSnapshot, "a snapshot of the cluster"
        )
    except DamagedRecordError:
        return None
    return found


def parts_of(data: bytes) -> list[bytes]:
    return [data[begin : begin + PART_BYTES] for begin in range(0, len(data), PART_BYTES)]


def _snapshot(value: Replica) -> ClusterSnapshot:
    lists = [
        (job, task, places) for job, tasks in value.allocations.items() for task, places in tasks.items()
    ]
    return ClusterSnapshot(
        level=value.level,
        offset=value.offset,
        founded_ms=value.founded_ms,
        policy=value.policy,
        agents=tuple(value.agents.values()),
        members=value.members,
        pairs=_pairs(value.pairs),
        prepared=_pairs(value.prepared),
        accepted=_pairs(value.accepted),
        waiting=value.waiting,
        collectors=value.collectors,
        jobs=tuple(value.jobs.values()),
        forgotten=value.forgotten,
        places=tuple(
            UnitPlace(job, task, index, place)
            for job, task, places in lists
            for index, place in enumerate(places)
        ),
        empty=(
            *(JobTask(job, task) for job, task, places in lists if not places),
            *(JobTask(job, "") for job, tasks in value.allocations.items() if not tasks),
        ),
        bad=tuple(BadAgents(unit, agents) for unit, agents in value.bad.items()),
        coordinators=value.coordinators,
        proposed=value.proposed,
        base=value.base,
        configured=value.configured,
        unable=tuple(UnableAgent(agent, error) for agent, error in value.unable.items()),
    )


def _replica(found: ClusterSnapshot) -> Replica:
    return Replica(
        level=found.level,
        offset=found.offset,
        founded_ms=found.founded_ms,
        policy=found.policy,
        agents={agent.name: agent for agent in found.agents},
        members=found.members,
        pairs=_by_name(found.pairs),
        prepared=_by_name(found.prepared),
        accepted=_by_name(found.accepted),
        waiting=found.waiting,
        collectors=found.collectors,
        jobs={job.name: job for job in found.jobs},
        forgotten=found.forgotten,
        allocations=_allocations(found),
        bad={one.unit: one.agents for one in found.bad},
        coordinators=found.coordinators,
        proposed=found.proposed,
        base=found.base,
        configured=found.configured,
        unable={one.agent: one.error for one in found.unable},
    )


def _allocations(found: ClusterSnapshot) -> dict[str, dict[str, tuple[Place | None, ...]]]:
    places: dict[str, dict[str, tuple[Place | None, ...]]] = {}
    for one in found.empty:
        tasks = places.setdefault(one.job, {})
        if one.task:
            tasks[one.task] = ()
    for unit in found.places:
        tasks = places.setdefault(unit.job, {})
        tasks[unit.task] = (*tasks.get(unit.task, ()), unit.place)
    return places


def _pairs(pairs: Mapping[str, str]) -> tuple[WatchPair, ...]:
    return tuple(WatchPair(by, watched) for by, watched in pairs.items())


def _by_name(pairs: Sequence[WatchPair]) -> dict[str, str]:
    return {pair.by: pair.watched for pair in pairs}
