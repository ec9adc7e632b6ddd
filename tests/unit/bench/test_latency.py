"""Figures of latency: every record counts, once."""

from __future__ import annotations

from typing import Any

import pytest

from bench.figures import Tail
from bench.latency import KEYS, Counted, Interval, delays_ms, latency


def test_a_delay_is_from_sending_to_arrival() -> None:
    assert delays_ms([0, 1_000_000, 2_000_000], {1: 4_500_000, 2: 3_000_000}, range(1, 3)) == [3.5, 1.0]


def test_a_record_that_never_came_is_no_figure_but_an_error() -> None:
    with pytest.raises(RuntimeError, match="2 of the records 0 to 2"):
        delays_ms([0, 1, 2], {1: 5}, range(3))


class Row:
    """A message with a key's count and sum."""

    def __init__(self, key: int, count: int) -> None:
        self._key, self._count = key, count

    def key(self) -> bytes:
        return b"%d" % self._key

    def value(self) -> bytes:
        return b"%d,77" % self._count


def test_a_key_s_count_tells_of_the_records_that_were_counted_since_the_last_one() -> None:
    numbers: Any = Counted()
    assert list(numbers(Row(7, 1))) == [7]
    assert list(numbers(Row(8, 2))) == [8, 8 + KEYS]
    assert list(numbers(Row(7, 3))) == [7 + KEYS, 7 + 2 * KEYS]


def step(number: int, committed_ms: int, records: int) -> dict[str, object]:
    return {
        "step": number,
        "opened_ms": 0,
        "committed_ms": committed_ms,
        "inputs": [{"records": records}],
        "work": [],
        "before": None,
    }


def test_steps_count_that_were_committed_in_the_measured_interval() -> None:
    took = Tail(1, 2, 3, 4)
    steps = [step(1, 100, 7), step(2, 200, 10), step(3, 350, 20), step(4, 600, 999)]
    found = latency("passthrough", 1_000, Interval(150, 400, took), Interval(0, 1, took), steps)
    assert (found.steps, found.step_records, found.step_ms.median, found.phases) == (2, 15, 125, ())
