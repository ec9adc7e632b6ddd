"""Who looks whether a task is done: of each open task one agent, its warden.

It follows from the value, as every duty does: whoever is the warden when a task is done, or becomes it later, sees that
it is and says so, until the value says it as well.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.core.cluster.duties import Identity
from kcontrol.core.cluster.looked_up import looked_up
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
    mine = _by_warden(replica).get(me.name, ())
    return mine if mine and me.is_known_by(replica) else ()


@looked_up("jobs", "allocations", "members")
def _by_warden(replica: Replica) -> dict[str, tuple[Ward, ...]]:
    found: dict[str, tuple[Ward, ...]] = {}
    for job in replica.active() if replica.members else ():
        for task in job.open_tasks:
            name = warden(replica, job.name, task.name)
            found[name] = (*found.get(name, ()), Ward(job.name, job.revision, task.name))
    return found


def warden(replica: Replica, job: str, task: str) -> str:
    """The agent that looks after a task; there is a member."""
    places = replica.allocations.get(job, {}).get(task, ())
    return next((place.agent for place in places if place is not None), replica.members[0])
