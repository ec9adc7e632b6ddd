"""A thousand agents: a death and a join take as few entries as with three, though all who have something to say say it at the
same time."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from kcontrol.core.cluster.duties import Identity, duties, lives
from kcontrol.core.cluster.entries import ClusterEntry, SubmitJob
from kcontrol.core.cluster.liveness import Liveness, Who
from kcontrol.core.cluster.model import AgentStage, Replica, TaskSpec
from kcontrol.core.cluster.replica import apply
from kcontrol.core.cluster.ring import is_ring
from tests.unit.core.cluster.made import after, incarnation, ring_of

AGENTS = 1_000
NODES = 300
OWN_BEATS = 1_000
ROUNDS = 20


def cluster() -> Replica:
    value = ring_of((f"h{number:04}" for number in range(AGENTS)), at=9)
    return after(value, SubmitJob("job", "r", value.offset, "p", (TaskSpec("nodes", NODES, NODES),)))


def until_quiet(value: Replica, alive: Collection[Who]) -> tuple[Replica, list[ClusterEntry]]:
    """Each of the living says what is due first, all by one value, again and again until nothing is due. All that was said
    counts, also what was rejected."""
    log: list[ClusterEntry] = []
    for _ in range(ROUNDS):
        known = {*lives(value), *alive}
        at = {who: OWN_BEATS if who in alive else 0 for who in known}
        heard = Liveness(("", ""), own=OWN_BEATS, at=at, heard=frozenset(alive))
        said = [
            due[0] for who in alive if (due := duties(value, Identity(*who, slots=1), replace(heard, me=who)))
        ]
        if not said:
            return value, log
        for entry in said:
            value, _why = apply(value, value.offset + 1, entry)
        log += said
    pytest.fail(f"after {ROUNDS} rounds somebody still has something to say: {log[-3:]}")


def test_a_death_is_over_after_three_entries_at_most() -> None:
    value = cluster()
    gone = value.places()["job", "nodes", 7].agent
    alive = lives(value) - {(gone, incarnation(gone))}
    found, log = until_quiet(value, alive)
    assert len(log) <= 3, log
    assert set(found.members) == {name for name, _ in alive}
    assert is_ring(found.pairs, found.members)
    assert len(found.places()) == NODES
    assert gone not in {place.agent for place in found.places().values()}


def test_a_join_is_over_after_five_entries_at_most() -> None:
    value = cluster()
    found, log = until_quiet(value, lives(value) | {("new", "new-1")})
    assert len(log) <= 5, log
    assert found.stage("new") is AgentStage.MEMBER
    assert is_ring(found.pairs, found.members)
    assert found.places() == value.places(), "and nothing moves"
