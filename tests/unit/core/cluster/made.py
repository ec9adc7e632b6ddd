"""Clusters and entries for tests, the short way."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from kcontrol.core.cluster.duties import lives
from kcontrol.core.cluster.entries import Accept, ClusterEntry, Notify, Prepare
from kcontrol.core.cluster.liveness import Liveness
from kcontrol.core.cluster.model import EMPTY, Agent, Replica, Unit
from kcontrol.core.cluster.replica import apply
from kcontrol.core.cluster.ring import watchers

EXAMPLES: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "examples.json").read_text())


def incarnation(name: str) -> str:
    return f"{name}-1"


def prepare(name: str, slots: int = 1, tags: tuple[str, ...] = (), once: bool = False) -> Prepare:
    return Prepare(name, incarnation(name), slots=slots, tags=tags, once=once)


def after(replica: Replica, *entries: ClusterEntry) -> Replica:
    """None of them may be rejected."""
    for entry in entries:
        replica, why = apply(replica, replica.offset + 1, entry)
        assert not why, (entry, why)
    return replica


def rejection(replica: Replica, entry: ClusterEntry) -> str:
    return apply(replica, replica.offset + 1, entry)[1]


def ring_of(names: Iterable[str], at: int = 0) -> Replica:
    """Members of one slot, each watching the next."""
    members = tuple(names)
    agents = {name: Agent(name, incarnation(name), 0, 1) for name in members}
    pairs = dict(zip(members, (*members[1:], members[0]), strict=True)) if len(members) > 1 else {}
    return Replica(agents=agents, members=members, pairs=pairs, offset=at)


def joins(
    names: Iterable[str], replica: Replica = EMPTY, slots: int = 1, tags: tuple[str, ...] = ()
) -> list[ClusterEntry]:
    """The entries by which they become members: three of each, one of the very first."""
    entries: list[ClusterEntry] = []

    def say(entry: ClusterEntry) -> None:
        nonlocal replica
        entries.append(entry)
        replica = after(replica, entry)

    for name in names:
        say(prepare(name, slots, tags))
        if name in replica.members:
            continue
        say(Notify(name, incarnation(name)))
        by = watchers(replica)[replica.accepted[name]]
        say(Accept(name, incarnation(name), by, incarnation(by)))
    return entries


def joined(
    names: Iterable[str], replica: Replica = EMPTY, slots: int = 1, tags: tuple[str, ...] = ()
) -> Replica:
    """With these as members."""
    return after(replica, *joins(names, replica, slots, tags))


def hears(
    replica: Replica, name: str, silent: Collection[str] = (), unheard: Collection[str] = ()
) -> Liveness:
    """What one agent has heard: of all that are known, but for the silent, and for those that have not been heard yet."""
    known, own = lives(replica), 1_000
    at = {who: own - 100 if who[0] in silent else own for who in known}
    heard = frozenset(who for who in known if who[0] not in (*silent, *unheard))
    return Liveness((name, incarnation(name)), own, at=at, heard=heard)


def agents_of(replica: Replica) -> dict[Unit, str]:
    return {unit: place.agent for unit, place in replica.places().items()}
