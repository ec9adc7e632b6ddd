"""Whether a process still does its work, as seen from within, by threads that don't depend on what may
hang."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

DEFAULT_SILENCE_MS = 60_000
"""Of `Limits(silence_timeout=...)`."""


@dataclass(frozen=True, slots=True)
class Share:
    """A limit that follows from `silence_timeout`. of_silence: the part or multiple of it;
    it is never less than least_ms."""

    what: str
    of_silence: float
    least_ms: int

    def of(self, silence_ms: int) -> int:
        """In milliseconds."""
        return max(self.least_ms, round(silence_ms * self.of_silence))


SHARES: Mapping[str, Share] = {
    "loop_ms": Share(
        "the event loop of a node stands still; then `/health/live` says that the node hangs", 1 / 2, 5_000
    ),
    "patience_ms": Share(
        "a node has found that it hangs, and that has not come right; then it ends itself", 1 / 6, 3_000
    ),
    "end_ms": Share(
        "a node has been told to end, or met an error, and has not ended; then it is killed", 5 / 4, 75_000
    ),
    "start_ms": Share(
        "a process that `kcontrol run` has started has not begun its work; then it is ended", 5, 120_000
    ),
    "term_ms": Share(
        "a process that hangs was told by `kcontrol run` to end, and has not; then it is killed",
        1 / 12,
        5_000,
    ),
    "stop_ms": Share(
        "`kcontrol run` ends, and a process of its own has not; then it is killed", 1 / 3, 20_000
    ),
    "pause_ms": Share(
        "`kcontrol run` was stopped itself; then it blames nobody for having been silent meanwhile",
        1 / 12,
        1_000,
    ),
    "binding_ms": Share(
        "a node still binds queries, or closes those that it has opened to be warm, for a layout that nobody wants any more; "
        "then it goes on nevertheless",
        1 / 2,
        20_000,
    ),
}
"""What each field of `HangLimits` is, and how it follows."""


@dataclass(frozen=True, slots=True)
class HangLimits:
    """How long a process, or something in it, may do nothing. All of it follows from one setting,
    `silence_ms`: see SHARES, and decision 043."""

    silence_ms: int = DEFAULT_SILENCE_MS
    loop_ms: int = 30_000
    patience_ms: int = 10_000
    end_ms: int = 75_000
    start_ms: int = 300_000
    term_ms: int = 5_000
    stop_ms: int = 20_000
    pause_ms: int = 5_000
    binding_ms: int = 30_000

    @classmethod
    def of(cls, silence_ms: int) -> HangLimits:
        """Those of a pipeline with this `silence_timeout`."""
        return cls(silence_ms, **{name: share.of(silence_ms) for name, share in SHARES.items()})


DEFAULT_LIMITS = HangLimits()


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Health:
    """Told by the event loop that it turns and what it waits for; asked by any thread.

    What is not told is not judged: before the first beat nothing is wrong.
    """

    def __init__(
        self, limits: HangLimits = DEFAULT_LIMITS, monotonic_ms: Callable[[], int] = _monotonic_ms
    ) -> None:
        self.limits = limits
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

    def doing(self) -> str:
        """What is being done, and since when, for people; '' if it is nothing that could take long."""
        work = self._work
        return (
            "" if work is None else f"{work[0]} for {self._monotonic_ms() - work[1]} ms, at most {work[2]} ms"
        )

    def wrong(self) -> str:
        """What is wrong, for people; '' if nothing is."""
        now_ms, turned_ms, work = self._monotonic_ms(), self._turned_ms, self._work
        if turned_ms is not None and now_ms - turned_ms > self.limits.loop_ms:
            return f"its event loop has not turned for {now_ms - turned_ms} ms"
        if turned_ms is not None and work is not None and now_ms - work[1] > work[2]:
            return f"{work[0]} has taken {now_ms - work[1]} ms, more than {work[2]} ms"
        return ""
