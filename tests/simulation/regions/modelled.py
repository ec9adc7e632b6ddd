"""What simulated controllers of a region look at: pipelines, as a model, and clocks that differ."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.simulation.sessions.loop import SeededLoop

MEMBERS = ("p", "q")


@dataclass
class Pipelines:
    """held: by pipeline, the number of the drain, and when the lease is over."""

    lives: dict[str, int] = field(default_factory=lambda: dict.fromkeys(MEMBERS, 1))
    away: set[str] = field(default_factory=set)
    held: dict[str, float] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=lambda: dict.fromkeys(MEMBERS, 1))
    resets: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in MEMBERS})
    """In the log of each: the rollbacks by which it was reset."""


class LoopClock:
    """Of a process; wall clocks differ."""

    def __init__(self, loop: SeededLoop, ahead_ms: int) -> None:
        self._loop, self._ahead_ms = loop, ahead_ms

    def now_ms(self) -> int:
        return round(self._loop.time() * 1000) + self._ahead_ms

    def monotonic_ms(self) -> int:
        return round(self._loop.time() * 1000) + 7
