"""What drains cost a window of steps, and how long one held a pipeline, from what the logs say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bench.plan import DRAINING, Measurement
from bench.regions.drains import Window, drain_cost
from bench.regions.held import gap_ms, usual_gap_ms
from tests.support.samples import boundary

SIZE = Measurement("passthrough", 100, 0, 2)


def _steps(*committed_ms: int) -> list[dict[str, Any]]:
    return [
        {
            "step": number,
            "committed_ms": at_ms,
            "opened_ms": at_ms - 1,
            "inputs": [{"records": 100}],
            "outputs": [{"records": 100}],
        }
        for number, at_ms in enumerate(committed_ms, 1)
    ]


def test_a_step_that_waits_for_a_drain_counts_in_full() -> None:
    steps = _steps(0, 100, 200, 300, 410, 500)
    windows = [Window(drained=False, after=1, last=3), Window(drained=True, after=4, last=6)]
    cost = drain_cost(SIZE, steps, windows, cuts_ms=(250, 301, 450))  # type: ignore[arg-type]
    assert (cost.without.median, cost.with_.median) == (1_000, 1_000)
    assert (cost.lost, cost.drains, cost.per_s) == (0, 2, 10)
    slow = drain_cost(SIZE, _steps(0, 100, 200, 300, 500, 700), windows, cuts_ms=())  # type: ignore[arg-type]
    assert slow.lost == pytest.approx(0.5)


def test_windows_of_both_kinds_count_by_their_time() -> None:
    steps = _steps(0, 100, 200, 500, 600, 700)
    windows = [Window(drained=False, after=1, last=3), Window(drained=False, after=3, last=4)]
    cost = drain_cost(SIZE, steps, [*windows, Window(drained=True, after=4, last=6)], cuts_ms=())  # type: ignore[arg-type]
    assert cost.without.count == 2
    assert cost.lost == pytest.approx(1 - 1_000 / (1_000 * 300 / 500))


def test_the_source_holds_all_windows_and_what_lies_between_them() -> None:
    for size, spare in zip(DRAINING.sizes, DRAINING.spare_steps, strict=True):
        assert DRAINING.records > size.step_records * DRAINING.windows * (size.steps + spare)


def test_a_hold_lasts_from_a_commit_to_the_next_opening() -> None:
    steps = [
        replace(boundary("p", step), opened_ms=at_ms, committed_ms=at_ms + 5)
        for step, at_ms in ((1, 0), (2, 10), (3, 90))
    ]
    assert gap_ms(steps, 2) == 75
    assert usual_gap_ms([steps], {("p", 2)}) == 5
    with pytest.raises(StopIteration):
        gap_ms(steps, 3)
