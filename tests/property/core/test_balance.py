"""State divided anew because one node has too much: it helps, moves no more than that takes, and is done once."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import assume, given
from hypothesis import strategies as st

from kcontrol.core.model import RebalanceSpec
from kcontrol.core.step.assignment import SLACK, Owners, moves
from kcontrol.core.step.balance import WORTH, evened, fullest

POLICY = RebalanceSpec(every_ms=1_000, when_percent=130, checkpoints=1, least_bytes=0, timeout_ms=1_000)


@st.composite
def divided(draw: st.DrawFn) -> tuple[Owners, tuple[int, ...]]:
    """A table in which each node owns a shard, and what each shard weighs."""
    nodes = draw(st.integers(1, 6))
    more = draw(st.lists(st.integers(0, nodes - 1), max_size=20))
    owner = tuple(draw(st.permutations([*range(nodes), *more])))
    weights = draw(
        st.lists(
            st.integers(0, 20) | st.integers(0, 10_000), min_size=len(owner), max_size=len(owner)
        )
    )
    return owner, tuple(weights)


@given(divided())
def test_the_fullest_has_less_by_a_margin_and_every_node_keeps_a_shard(
    given_: tuple[Owners, tuple[int, ...]],
) -> None:
    owner, weights = given_
    after = evened(owner, weights)
    if after is None:
        return
    before, then = fullest(owner, weights), fullest(after, weights)
    assert set(after) == set(owner)
    assert before.mean_bytes == then.mean_bytes
    assert before.size_bytes - then.size_bytes >= WORTH * before.mean_bytes


@given(divided())
def test_what_was_evened_stays(given_: tuple[Owners, tuple[int, ...]]) -> None:
    owner, weights = given_
    after = evened(owner, weights)
    assert evened(owner if after is None else after, weights) is None


@given(divided())
def test_nobody_gives_and_gets_and_who_has_less_than_the_mean_gives_nothing(
    given_: tuple[Owners, tuple[int, ...]],
) -> None:
    owner, weights = given_
    after = evened(owner, weights)
    assume(after is not None)
    assert after is not None
    moved = moves(owner, after)
    assert not {move.from_ for move in moved} & {move.to for move in moved}
    mean = Fraction(sum(weights), len(set(owner)))
    for move in moved:
        had = sum(weight for node, weight in zip(owner, weights, strict=True) if node == move.from_)
        assert had > (1 + SLACK) * mean


@given(divided())
def test_whoever_has_too_much_and_shards_that_are_light_enough_is_relieved(
    given_: tuple[Owners, tuple[int, ...]],
) -> None:
    """Light enough: so that even one more of them makes nobody have too much."""
    owner, weights = given_
    full = fullest(owner, weights)
    assume(full.has_too_much(POLICY) and 0 < max(weights) <= SLACK * full.mean_bytes)
    after = evened(owner, weights)
    assert after is not None
    assert not fullest(after, weights).has_too_much(POLICY)
