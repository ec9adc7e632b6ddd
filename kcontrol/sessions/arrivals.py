"""How often it is asked, and told, how far an input reaches.

The first arrival goes out at once. Whatever follows within a pause is told together, and not fetched before either: the
latest arrival holds all that the ones before it said. Each one that is told is a control record, which all nodes and the
coordinator read; so the pause is as long as nobody misses it, a small part of what a step takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from kcontrol.sessions.ports import Arrivals

STEP_PARTS = 8
"""While a step is made its input may grow so often without anybody being told; the step after it takes what was told."""
MOST_PAUSE_S = 0.25


class Pace:
    """Of one node. every_ms: the least between two arrivals of one input. monotonic_ms: a clock that never goes back."""

    def __init__(self, every_ms: int, monotonic_ms: Callable[[], int]) -> None:
        self._every_s = every_ms / 1000
        self._monotonic_ms = monotonic_ms
        self._begun_ms: int | None = None
        self._last_s = 0.0

    def step_begins(self) -> None:
        """Its command is here."""
        self._begun_ms = self._monotonic_ms()

    def step_ends(self) -> None:
        """The next one could begin."""
        self._last_s, self._begun_ms = self._so_far_s(), None

    def pause_s(self) -> float:
        """After an arrival: by the last step, or by the one that is being made where that takes longer."""
        step_s = max(self._last_s, self._so_far_s())
        return max(self._every_s, min(step_s / STEP_PARTS, MOST_PAUSE_S))

    def _so_far_s(self) -> float:
        return 0.0 if self._begun_ms is None else (self._monotonic_ms() - self._begun_ms) / 1000


async def paced(arrivals: Callable[[], Arrivals], pause_s: Callable[[], float]) -> Arrivals:
    """Those that a watcher sees, with a pause after each."""
    async with aclosing(arrivals()) as stream:
        async for arrival in stream:
            yield arrival
            await asyncio.sleep(pause_s())
