"""What operators change, snapshots, and the level of the function."""

from __future__ import annotations

from dataclasses import replace

from kcontrol.core.cluster.change import Change, EntryRejectedError
from kcontrol.core.cluster.entries import (
    Configure,
    ConfirmSnapshot,
    Drain,
    DrainAgent,
    ProposeSnapshot,
    RaiseLevel,
    SetPolicy,
)
from kcontrol.core.cluster.model import AS_OF_LEVEL, Mark, Proposed


def on_drain(change: Change, entry: Drain) -> None:
    _before_as_of(change)
    _drain(change, entry, -1)


def on_drain_agent(change: Change, entry: DrainAgent) -> None:
    agent = change.replica.agents.get(entry.agent)
    up_to_date(change, entry.as_of, -1 if agent is None else agent.touched)
    _drain(change, entry, change.offset)


def _drain(change: Change, entry: Drain | DrainAgent, touched: int) -> None:
    agent = change.replica.agents.get(entry.agent)
    if agent is None or agent.draining == entry.on:
        raise EntryRejectedError("no such agent, or nothing to change")
    change.put_agent(replace(agent, draining=entry.on, touched=touched))
    change.reschedule = True


def on_configure(change: Change, entry: Configure) -> None:
    _before_as_of(change)
    _configure(change, entry, -1)


def on_set_policy(change: Change, entry: SetPolicy) -> None:
    up_to_date(change, entry.as_of, change.replica.configured)
    _configure(change, entry, change.offset)


def _configure(change: Change, entry: Configure | SetPolicy, configured: int) -> None:
    if entry.policy == change.replica.policy or not entry.policy.makes_sense:
        raise EntryRejectedError("nothing to change, or a policy that makes no sense")
    change.set(policy=entry.policy, configured=configured)
    change.reschedule = True


def _before_as_of(change: Change) -> None:
    """What does not say how far its author had read may be a second copy, which arrives late."""
    if change.level >= AS_OF_LEVEL:
        raise EntryRejectedError(
            f"from level {AS_OF_LEVEL} on it has to say as of which entry it is asked for"
        )


def up_to_date(change: Change, as_of: int, touched: int) -> None:
    """Raises EntryRejectedError for a wish that was made before the newest one about the same counted."""
    if change.level < AS_OF_LEVEL:
        raise EntryRejectedError(f"it needs level {AS_OF_LEVEL}")
    if as_of < touched:
        raise EntryRejectedError("it was changed since this was asked for")
    if as_of >= change.offset:
        raise EntryRejectedError("it says that it has read what comes after it")


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
