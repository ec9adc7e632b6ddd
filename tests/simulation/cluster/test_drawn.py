"""Draws are those of the standard library, so that a seed stays the schedule that it was."""

from __future__ import annotations

from random import Random

import pytest

from tests.simulation.cluster.drawn import one_of, pass_over, shuffled


@pytest.mark.parametrize("count", range(1, 20))
def test_draws_are_those_of_the_standard_library(count: int) -> None:
    ours, theirs, third = Random(count), Random(count), Random(count)
    for _ in range(50):
        items = list(range(count))
        theirs.shuffle(items)
        assert shuffled(ours, list(range(count))) == items
        assert one_of(ours, items) == theirs.choice(items)
        pass_over(third, count, count)
        assert ours.getstate() == theirs.getstate() == third.getstate()
