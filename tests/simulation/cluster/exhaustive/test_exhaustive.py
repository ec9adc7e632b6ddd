"""Small clusters, each searched whole: in every state that can be reached every invariant holds, and from each all comes to
rest by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.cluster.entries import KillJob
from tests.simulation.cluster.exhaustive.keys import Keys
from tests.simulation.cluster.exhaustive.log import Log
from tests.simulation.cluster.exhaustive.state import Faults, State
from tests.simulation.cluster.exhaustive.worlds import LARGER, POLICY, WORLDS, World


def _searched(world: World) -> None:
    result = world.search().run()
    print(f"{world.name}: {result}")  # noqa: T201
    assert result.found is None, f"\n{result.found}"
    assert result.complete or result.states >= world.most


@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_all_that_can_be_reached_is_right(world: World) -> None:
    _searched(world)


@pytest.mark.heavy
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("world", LARGER, ids=str)
def test_all_that_can_be_reached_in_a_larger_world_is_right(world: World) -> None:
    _searched(world)


def test_a_search_that_is_ended_says_so() -> None:
    result = WORLDS[0].search(most=50).run()
    assert not result.complete
    assert "NOT all" in str(result)


def test_states_are_one_whatever_their_offsets_are() -> None:
    keys, states = Keys(), []
    for offsets in ((0, 1), (7, 40)):
        state = State(())
        for offset in offsets:
            entry = KillJob("orders", "q1", 0)
            state, why = Log(keys).append(state, entry, offset - state.truth.offset - 1)
            assert why == "no such job is active"
        states.append(replace(state, asked=(KillJob("orders", "q2", state.truth.offset),)))
    assert keys.key(states[0]) == keys.key(states[1])
    behind = replace(states[1], asked=(KillJob("orders", "q2", 39),))
    assert keys.key(behind) != keys.key(states[1])


def test_what_differs_in_more_than_offsets_is_another_state() -> None:
    keys, state = Keys(), State(())
    other = replace(state.truth, policy=POLICY)
    found = {keys.key(one) for one in (state, replace(state, truth=other), replace(state, faults=Faults(1)))}
    assert len(found) == 3
