"""Joining in two phases, leaving, and who may say that another is dead.

Prepare gives a joiner whom it will watch, notify says that it hears that one, accept that its watcher hears
the joiner: nobody gets work before the one that will watch it has heard it. Who finds no member free waits in
the value, first come, first served.
"""

from __future__ import annotations

from dataclasses import replace

from kcontrol.core.cluster import ring
from kcontrol.core.cluster.change import Change, EntryRejectedError, without
from kcontrol.core.cluster.entries import Abort, Accept, Leave, Notify, PeerGc, Prepare
from kcontrol.core.cluster.model import AS_OF_LEVEL, Agent, AgentStage, Replica


def on_prepare(change: Change, entry: Prepare) -> None:
    _supported(change.replica, entry.levels)
    agent = Agent(
        entry.agent,
        entry.incarnation,
        change.offset,
        entry.slots,
        tuple(sorted(set(entry.tags))),
        entry.levels,
        entry.once,
        touched=change.offset if change.level >= AS_OF_LEVEL else -1,
    )
    if agent.slots < 0:
        raise EntryRejectedError("slots below 0")
    known = change.replica.agents.get(entry.agent)
    if known is not None and entry.agent not in change.replica.collectors:
        _may_replace(known, entry)
        if not entry.lost:
            _renew(change, known, agent)
            return
        _give_up(change, entry.agent)
    elif known is None and len(change.replica.agents) >= change.replica.policy.agents:
        raise EntryRejectedError("as many agents are known as may be")
    _join(change, agent)
    if change.replica.founded_ms == 0:
        change.set(founded_ms=max(1, entry.began_ms))


def _supported(replica: Replica, levels: tuple[int, int]) -> None:
    if not levels[0] <= replica.level <= levels[1]:
        raise EntryRejectedError("the agent does not support the cluster's level")


def _may_replace(known: Agent, entry: Prepare) -> None:
    if known.incarnation == entry.incarnation:
        raise EntryRejectedError("it is joining or has joined")
    if known.incarnation != entry.previous:
        raise EntryRejectedError("another process has this name")


def _renew(change: Change, known: Agent, agent: Agent) -> None:
    """The same agent in its next incarnation keeps its place in the ring and its units."""
    change.put_agent(replace(agent, draining=known.draining, touched=known.touched))
    change.reschedule |= (known.slots, known.tags) != (agent.slots, agent.tags)


def _give_up(change: Change, name: str) -> None:
    if change.replica.is_member(name):
        remove_member(change, name)
    else:
        _forget_joiner(change, name)


def _join(change: Change, agent: Agent) -> None:
    change.put_agent(agent)
    change.set(collectors=tuple(one for one in change.replica.collectors if one != agent.name))
    if agent.once and change.replica.members and not ring.candidates(change.replica):
        change.drop_agent(agent.name)
        return
    change.set(waiting=(*change.replica.waiting, agent.name))


def match_waiting(change: Change) -> None:
    """Whoever waits longest is given whom it will watch, `candidates[(offset // 3) mod count]`, at level 1
    `candidates[offset mod count]`; the first of an empty ring is a member."""
    if change.replica.waiting and not change.replica.members:
        first, *rest = change.replica.waiting
        change.set(waiting=tuple(rest))
        change.put_member(first, {})
    while change.replica.waiting and (free := ring.candidates(change.replica)):
        first, *rest = change.replica.waiting
        target = free[_chosen(change) % len(free)]
        change.set(waiting=tuple(rest), prepared={**change.replica.prepared, first: target})


def _chosen(change: Change) -> int:
    """At level 1 the offset. From level 2 on neighbours in the log are not neighbours in the ring, which
    spreads joins that come together; and two levels show that agents of different versions never apply one
    entry differently."""
    return change.offset if change.level < 2 else change.offset // 3


def on_notify(change: Change, entry: Notify) -> None:
    change.author(entry.agent, entry.incarnation)
    target = change.replica.prepared.get(entry.agent)
    if target is None:
        raise EntryRejectedError("it is not prepared")
    change.set(
        prepared=without(change.replica.prepared, entry.agent),
        accepted={**change.replica.accepted, entry.agent: target},
    )


