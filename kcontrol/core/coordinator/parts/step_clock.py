"""The clock of steps: what it shows more than the monotonic clock, see clock.py."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepClock:
    """Not set, as it is made."""

    ahead_ms: int | None = None
    """What it shows more than the monotonic clock; None until all nodes were in place."""
    difference_ms: int = 0
    """Wall clock less clock of steps, if that is worth a word; else 0."""

    def set(self, ahead_ms: int, difference_ms: int, tolerance_ms: int) -> StepClock:
        """It is, and differs by so much; told again only when that has changed by as much as is tolerated."""
        if abs(difference_ms) <= tolerance_ms // 2:
            told_ms = 0
        elif abs(difference_ms - self.difference_ms) > tolerance_ms // 2:
            told_ms = difference_ms
        else:
            told_ms = self.difference_ms
        return (
            self
            if (ahead_ms, told_ms) == (self.ahead_ms, self.difference_ms)
            else StepClock(ahead_ms, told_ms)
        )

    def unset(self) -> StepClock:
        """Another tenure begins."""
        return StepClock(None, self.difference_ms)
