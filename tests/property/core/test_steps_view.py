"""The boundaries that a node keeps: a value, however many share its list."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kcontrol.core.log.steps_view import Boundaries
from tests.unit.core.made import boundary


@given(st.integers(1, 5), st.lists(st.one_of(st.none(), st.integers(0, 12)), max_size=30), st.integers(0, 30))
def test_boundaries_are_values(first: int, moves: list[int | None], fork: int) -> None:
    """None extends, a number drops up to that step; at `fork` a second value goes its own way and disturbs
    nobody."""
    value, model, step = Boundaries(), list[int](), first
    other = Boundaries()
    for index, move in enumerate(moves):
        if index == fork:
            other = value.extended(replace(boundary(step), now_ms=-1))
        if move is None:
            value = value.extended(boundary(step))
            model.append(step)
            step += 1
        else:
            value = value.without(move)
            model = [one for one in model if one > move]
        assert value.first == (model[0] if model else 0)
        for asked in range(first - 1, step + 2):
            found = value.get(asked)
            assert (found is not None) == (asked in model)
            assert found is None or (found.step == asked and found.now_ms >= 0)
    if other.first:
        last = max(asked for asked in range(40) if other.get(asked) is not None)
        found = other.get(last)
        assert found is not None
        assert found.now_ms == -1
