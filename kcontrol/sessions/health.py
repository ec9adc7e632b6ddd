"""Whether a process still does its work, as seen from within, by threads that don't depend on what may hang."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LOOP_LIMIT_MS = 30_000
"""An event loop that has not turned for so long is blocked for good."""


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Health:
    """Told by the event loop that it turns and what it waits for; asked by any thread.

    What is not told is not judged: before the first beat nothing is wrong.
    """

    def __init__(self, monotonic_ms: Callable[[], int] = _monotonic_ms) -> None:
        self._monotonic_ms = monotonic_ms
        self._turned_ms: int | None = None
        self._work: tuple[str, int, int] | None = None

    def beat(self) -> None:
        """The event loop turns."""
        self._turned_ms = self._monotonic_ms()

    def rests(self) -> None:
        """The event loop is about to end, and beats no more."""
        self._turned_ms = None

    @contextmanager
    def at_work(self, what: str, limit_ms: int) -> Iterator[None]:
        """While the block runs, `what` is being done, which must take no longer than `limit_ms`."""
        self._work = (what, self._monotonic_ms(), limit_ms)
        try:
            yield
        finally:
            self._work = None

    def wrong(self) -> str:
        """What is wrong, for people; '' if nothing is."""
        now_ms, turned_ms, work = self._monotonic_ms(), self._turned_ms, self._work
        if turned_ms is not None and now_ms - turned_ms > LOOP_LIMIT_MS:
            return f"its event loop has not turned for {now_ms - turned_ms} ms"
        if turned_ms is not None and work is not None and now_ms - work[1] > work[2]:
            return f"{work[0]} has taken {now_ms - work[1]} ms, more than {work[2]} ms"
        return ""
