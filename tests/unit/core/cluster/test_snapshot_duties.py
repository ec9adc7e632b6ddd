"""Who proposes a snapshot and who confirms it, where somebody does not."""

from __future__ import annotations

from collections.abc import Collection
from itertools import product

import pytest

from kcontrol.core.cluster.duties import Identity, snapshot_duties
from kcontrol.core.cluster.entries import ClusterEntry, ConfirmSnapshot, ProposeSnapshot
from kcontrol.core.cluster.model import ClusterPolicy, Mark, Proposed, Replica
from kcontrol.core.cluster.replica import apply
from tests.unit.core.cluster.made import after, incarnation, ring_of

EVERY = ClusterPolicy().snapshot_every


def marks_until(offset: int) -> dict[int, str]:
    """The same value for all, at each offset at which snapshots may be taken."""
    return {at: f"sha {at}" for at in range(EVERY, offset + 1, EVERY)}


def says(value: Replica, name: str) -> list[ClusterEntry]:
    return snapshot_duties(value, Identity(name, incarnation(name), 1), marks_until(value.offset))


def propose(name: str, offset: int) -> ProposeSnapshot:
    return ProposeSnapshot(name, incarnation(name), offset, f"sha {offset}")


def confirm(name: str, offset: int) -> ConfirmSnapshot:
    return ConfirmSnapshot(name, incarnation(name), offset, f"sha {offset}")


def test_what_stays_unconfirmed_is_overtaken_at_the_next_mark_and_that_can_be_confirmed() -> None:
    value = ring_of("ab", EVERY)
    assert says(value, "a") == []
    assert says(value, "b") == [propose("b", EVERY)]
    value = after(value, propose("b", EVERY))
    assert (says(value, "a"), says(value, "b")) == ([confirm("a", EVERY)], [])

    value = value.but(offset=2 * EVERY)
    assert says(value, "a") == [confirm("a", EVERY), propose("a", 2 * EVERY)]
    assert says(value, "b") == [], "a has not confirmed what b proposed, and it is a's turn"
    value = after(value, propose("a", 2 * EVERY))
    assert value.proposed == Proposed(2 * EVERY, f"sha {2 * EVERY}", "a")
    assert (says(value, "a"), says(value, "b")) == ([], [confirm("b", 2 * EVERY)])
    value = after(value, confirm("b", 2 * EVERY))
    assert (value.base, value.proposed) == (Mark(2 * EVERY, f"sha {2 * EVERY}"), None)
    assert says(value, "a") == says(value, "b") == []


def test_a_confirmed_snapshot_is_followed_by_the_next_ones() -> None:
    value = ring_of("abc", EVERY)
    for mark, (taker, confirmer) in enumerate((("b", "c"), ("c", "a"), ("a", "b")), start=1):
        value = value.but(offset=mark * EVERY)
        for entry in (propose(taker, mark * EVERY), confirm(confirmer, mark * EVERY)):
            assert {name: said for name in "abc" if (said := says(value, name))} == {entry.by: [entry]}
            value = after(value, entry)
        assert value.base.offset == mark * EVERY


@pytest.mark.parametrize("marks", [0, 1, 2, 7])
def test_what_nobody_confirms_at_once_two_of_a_thousand_confirm_at_most(marks: int) -> None:
    names = [f"h{number:04}" for number in range(1_000)]
    value = after(ring_of(names, EVERY), propose(names[1], EVERY)).but(offset=(1 + marks) * EVERY)
    said = [entry for name in names for entry in says(value, name) if isinstance(entry, ConfirmSnapshot)]
    assert {entry.by for entry in said} == {names[2], names[1 + marks]} - {names[1]}


def rings() -> list[tuple[str, str]]:
    """By order of joining, and who of them can propose and confirm; the others beat, and say nothing of snapshots."""
    orders, able = ("abcdefgh", "aebfcgdh", "ahgfedcb"), ("ab", "ae", "ah", "bg", "ace", "aceg")
    return list(product(orders, able))


@pytest.mark.parametrize(("joined", "able"), rings())
def test_two_who_can_are_enough_wherever_they_are(joined: str, able: str) -> None:
    """Of eight, whose ring is by name."""
    assert confirmed(joined, able, able)


@pytest.mark.parametrize(("joined", "able"), rings())
def test_one_that_can_read_is_enough_beside_another_that_stores(joined: str, able: str) -> None:
    assert confirmed(joined, proposers=able, confirmers=able[0])


def confirmed(joined: str, proposers: Collection[str], confirmers: Collection[str]) -> bool:
    """Whether any snapshot is confirmed before each member's turn has come twice. What several have to say, whoever proposes
    says first: that makes void what is to be confirmed."""
    ring = ring_of(sorted(joined), EVERY)
    value = Replica(agents=ring.agents, members=tuple(joined), pairs=ring.pairs, offset=EVERY)
    for mark in range(1, 2 * len(joined) + 1):
        value = value.but(offset=mark * EVERY)
        due = [(name, one) for name in joined for one in says(value, name)]
        for name in sorted({name for name, _ in due}, key=lambda name: name not in proposers):
            for one in (entry for by, entry in due if by == name):
                if name in (proposers if isinstance(one, ProposeSnapshot) else confirmers):
                    value = apply(value, value.offset + 1, one)[0]
        if value.base.offset > 0:
            return True
    return False
