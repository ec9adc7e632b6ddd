"""What operators change, snapshots, and the level of the function."""

from __future__ import annotations

from dataclasses import replace

from kcontrol.core.cluster.change import Change, EntryRejectedError
from kcontrol.core.cluster.entries import Configure, ConfirmSnapshot, Drain, ProposeSnapshot, RaiseLevel
from kcontrol.core.cluster.model import Mark, Proposed


def on_drain(change: Change, entry: Drain) -> None:
    agent = change.replica.agents.get(entry.agent)
    if agent is None or agent.draining == entry.on:
        raise EntryRejectedError("no such agent, or nothing to change")
    change.put_agent(replace(agent, draining=entry.on))
    change.reschedule = True


def on_configure(change: Change, entry: Configure) -> None:
    if entry.policy == change.replica.policy or not entry.policy.makes_sense:
        raise EntryRejectedError("nothing to change, or a policy that makes no sense")
    change.set(policy=entry.policy)
    change.reschedule = True


def on_raise_level(change: Change, entry: RaiseLevel) -> None:
    if entry.level != change.replica.level + 1:
        raise EntryRejectedError("levels are raised one by one")
    if any(entry.level > agent.levels[1] for agent in change.replica.agents.values()):
        raise EntryRejectedError("an agent does not support it yet")
    change.set(level=entry.level)


def on_propose_snapshot(change: Change, entry: ProposeSnapshot) -> None:
    change.author(entry.by, entry.by_incarnation)
    if (
        entry.by not in change.replica.members
        or not change.replica.base.offset < entry.offset < change.offset
    ):
        raise EntryRejectedError("not by a member, or no newer than what is confirmed")
    change.set(proposed=Proposed(entry.offset, entry.digest, entry.by))


def on_confirm_snapshot(change: Change, entry: ConfirmSnapshot) -> None:
    change.author(entry.by, entry.by_incarnation)
    proposed = change.replica.proposed
    if proposed is None or (proposed.offset, proposed.digest) != (entry.offset, entry.digest):
        raise EntryRejectedError("nothing like it was proposed")
    if entry.by not in change.replica.members:
        raise EntryRejectedError("not by a member")
    if entry.by == proposed.by and len(change.replica.members) > 1:
        raise EntryRejectedError("who proposed it does not confirm it")
    change.set(proposed=None, base=Mark(entry.offset, entry.digest))
