"""What is drawn in less time is what `random.Random` draws."""

from __future__ import annotations

from random import Random

import pytest

from tests.simulation.draws import Draws


def test_draws_are_those_of_the_same_seed() -> None:
    for seed in range(200):
        draws, right = Draws(seed), Random(seed)
        for number in range(1, 22):
            these = list(range(number))
            assert draws.below(number) == right.randrange(number)
            assert draws.one_of(these) == right.choice(these)
            assert draws.between(-1, number) == right.randint(-1, number)
            assert draws.mixed(these) == right.sample(these, number)
        assert draws.random() == right.random()


@pytest.mark.parametrize("count", range(1, 20))
def test_what_is_shuffled_or_passed_over_is_drawn_as_the_same_seed_does(count: int) -> None:
    ours, theirs, third = Draws(count), Random(count), Draws(count)
    for _ in range(50):
        items = list(range(count))
        theirs.shuffle(items)
        assert ours.shuffled(list(range(count))) == items
        assert ours.one_of(items) == theirs.choice(items)
        third.pass_over(count, count)
        assert ours.getstate() == theirs.getstate() == third.getstate()
