"""Who sees to it that the pipeline of a job gets as many nodes as are wanted: its warden, until the value says that it has
them. As every duty it follows from the value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kcontrol.core.cluster.duties import Identity
from kcontrol.core.cluster.entries import JobResized
from kcontrol.core.cluster.looked_up import looked_up
from kcontrol.core.cluster.model import ClusterJob, Replica
from kcontrol.core.cluster.resizing import is_known
from kcontrol.core.cluster.wards import warden


@dataclass(frozen=True, slots=True, order=True)
class Resizing:
    """A job that is being given another number of nodes. nodes: how many are wanted. as_of: of the cluster's log. founded_ms,
    wish: which entry of which log wants them; what is asked of the pipeline by an older one counts no more."""

    job: str
    revision: int
    nodes: int
    as_of: int
    founded_ms: int
    wish: int

    def seen(self, nodes: int) -> JobResized:
        """What is to be said once its pipeline was looked at, and has so many."""
        return JobResized(self.job, self.revision, self.as_of, nodes)


def resizings(replica: Replica, me: Identity) -> tuple[Resizing, ...]:
    """Those of which this agent is the warden."""
    mine = _by_warden(replica).get(me.name, ())
    if not mine or not me.is_known_by(replica):
        return ()
    return tuple(
        Resizing(job.name, job.revision, job.nodes, replica.offset, replica.founded_ms, job.touched)
        for job in mine
    )


@looked_up("jobs", "allocations", "members")
def _by_warden(replica: Replica) -> dict[str, tuple[ClusterJob, ...]]:
    """Jobs that are being given another number of nodes."""
    found: dict[str, tuple[ClusterJob, ...]] = {}
    for job in replica.active() if replica.members else ():
        if job.kept:
            name = warden(replica, job.name, job.tasks[0].name)
            found[name] = (*found.get(name, ()), job)
    return found


def to_be_said(replica: Replica, seen: Iterable[JobResized]) -> dict[str, JobResized]:
    """By job, what of this the value does not say and has not overtaken."""
    found = {}
    for one in seen:
        job = replica.jobs.get(one.job)
        if job is None or not job.active or job.revision != one.revision or not job.kept:
            continue
        if one.as_of >= job.touched and not is_known(job, one.nodes):
            found[one.job] = one
    return found
