"""What an agent has to say, as a function of the newest replica and of whom it hears: duties, not reactions
to single entries.

A duty follows from the value, whatever led to it. So nothing is lost when entries were skipped, read late or
rejected, and nothing has to be remembered or flushed: a duty is there until the value says that it is done.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from kcontrol.core.cluster import ring
from kcontrol.core.cluster.entries import (
    Abort,
    Accept,
    ClusterEntry,
    ConfirmSnapshot,
    Leave,
    Notify,
    Prepare,
    ProposeSnapshot,
)
from kcontrol.core.cluster.joining import beside
from kcontrol.core.cluster.liveness import Liveness, Who, is_heard, silent
from kcontrol.core.cluster.looked_up import looked_up
from kcontrol.core.cluster.model import FIRST_LEVEL, AgentStage, Replica


@dataclass(frozen=True, slots=True)
class Identity:
    """What an agent knows of itself. earlier: incarnations that its disk remembers, the oldest first. began_ms:
    of this process, by the wall clock."""

    name: str
    incarnation: str
    slots: int
    tags: tuple[str, ...] = ()
    levels: tuple[int, int] = (FIRST_LEVEL, FIRST_LEVEL)
    earlier: tuple[str, ...] = ()
    began_ms: int = 0

    @property
    def who(self) -> Who:
        return self.name, self.incarnation

    def is_known_by(self, replica: Replica) -> bool:
        """Whether this very incarnation is in the value."""
        known = replica.agents.get(self.name)
        return known is not None and known.incarnation == self.incarnation

    def was_known_by(self, replica: Replica) -> bool:
        """Whether an earlier one is."""
        known = replica.agents.get(self.name)
        return known is not None and known.incarnation in self.earlier


_WATCHING = ("agents", "members", "pairs", "prepared", "accepted", "waiting", "collectors")
"""What it follows from whose beats matter."""


@looked_up(*_WATCHING)
def watched(replica: Replica, name: str) -> AbstractSet[str]:
    """Whose beats matter to an agent, so that no watch can be forgotten.

    To a member: whom it watches in the ring, and every joiner that is to come between them, from `prepared`
    on. To a joiner: both its neighbours to be. To who waits: all members, as it waits for one of them to
    move; which of those that wait says so, `_silent` decides.
    """
    match replica.stage(name):
        case AgentStage.WAITING | AgentStage.COLLECTING:
            return set(replica.members)
        case AgentStage.PREPARED | AgentStage.ACCEPTED:
            return set(beside(replica, name))
        case AgentStage.MEMBER:
            by = ring.watchers(replica)
            joiners = {joiner for joiner, target in ring.joins(replica).items() if by[target] == name}
            return joiners | ({replica.pairs[name]} if name in replica.pairs else set())
        case AgentStage.UNKNOWN:
            return set()


@looked_up("agents")
def lives(replica: Replica) -> AbstractSet[Who]:
    """All that are known, each by its incarnation."""
    return {(agent.name, agent.incarnation) for agent in replica.agents.values()}


def duties(replica: Replica, me: Identity, liveness: Liveness) -> list[ClusterEntry]:
    """What to append to the log, the most urgent first."""
    if not me.is_known_by(replica):
        return _join(replica, me, liveness)
    gone = _silent(replica, me, liveness)
    asked: list[ClusterEntry] = [
        Leave(*one, *me.who, "silent") for one in sorted(gone) if one[0] in replica.members
    ]
    stage = replica.stage(me.name)
    if stage is AgentStage.MEMBER:
        asked += _for_joiners(replica, me, liveness, gone)
    elif stage is AgentStage.COLLECTING:
        asked += _join(replica, me, liveness)
    elif stage is AgentStage.PREPARED and _hears(replica, liveness, replica.prepared[me.name]):
        asked.append(Notify(*me.who))
    return asked


def _silent(replica: Replica, me: Identity, liveness: Liveness) -> set[Who]:
    """Of those whose beats matter to me, so that a death is said by few, however many wait.

    All who wait miss the same members. The first of them says so, and everybody else only in its place: once a member has
    missed as many of my beats again for each of those before me that I hear. So one that is dead is passed over at once,
    and one that beats and for whatever reason says nothing, after a while.
    """
    gone = silent(liveness, _watched_lives(replica, me.name), replica.policy)
    if not gone or replica.stage(me.name) is not AgentStage.WAITING:
        return gone
    before = replica.waiting[: replica.waiting.index(me.name)]
    longer = replica.policy.silent_after * sum(_hears(replica, liveness, one) for one in before)
    return silent(liveness, gone, replica.policy, longer)


@looked_up(*_WATCHING)
def _watched_lives(replica: Replica, name: str) -> tuple[Who, ...]:
    return tuple((one, _incarnation(replica, one)) for one in watched(replica, name))


def goodbye(replica: Replica, me: Identity, reason: str) -> ClusterEntry:
    """What an agent says that the value knows, and that is asked to go. Who is still joining need not be missed first by the
    members beside it."""
    if me.name in replica.members:
        return Leave(*me.who, *me.who, reason)
    return Abort(*me.who, *me.who)


def _incarnation(replica: Replica, name: str) -> str:
    return replica.agents[name].incarnation


def _hears(replica: Replica, liveness: Liveness, name: str) -> bool:
    return is_heard(liveness, (name, _incarnation(replica, name)), replica.policy)


def _join(replica: Replica, me: Identity, liveness: Liveness) -> list[ClusterEntry]:
    """As nobody yet, as the next incarnation of who is known by this name, or in place of one that is silent.
    None if another process has the name and lives."""
    known = replica.agents.get(me.name)
    ask = Prepare(*me.who, slots=me.slots, tags=me.tags, levels=me.levels, began_ms=me.began_ms)
    if known is None or me.name in replica.collectors:
        return [ask]
    if me.was_known_by(replica):
        return [replace(ask, previous=known.incarnation)]
    if silent(liveness, ((me.name, known.incarnation),), replica.policy):
        return [replace(ask, previous=known.incarnation, lost=True)]
    return []


def _for_joiners(replica: Replica, me: Identity, liveness: Liveness, gone: set[Who]) -> list[ClusterEntry]:
    asked: list[ClusterEntry] = []
    joins = ring.joins(replica)
    if not joins:
        return asked
    by = ring.watchers(replica)
    for joiner, target in sorted(joins.items()):
        if by[target] != me.name:
            continue
        who = joiner, _incarnation(replica, joiner)
        if who in gone:
            asked.append(Abort(*who, *me.who))
        elif joiner in replica.accepted and is_heard(liveness, who, replica.policy):
            asked.append(Accept(*who, *me.who))
    return asked


def snapshot_duties(replica: Replica, me: Identity, marks: dict[int, str]) -> list[ClusterEntry]:
    """One member proposes, whom it watches confirms that it has the same value there; only then is the log
    cut.

    marks: digests of this agent's own replica, by offset, the newest last. A taker that says nothing delays a snapshot to the
    next mark, another's turn. What a confirmer leaves, the taker of the next mark confirms before it proposes its own: it is
    another one at each mark, so two that can are enough, one for each, wherever they are in the ring.
    """
    if not me.is_known_by(replica) or me.name not in replica.members:
        return []
    every = replica.policy.snapshot_every
    newest = next((at for at in reversed(marks) if at % every == 0 and 0 < at <= replica.offset), -1)
    takes = newest > 0 and replica.members[newest // every % len(replica.members)] == me.name
    proposed = replica.proposed
    asked: list[ClusterEntry] = []
    if proposed is not None and marks.get(proposed.offset) == proposed.digest:
        confirmer = replica.pairs.get(proposed.by, replica.members[0])
        takes_over = takes and newest > proposed.offset and me.name != proposed.by
        if confirmer == me.name or takes_over:
            asked.append(ConfirmSnapshot(*me.who, proposed.offset, proposed.digest))
    if takes and newest > max(replica.base.offset, proposed.offset if proposed else -1):
        asked.append(ProposeSnapshot(*me.who, newest, marks[newest]))
    return asked
