"""What is said of a coordinator that can't run on its agent's host: where they run is chosen anew then."""

from __future__ import annotations

from collections.abc import Iterable

from kcontrol.core.cluster.change import Change, EntryRejectedError
from kcontrol.core.cluster.entries import ClusterEntry, Leave, RaiseLevel, TaskFailed
from kcontrol.core.cluster.model import COORDINATOR_LEVEL, Replica
from kcontrol.core.cluster.schedule.keepers import is_able


def raised_to(replica: Replica, level: int) -> RaiseLevel | None:
    """The next level on the way to that one, at which more can be done about what can't run; None if that is reached, or while
    some agent does not know it."""
    known = all(agent.levels[1] >= level for agent in replica.agents.values())
    return RaiseLevel(replica.level + 1) if known and replica.level < level else None


def gone_coordinators(
    before: Replica, after: Replica, entries: Iterable[ClusterEntry | None], agent: str
) -> frozenset[str]:
    """Agents that had a coordinator and were given up, for one that has one itself: it is to see to it that theirs are no
    longer counted on. Whoever has none leaves that to those that have; whoever leaves by itself ends its own.

    entries: what was read between the two values; None for what nobody can read.
    """
    if all(place.agent != agent for place in after.coordinators):
        return frozenset()
    lost = frozenset(place.agent for place in before.coordinators) - after.agents.keys()
    if not lost:
        return lost
    return lost - {one.agent for one in entries if isinstance(one, Leave) and one.by == one.agent}


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