def on_accept(change: Change, entry: Accept) -> None:
    replica = change.replica
    change.author(entry.by, entry.by_incarnation)
    joiner, target = replica.agents.get(entry.agent), replica.accepted.get(entry.agent)
    if joiner is None or joiner.incarnation != entry.incarnation or target is None:
        raise EntryRejectedError("the joiner has not notified")
    if ring.watcher(replica, target) != entry.by:
        raise EntryRejectedError("somebody else watches whom the joiner will watch")
    change.set(accepted=without(replica.accepted, entry.agent))
    change.put_member(entry.agent, ring.insert(replica.pairs, entry.agent, target, entry.by))


def on_abort(change: Change, entry: Abort) -> None:
    replica = change.replica
    joiner = replica.agents.get(entry.agent)
    if joiner is None or joiner.incarnation != entry.incarnation or replica.is_member(entry.agent):
        raise EntryRejectedError("it is not joining")
    change.author(entry.by, entry.by_incarnation)
    if entry.by != entry.agent and entry.by not in beside(replica, entry.agent):
        raise EntryRejectedError("its author has no part in this join")
    _forget_joiner(change, entry.agent)


def beside(replica: Replica, joiner: str) -> tuple[str, ...]:
    """The two members between which a joiner is to come; none if it has not been given anybody."""
    target = replica.joining(joiner)
    return () if target is None else (target, ring.watcher(replica, target))


def _forget_joiner(change: Change, name: str) -> None:
    replica = change.replica
    change.set(
        prepared=without(replica.prepared, name),
        accepted=without(replica.accepted, name),
        waiting=tuple(one for one in replica.waiting if one != name),
        collectors=tuple(one for one in replica.collectors if one != name),
    )
    change.drop_agent(name)


def may_report(replica: Replica, by: str, gone: str) -> bool:
    """Whether `by` may say that a member is gone: itself, its watcher, a joiner beside it, and who can't join
    because of it."""
    return (
        by == gone
        or replica.stage(by) in (AgentStage.WAITING, AgentStage.COLLECTING)
        or replica.pairs.get(by) == gone
        or gone in beside(replica, by)
    )


def on_leave(change: Change, entry: Leave) -> None:
    gone = change.replica.agents.get(entry.agent)
    if gone is None or gone.incarnation != entry.incarnation or not change.replica.is_member(entry.agent):
        raise EntryRejectedError("it is not a member, or a new incarnation is")
    change.author(entry.by, entry.by_incarnation)
    if not may_report(change.replica, entry.by, entry.agent):
        raise EntryRejectedError("its author does not watch it")
    remove_member(change, entry.agent)


def remove_member(change: Change, gone: str) -> None:
    """Close the ring. Joins that it took part in wait again, in front of all others, the oldest first."""
    replica = change.replica
    dropped = [joiner for joiner in ring.joins(replica) if gone in beside(replica, joiner)]
    at = replica.members.index(gone)
    change.set(
        members=replica.members[:at] + replica.members[at + 1 :], pairs=ring.close(replica.pairs, gone)
    )
    change.drop_agent(gone)
    for joiner in sorted(dropped, key=lambda name: -replica.agents[name].since):
        change.set(
            prepared=without(change.replica.prepared, joiner),
            accepted=without(change.replica.accepted, joiner),
        )
        if replica.agents[joiner].once:
            change.drop_agent(joiner)
        else:
            change.set(waiting=(joiner, *change.replica.waiting))
    change.reschedule = True


def on_peer_gc(change: Change, entry: PeerGc) -> None:
    _supported(change.replica, entry.levels)
    if entry.by in change.replica.agents:
        raise EntryRejectedError("it is joining or has joined")
    change.put_agent(Agent(entry.by, entry.by_incarnation, change.offset, 0, (), entry.levels))
    change.set(collectors=(*change.replica.collectors, entry.by))
    while len(change.replica.collectors) > change.replica.policy.collectors:
        _forget_joiner(change, change.replica.collectors[0])
