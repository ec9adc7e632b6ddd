"""Who sees to it that a job follows the size of the cluster: its warden, once the cluster has had another size for a while.

A host that is away for a minute moves nodes, as any death does, and gives no pipeline another number of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.core.cluster.duties import Identity
from kcontrol.core.cluster.entries import FitJob
from kcontrol.core.cluster.fitting import fitting, refused
from kcontrol.core.cluster.model import Replica
from kcontrol.core.cluster.wards import warden


@dataclass(frozen=True, slots=True, order=True)
class Fitting:
    """A job that is to have another number of nodes. nodes: how many. has: how many it is to have so far. least: not fewer.
    as_of: of the cluster's log."""

    job: str
    revision: int
    nodes: int
    has: int
    least: int
    as_of: int

    def can_have(self, nodes: int, anew: bool) -> FitJob:
        """What is to be said once its pipeline was looked at, and can have so many."""
        return FitJob(self.job, self.revision, self.as_of, nodes, anew)


class FitWards:
    """Of one agent. steady_ms: so long nothing else may have been due."""

    def __init__(self, steady_ms: int) -> None:
        self._steady_ms = steady_ms
        self._since_ms: dict[tuple[str, int, int], int] = {}
        """By job, its revision and what it is to have: when that was seen first."""
        self._can: dict[str, FitJob] = {}

    def look(self, replica: Replica, me: Identity, now_ms: int) -> tuple[Fitting, ...]:
        """Those that this agent is the warden of, and that have been due for long enough."""
        room = fitting(replica)
        if not room or not me.is_known_by(replica) or not replica.members:
            self._since_ms = {}
            return ()
        due = {}
        for name, nodes in sorted(room.items()):
            job = replica.jobs[name]
            mine = warden(replica, name, job.tasks[0].name) == me.name
            if mine and job.bounds is not None and nodes != job.nodes:
                due[name, job.revision, nodes] = Fitting(
                    name, job.revision, nodes, job.nodes, job.bounds.least, replica.offset
                )
        self._since_ms = {key: self._since_ms.get(key, now_ms) for key in due}
        return tuple(one for key, one in due.items() if now_ms - self._since_ms[key] >= self._steady_ms)

    def can_have(self, one: Fitting, nodes: int, anew: bool) -> None:
        self._can[one.job] = one.can_have(nodes, anew)

    def due(self, replica: Replica) -> list[FitJob]:
        """What is to be said and still counts."""
        if not self._can:
            return []
        self._can = {job: entry for job, entry in self._can.items() if not refused(replica, entry)}
        return [self._can[job] for job in sorted(self._can)]
