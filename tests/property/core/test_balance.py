"""State divided anew because one node has too much: it helps, by a margin, and is done once."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from kcontrol.core.model import RebalanceSpec
from kcontrol.core.step.assignment import Owners
from kcontrol.core.step.balance import WORTH, evened, fullest

POLICY = RebalanceSpec(every_ms=1_000, when_percent=130, checkpoints=1, least_bytes=0, timeout_ms=1_000)


@st.composite
def divided(draw: st.DrawFn) -> tuple[Owners, tuple[int, ...]]:
    """A table in which each node owns a shard, and what each shard weighs."""
    nodes = draw(st.integers(1, 6))
    more = draw(st.lists(st.integers(0, nodes - 1), max_size=20))
    owner = tuple(draw(st.permutations([*range(nodes), *more])))
    weights = draw(
        st.lists(st.integers(0, 20) | st.integers(0, 10_000), min_size=len(owner), max_size=len(owner))
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


@st.composite
def of_light_shards(draw: st.DrawFn) -> tuple[Owners, tuple[int, ...]]:
    """The first node may well own most of them, none of which weighs a tenth of what a node has on average."""
    nodes = draw(st.integers(2, 5))
    count = draw(st.integers(15 * nodes, 25 * nodes))
    likely = [0] * draw(st.integers(0, 5)) + [*range(nodes)]
    more = draw(st.lists(st.sampled_from(likely), min_size=count, max_size=count))
    owner = (*range(nodes), *more)
    weights = draw(st.lists(st.integers(10, 12), min_size=len(owner), max_size=len(owner)))
    return owner, tuple(weights)


@given(of_light_shards())
def test_whoever_has_too_much_is_relieved_where_shards_are_light(
    given_: tuple[Owners, tuple[int, ...]],
) -> None:
    owner, weights = given_
    full = fullest(owner, weights)
    assume(full.has_too_much(POLICY))
    after = evened(owner, weights)
    assert after is not None
    assert not fullest(after, weights).has_too_much(POLICY)
