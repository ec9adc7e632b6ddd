"""Who sees to it that the pipeline of a job that has ended is stopped: of each such job one member, as long as the value
remembers it. Agents end what runs on their hosts; where an agent is dead, only the pipeline's own log reaches its nodes."""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.core.cluster.duties import Identity
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
    if not me.is_known_by(replica) or not replica.members:
        return ()
    return tuple(
        ended_job(replica, job)
        for _, job in sorted(replica.jobs.items())
        if not job.active and _teller(replica, job) == me.name
    )


def _teller(replica: Replica, job: ClusterJob) -> str:
    """Ended jobs have no place; they are spread over all members."""
    return replica.members[job.touched % len(replica.members)]
