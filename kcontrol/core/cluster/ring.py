"""The ring of watchers: who may be joined to, who watches whom, what a death closes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kcontrol.core.cluster.looked_up import looked_up
from kcontrol.core.cluster.model import Replica

Pairs = Mapping[str, str]
"""Watcher -> watched."""


@looked_up("members", "pairs")
def watchers(replica: Replica) -> Mapping[str, str]:
    """By member, who watches it. A lone member is its own watcher where joins are concerned."""
    if len(replica.members) == 1:
        return {replica.members[0]: replica.members[0]}
    return {watched: watcher for watcher, watched in replica.pairs.items()}


def watcher(replica: Replica, watched: str) -> str:
    """Who watches one member: as `watchers`, for one alone."""
    if len(replica.members) == 1:
        return replica.members[0]
    return _watcher(replica.pairs, watched)


def _watcher(pairs: Pairs, watched: str) -> str:
    return list(pairs)[list(pairs.values()).index(watched)]


@looked_up("prepared", "accepted")
def joins(replica: Replica) -> Mapping[str, str]:
    """Joiner -> whom it will watch, of all joins under way."""
    return {**replica.prepared, **replica.accepted}


def candidates(replica: Replica) -> list[str]:
    """Members that take part in no join, neither as who will be watched nor as who watches that one now; by
    name."""
    if not replica.prepared and not replica.accepted:
        return sorted(replica.members)
    by = watchers(replica)
    targets = joins(replica).values()
    busy = {*targets, *(by[target] for target in targets)}
    return sorted(member for member in replica.members if member not in busy)


def insert(pairs: Pairs, joiner: str, target: str, watcher: str) -> dict[str, str]:
    """watcher -> target becomes watcher -> joiner -> target; two of a lone member and its joiner."""
    return {**pairs, watcher: joiner, joiner: target}


def close(pairs: Pairs, gone: str) -> dict[str, str]:
    """Without a member: its watcher watches whom it watched. Who is left alone watches nobody."""
    if len(pairs) <= 2:
        return {}
    after = dict(pairs)
    after[_watcher(pairs, gone)] = after.pop(gone)
    return after


def is_ring(pairs: Pairs, members: Sequence[str]) -> bool:
    """One circle through all members; no pairs for fewer than two."""
    if len(members) < 2:
        return not pairs
    if set(pairs) != set(members):
        return False
    seen, at = {members[0]}, pairs[members[0]]
    while at not in seen and at in pairs:
        seen.add(at)
        at = pairs[at]
    return at == members[0] and len(seen) == len(members)
