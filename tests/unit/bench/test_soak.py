"""Figures of a long run: growth is that of the later half, so what a process needs to warm up counts for
nothing."""

from __future__ import annotations

import pytest

from bench.soak import Growth, Look


def look(step: int, rss_bytes: int) -> Look:
    return Look(step, 1, rss_bytes, 20, 5, 3)


def test_growth_is_that_of_the_later_half() -> None:
    warming = [look(step, 10 * step) for step in range(0, 5_000, 1_000)]
    later = [look(step, 100_000 + step // 10) for step in range(5_000, 10_000, 1_000)]
    growth = Growth("node", (*warming, *later))
    assert growth.per_1000_steps("rss_bytes") == pytest.approx(100)
    assert growth.per_1000_steps("descriptors") == 0


def test_one_look_tells_no_growth() -> None:
    assert Growth("node", (look(5, 1), look(5, 2))).per_1000_steps("rss_bytes") == 0
