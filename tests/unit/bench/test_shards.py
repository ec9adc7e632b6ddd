"""What shards cost that a node does not own: the difference to a node that owns all, by their number."""

from __future__ import annotations

import pytest

from bench.shards import costs_of


def test_what_is_not_owned_costs_the_difference_by_its_number() -> None:
    all_owned, some, few = costs_of({64: [130.0, 131.0, 900.0], 4: [99.0, 101.0, 100.0], 16: [103.0]})
    assert [each.shards for each in (all_owned, some, few)] == [4, 16, 64]
    assert (all_owned.times_as_long, all_owned.not_owned_ms) == (1.0, None)
    assert (some.times_as_long, some.not_owned_ms) == (pytest.approx(1.03), pytest.approx(3 / 12))
    assert (few.step_ms.median, few.not_owned_ms) == (131.0, pytest.approx(31 / 60))
