"""Who looks whether a task is done: of each open task one agent, its warden.

It follows from the value, as every duty does: whoever is the warden when a task is done, or becomes it later, sees that
it is and says so, until the value says it as well.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.core.cluster.duties import Identity
from kcontrol.core.cluster.model import Replica


@dataclass(frozen=True, slots=True, order=True)
class Ward:
    """An open task of a job. revision: of the job; what was done for an earlier one says nothing of it."""

    job: str
    revision: int
    task: str


def wards(replica: Replica, me: Identity) -> tuple[Ward, ...]:
    """Of what this agent is the warden: of tasks whose first node is placed here, and, if it is the oldest member, of
    those that have no place at all."""
    if not me.is_known_by(replica) or not replica.members:
        return ()
    return tuple(
        Ward(job.name, job.revision, task.name)
        for job in replica.active()
        for task in job.open_tasks
        if warden(replica, job.name, task.name) == me.name
    )


def warden(replica: Replica, job: str, task: str) -> str:
    """The agent that looks after a task; there is a member."""
    places = replica.allocations.get(job, {}).get(task, ())
    return next((place.agent for place in places if place is not None), replica.members[0])
