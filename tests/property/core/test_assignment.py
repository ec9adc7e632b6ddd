"""Who owns which shard: balanced, with the fewest moves that any balanced table needs, the same on every machine."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kcontrol.core.step.assignment import (
    Owners,
    dealt,
    doubled,
    dynamic_shards,
    halved,
    moves,
    moves_between,
    owned_by,
    rebalanced,
    weighted,
)

NODES = st.integers(0, 11)
MEMBERS = st.lists(NODES, min_size=1, max_size=8, unique=True).map(tuple)
TABLES = st.lists(NODES, min_size=1, max_size=70).map(tuple)
SLACKS = st.sampled_from([Fraction(0), Fraction(1, 10), Fraction(1, 2)])


@st.composite
def weighed(draw: st.DrawFn) -> tuple[Owners, tuple[int, ...], tuple[int, ...]]:
    owner = draw(st.lists(NODES, min_size=1, max_size=24).map(tuple))
    sizes = st.one_of(st.integers(0, 9), st.integers(0, 1 << 40))
    weights = draw(st.lists(sizes, min_size=len(owner), max_size=len(owner)).map(tuple))
    return owner, draw(MEMBERS), weights


def is_balanced(owner: Owners, members: Sequence[int]) -> bool:
    counts = [len(owned_by(owner, node)) for node in members]
    return set(owner) <= set(members) and max(counts) - min(counts) <= 1


def fewest_moves(owner: Owners, members: Sequence[int]) -> int:
    """To any balanced table: shards beyond what their owners may keep, the larger quotas dealt to whom they help."""
    least, larger = divmod(len(owner), len(members))
    counts = Counter(node for node in owner if node in members)
    above = sum(counts[node] > least for node in members)
    return len(owner) - sum(min(counts[node], least) for node in members) - min(above, larger)


@given(TABLES, st.lists(MEMBERS, min_size=1, max_size=5))
def test_a_table_is_balanced_with_the_fewest_moves_whatever_came_before(
    owner: Owners, changes: list[tuple[int, ...]]
) -> None:
    for members in changes:
        after = rebalanced(owner, members)
        assert is_balanced(after, members)
        assert len(moves(owner, after)) == fewest_moves(owner, members)
        assert rebalanced(after, members) == after
        assert rebalanced(owner, tuple(reversed(members))) == after
        owner = after


def test_no_balanced_table_is_nearer() -> None:
    """All tables of up to 5 shards and 3 nodes, and all that they could become."""
    for shards, nodes in itertools.product(range(1, 6), range(1, 4)):
        for owner in itertools.product(range(nodes), repeat=shards):
            for members in (m for size in (1, 2, 3) for m in itertools.combinations(range(4), size)):
                balanced = (t for t in itertools.product(members, repeat=shards) if is_balanced(t, members))
                best = min(len(moves(owner, table)) for table in balanced)
                assert len(moves(owner, rebalanced(owner, members))) == best == fewest_moves(owner, members)


@pytest.mark.parametrize("nodes", [1, 2, 3, 7, 12])
def test_of_what_a_hash_modulo_the_nodes_moves_for_one_more_the_table_moves_one_part_in_as_many(
    nodes: int,
) -> None:
    """The worst case, W / (W + 1) of the state, beside the least, 1 / (W + 1)."""
    shards, more = 4 * nodes * (nodes + 1), nodes + 1
    owner = dealt(shards, nodes)
    assert Fraction(len(moves(owner, dealt(shards, more))), shards) == Fraction(nodes, more)
    assert Fraction(len(moves(owner, rebalanced(owner, range(more)))), shards) == Fraction(1, more)


def test_of_1_000_shards_on_three_nodes_a_fourth_takes_a_quarter_a_third_of_it_from_each() -> None:
    owner = dealt(1_000, 3)
    taken = Counter(move.from_ for move in moves(owner, rebalanced(owner, range(4))))
    assert sorted(taken.values()) == [83, 83, 84]


@given(st.integers(1, 300), st.integers(1, 16), st.integers(1, 16))
def test_slices_would_move_as_many_shards_as_what_is_dealt(shards: int, nodes: int, then: int) -> None:
    """Decision 164: contiguous slices, as S001-105 has them, are worth nothing more."""
    slices = tuple(sorted(dealt(shards, nodes)))
    moved = {len(moves(owner, rebalanced(owner, range(then)))) for owner in (slices, dealt(shards, nodes))}
    assert len(moved) == 1


@given(st.integers(1, 40), st.integers(1, 8))
def test_doubling_what_is_dealt_over_a_divisor_gives_what_is_dealt_and_of_slices_no_slices(
    times: int, nodes: int
) -> None:
    """Decision 164."""
    shards = times * nodes
    assert doubled(dealt(shards, nodes)) == dealt(2 * shards, nodes)
    slices = doubled(tuple(sorted(dealt(shards, nodes))))
    assert (slices == tuple(sorted(slices))) == (nodes == 1)


@given(st.integers(1, 300), st.integers(1, 16))
def test_what_is_dealt_is_balanced_already(shards: int, nodes: int) -> None:
    owner = dealt(shards, nodes)
    assert rebalanced(owner, range(nodes)) == owner
    assert frozenset().union(*(owned_by(owner, node) for node in range(nodes))) == set(range(shards))


def test_nodes_are_needed() -> None:
    with pytest.raises(ValueError, match="at least one node"):
        rebalanced((0, 1), ())
    with pytest.raises(ValueError, match="at least one node"):
        weighted((0, 1), (), (1, 1))


# --- by weight ----------------------------------------------------------------------------------------------


def loads(owner: Owners, members: Sequence[int], weights: Sequence[int]) -> dict[int, int]:
    return {node: sum(weights[shard] for shard in owned_by(owner, node)) for node in members}


@given(weighed(), SLACKS)
def test_no_node_has_too_much_unless_its_shards_are_too_heavy(
    given_: tuple[Owners, tuple[int, ...], tuple[int, ...]], slack: Fraction
) -> None:
    owner, members, weights = given_
    after = weighted(owner, members, weights, slack)
    assert set(after) <= set(members)
    mean = Fraction(sum(weights), len(members))
    for node, load in loads(after, members, weights).items():
        lightest = min((weights[shard] for shard in owned_by(after, node) if weights[shard]), default=0)
        assert load <= max((1 + slack) * mean, mean + lightest)


@given(weighed(), SLACKS)
def test_a_table_by_weight_is_the_same_each_time_and_stays(
    given_: tuple[Owners, tuple[int, ...], tuple[int, ...]], slack: Fraction
) -> None:
    owner, members, weights = given_
    after = weighted(owner, members, weights, slack)
    assert weighted(owner, tuple(reversed(members)), weights, slack) == after
    assert weighted(after, members, weights, slack) == after


@given(weighed(), SLACKS)
def test_nothing_moves_where_nobody_has_too_much(
    given_: tuple[Owners, tuple[int, ...], tuple[int, ...]], slack: Fraction
) -> None:
    owner, _, weights = given_
    assume(any(weights))
    members = tuple(set(owner))
    if max(loads(owner, members, weights).values()) <= (1 + slack) * Fraction(sum(weights), len(members)):
        assert weighted(owner, members, weights, slack) == owner


@given(TABLES, MEMBERS)
def test_without_weights_shards_are_counted(owner: Owners, members: tuple[int, ...]) -> None:
    assert weighted(owner, members, (0,) * len(owner)) == rebalanced(owner, members)


@given(TABLES, MEMBERS)
def test_equal_weights_need_no_more_moves_than_counting(owner: Owners, members: tuple[int, ...]) -> None:
    """A node may then have up to a tenth more, or its one shard more, than the mean."""
    after = weighted(owner, members, (7,) * len(owner))
    assert len(moves(owner, after)) <= fewest_moves(owner, members)


@pytest.mark.parametrize("weights", [(1,), (1, 2, 3), (1, -1)], ids=["too few", "too many", "negative"])
def test_weights_that_make_no_sense_are_refused(weights: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="2 shards need as many weights"):
        weighted((0, 1), (0, 1), weights)


# --- how many -----------------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=20), st.sampled_from(["1/4", "1/10", "3/10", "1", "2"])
)
def test_shards_suffice_and_are_a_power_of_two(members: list[int], nodes_per_shard: str) -> None:
    ratio, now = Fraction(nodes_per_shard), 0
    for count in members:
        after = dynamic_shards(count, ratio, now)
        wanted = dynamic_shards(count, ratio)
        assert after.bit_count() == 1
        assert wanted * ratio >= count > (wanted // 2) * ratio
        assert wanted <= after <= max(2 * wanted, wanted)
        assert after in (now, wanted)
        now = after


@given(st.integers(1, 40), st.sampled_from([Fraction(1, 4), Fraction(1, 10)]), st.integers(0, 10))
def test_a_node_that_comes_and_goes_changes_nothing_twice(members: int, ratio: Fraction, grown: int) -> None:
    now = dynamic_shards(members, ratio) << grown
    with_it = dynamic_shards(members + 1, ratio, now)
    assert dynamic_shards(members, ratio, with_it) in (with_it, dynamic_shards(members, ratio))
    without = dynamic_shards(members, ratio, with_it)
    assert dynamic_shards(members + 1, ratio, without) == without or without < with_it
    if members > 1:
        assert without == with_it or 4 * without <= with_it


@pytest.mark.parametrize(("members", "ratio"), [(0, Fraction(1, 4)), (3, Fraction(0)), (3, Fraction(-1))])
def test_no_nodes_and_no_ratio_are_refused(members: int, ratio: Fraction) -> None:
    with pytest.raises(ValueError, match="must be above 0"):
        dynamic_shards(members, ratio)


@given(TABLES, st.integers(0, 1 << 40))
def test_a_row_stays_with_its_node_when_shards_are_doubled(owner: Owners, hashed: int) -> None:
    twice = doubled(owner)
    assert twice[hashed % len(twice)] == owner[hashed % len(owner)]
    assert halved(twice) == owner
    assert moves_between(twice, halved(twice)) == ()


@given(TABLES, st.integers(0, 1 << 40))
def test_rows_move_when_shards_are_halved_only_as_it_is_said(owner: Owners, hashed: int) -> None:
    owner = owner[: len(owner) // 2 * 2]
    assume(owner)
    half = halved(owner)
    move = {each.shard: each for each in moves_between(owner, half)}.get(hashed % len(owner))
    before, after = owner[hashed % len(owner)], half[hashed % len(half)]
    assert (before, after) == ((move.from_, move.to) if move else (before, before))
    assert all(each.shard >= len(half) for each in moves_between(owner, half))


def test_an_odd_number_of_shards_is_not_halved() -> None:
    with pytest.raises(ValueError, match="3 shards can't be halved"):
        halved((0, 1, 2))


def test_tables_of_different_sizes_are_not_compared() -> None:
    with pytest.raises(ValueError, match="double or halve"):
        moves((0, 1), (0, 1, 0, 1))
