"""How often an input's watcher is asked, and how often what it sees is told."""

from __future__ import annotations

import asyncio

import pytest

from kcontrol.sessions.arrivals import MOST_PAUSE_S, STEP_PARTS, Pace, paced
from kcontrol.sessions.ports import Arrival, Arrivals

EVERY_MS = 10


class _Clock:
    ms = 1_000

    def __call__(self) -> int:
        return self.ms


class _Watcher:
    """Its input has grown whenever it is asked. asked: how often that was."""

    def __init__(self) -> None:
        self.asked = 0
        self.closed = False

    async def arrivals(self) -> Arrivals:
        try:
            while True:
                self.asked += 1
                yield (), self.asked
        finally:
            self.closed = True


def test_before_the_first_step_arrivals_are_told_at_once() -> None:
    assert Pace(EVERY_MS, _Clock()).pause_s() == EVERY_MS / 1000


@pytest.mark.parametrize(
    ("step_ms", "pause_s"),
    [(20, EVERY_MS / 1000), (800, 0.8 / STEP_PARTS), (60_000, MOST_PAUSE_S)],
    ids=["short steps", "long steps", "longest pause"],
)
def test_the_pause_is_a_part_of_the_last_step(step_ms: int, pause_s: float) -> None:
    clock = _Clock()
    pace = Pace(EVERY_MS, clock)
    pace.step_begins()
    clock.ms += step_ms
    pace.step_ends()
    clock.ms += 3_600_000
    assert pace.pause_s() == pytest.approx(pause_s)


def test_a_step_that_takes_long_counts_before_it_ends() -> None:
    """The first one of a new process, which has none before it, takes the longest."""
    clock = _Clock()
    pace = Pace(EVERY_MS, clock)
    pace.step_begins()
    clock.ms += 1_600
    assert pace.pause_s() == pytest.approx(1.6 / STEP_PARTS)


def test_a_short_step_after_a_long_one_ends_the_long_pause() -> None:
    clock = _Clock()
    pace = Pace(EVERY_MS, clock)
    for step_ms in (4_000, 30):
        pace.step_begins()
        clock.ms += step_ms
        pace.step_ends()
    assert pace.pause_s() == EVERY_MS / 1000


async def _told(watcher: _Watcher, many: int) -> tuple[list[Arrival], list[int]]:
    """So many arrivals, and how often the watcher had been asked at each pause."""
    asked: list[int] = []

    def pause_s() -> float:
        asked.append(watcher.asked)
        return 0.0

    told: list[Arrival] = []
    stream = paced(watcher.arrivals, pause_s)
    async for arrival in stream:
        told.append(arrival)
        if len(told) == many:
            break
    await stream.aclose()
    return told, asked


def test_nothing_is_fetched_while_nothing_is_told() -> None:
    watcher = _Watcher()
    told, asked = asyncio.run(_told(watcher, 3))
    assert told == [((), 1), ((), 2), ((), 3)]
    assert asked == [1, 2]


def test_a_watcher_is_closed_with_who_listens_to_it() -> None:
    watcher = _Watcher()
    asyncio.run(_told(watcher, 1))
    assert watcher.closed
