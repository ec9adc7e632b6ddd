"""A thousand agents: a death, a join and a snapshot take as few entries as with three, though all who have something to say
say it at the same time."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from kcontrol.core.cluster.duties import Identity, duties, lives
from kcontrol.core.cluster.entries import ClusterEntry, Leave, SubmitJob
from kcontrol.core.cluster.liveness import Liveness, Who
from kcontrol.core.cluster.model import AgentStage, ClusterPolicy, Replica, TaskSpec
from kcontrol.core.cluster.replica import apply
from kcontrol.core.cluster.ring import is_ring
from tests.unit.core.cluster.made import after, incarnation, prepare, ring_of

AGENTS = 1_000
NODES = 300
WAITING = 300
OWN_BEATS = 1_000
ROUNDS = 60
SILENT = ClusterPolicy().silent_after
PATIENCE = 2 * ClusterPolicy().silent_after_many
"""So many missed beats are enough for everybody who may have to pass somebody over."""


def cluster() -> Replica:
    value = ring_of((f"h{number:04}" for number in range(AGENTS)), at=9)
    return after(value, SubmitJob("job", "r", value.offset, "p", (TaskSpec("nodes", NODES, NODES),)))


def until_quiet(
    value: Replica, alive: Collection[Who], deaf: Collection[Who] = (), missed: int = 0
) -> tuple[Replica, list[ClusterEntry]]:
    """Each of the living says what is due first, all by one value, again and again until nothing is due. All that was said
    counts, also what was rejected. deaf: find nobody silent. missed: so many beats more than make somebody silent the dead
    have missed to begin with; one more each time."""
    log: list[ClusterEntry] = []
    for beats in range(SILENT + missed, SILENT + missed + ROUNDS):
        known = {*lives(value), *alive}
        at = {who: OWN_BEATS - (0 if who in alive else beats) for who in known}
        heard = Liveness(("", ""), own=OWN_BEATS, at=at, heard=frozenset(alive))
        hears_all = replace(heard, at=dict.fromkeys(known, OWN_BEATS))
        said = [
            due[0]
            for who in alive
            if (due := duties(value, _slot(who), replace(hears_all if who in deaf else heard, me=who)))
        ]
        if not said and beats > PATIENCE:
            return value, log
        for entry in said:
            value, _why = apply(value, value.offset + 1, entry)
        log += said
    pytest.fail(f"after {ROUNDS} rounds somebody still has something to say: {log[-3:]}")


def _slot(who: Who) -> Identity:
    return Identity(*who, slots=1)


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


# --- many wait ------------------------------------------------------------------------------------------


def with_many_waiting(members: str) -> Replica:
    """As many as can join at a time do; the others wait, h000 the first of all that have asked."""
    return after(ring_of(members, at=9), *(prepare(f"h{number:03}") for number in range(WAITING)))


def leaves(log: list[ClusterEntry]) -> list[str]:
    return [entry.agent for entry in log if isinstance(entry, Leave)]


@pytest.mark.parametrize("missed", [0, SILENT - 1])
def test_a_death_is_said_by_few_however_many_wait(missed: int) -> None:
    value = with_many_waiting("abcdef")
    assert len(value.waiting) > WAITING - 6
    alive = lives(value) - {("c", "c-1")}
    found, log = until_quiet(value, alive, missed=missed)
    said = leaves(log)
    assert set(said) == {"c"}
    assert len(said) <= 5, said
    assert set(found.members) == {name for name, _ in alive}, "and all have joined"
    assert is_ring(found.pairs, found.members)


@pytest.mark.parametrize("first", ["dead", "deaf", "the first that lives"])
def test_all_members_may_be_dead_and_the_first_that_wait_no_help(first: str) -> None:
    """Nobody is left who watches anybody: who waits is the only one to say so."""
    value = with_many_waiting("abc")
    beside = {who for who in lives(value) if value.stage(who[0]) is not AgentStage.WAITING}
    no_help = {(name, incarnation(name)) for name in value.waiting[:3]}
    gone = beside | no_help if first == "dead" else beside
    found, log = until_quiet(value, lives(value) - gone, no_help if first == "deaf" else ())
    assert {*"abc"} <= set(leaves(log))
    assert len(leaves(log)) <= 5 * len(gone), leaves(log)
    assert set(found.members) == {name for name, _ in lives(value) - gone}
    assert is_ring(found.pairs, found.members)
