"""Time for a state machine: a tick at least every 100 ms, and one when a wait that it named is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kcontrol.sessions.ports import Clock

LONGEST_PAUSE_MS = 100


class Ticker:
    """Calls `tick` no later than `LONGEST_PAUSE_MS` after the last call, earlier when `wake_at` asked for
    it."""

    def __init__(self, clock: Clock, tick: Callable[[], Awaitable[None]]) -> None:
        self._clock = clock
        self._tick = tick
        self._due_ms = 0
        self._sooner = asyncio.Event()

    def wake_at(self, at_ms: int) -> None:
        """Tick at `at_ms`, by the monotonic clock, if that is before the next tick."""
        if at_ms < self._due_ms:
            self._due_ms = at_ms
            self._sooner.set()

    async def run(self) -> None:
        """Tick until cancelled."""
        while True:
            self._due_ms = self._clock.monotonic_ms() + LONGEST_PAUSE_MS
            await self._tick()
            await self._until_due()

    async def _until_due(self) -> None:
        while (remaining_ms := self._due_ms - self._clock.monotonic_ms()) > 0:
            self._sooner.clear()
            try:
                # Not wait_for: before Python 3.12 it loses a cancellation that comes
                # together with what it waits for.
                async with asyncio.timeout(remaining_ms / 1000):
                    await self._sooner.wait()
            except TimeoutError:
                return
