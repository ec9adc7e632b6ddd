"""What is drawn in less time is what `random.Random` draws."""

from __future__ import annotations

from random import Random

from tests.simulation.regions.draws import Draws


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
