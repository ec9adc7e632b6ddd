"""Who sees to it that the pipeline of a job that has ended is stopped: of each such job one member, as long as the value
remembers it. Agents end what runs on their hosts; where an agent is dead, only the pipeline's own log reaches its nodes."""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.core.cluster.duties import Identity
from kcontrol.core.cluster.looked_up import looked_up
from kcontrol.core.cluster.model import ClusterJob, Replica


@dataclass(frozen=True, slots=True, order=True)
class EndedJob:
    """A job that was killed, has failed, or is completed. founded_ms, wish: by which entry of which log it has ended."""

    job: str
    founded_ms: int
    wish: int


def ended_job(replica: Replica, job: ClusterJob) -> EndedJob:
    """Of a job that has ended, with which nothing of it counts any more."""
    return EndedJob(job.name, replica.founded_ms, job.touched)


def ended_jobs(replica: Replica, me: Identity) -> tuple[EndedJob, ...]:
    """Those of whose pipelines this agent has to see that they were told to stop."""
    mine = _by_teller(replica).get(me.name, ())
    return mine if mine and me.is_known_by(replica) else ()


@looked_up("jobs", "members", "founded_ms")
def _by_teller(replica: Replica) -> dict[str, tuple[EndedJob, ...]]:
    found: dict[str, tuple[EndedJob, ...]] = {}
    for _, job in sorted(replica.jobs.items()) if replica.members else ():
        if not job.active:
            name = _teller(replica, job)
            found[name] = (*found.get(name, ()), ended_job(replica, job))
    return found


def _teller(replica: Replica, job: ClusterJob) -> str:
    """Ended jobs have no place; they are spread over all members."""
    return replica.members[job.touched % len(replica.members)]
