"""What is said of a coordinator that can't run on its agent's host: where they run is chosen anew then."""

from __future__ import annotations

from kcontrol.core.cluster.change import Change, EntryRejectedError
from kcontrol.core.cluster.entries import RaiseLevel, TaskFailed
from kcontrol.core.cluster.model import COORDINATOR_LEVEL, Replica
from kcontrol.core.cluster.schedule.keepers import is_able


def raised_for_coordinators(replica: Replica) -> RaiseLevel | None:
    """The next level on the way to that at which what can't run is placed elsewhere; None while some agent does not know it."""
    known = all(agent.levels[1] >= COORDINATOR_LEVEL for agent in replica.agents.values())
    return RaiseLevel(replica.level + 1) if known else None


def coordinator_failed(change: Change, entry: TaskFailed) -> None:
    """Counts once in a life of its agent. Raises EntryRejectedError."""
    if change.level < COORDINATOR_LEVEL:
        raise EntryRejectedError(f"it needs level {COORDINATOR_LEVEL}")
    if not any(place.is_of(entry.agent, entry.generation) for place in change.replica.coordinators):
        raise EntryRejectedError("it is not placed so any more")
    if not is_able(change.replica, entry.agent):
        raise EntryRejectedError("that is known")
    change.set(unable={**change.replica.unable, entry.agent: entry.error})
    change.reschedule = True
