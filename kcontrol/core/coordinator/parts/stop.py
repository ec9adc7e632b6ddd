"""A stop, while it waits for the last step to be saved."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Stop:
    """None, as it is made."""

    since_ms: int = -1
    """Since when it waits for that; -1: it does not."""
    saves: int = 0
    """The step whose checkpoint was begun for it, under this claim."""
    unsaved: str = ""
    """Why the pipeline was stopped without it."""

    def waiting(self, now_ms: int) -> Stop:
        """From now on, unless it waits already."""
        return replace(self, since_ms=now_ms) if self.since_ms < 0 else self

    def waiting_later(self, gap_ms: int) -> Stop:
        """For so long nobody listened."""
        return self if self.since_ms < 0 else replace(self, since_ms=self.since_ms + gap_ms)

    def saving(self, step: int) -> Stop:
        """The step's checkpoint was begun for it; 0: none counts any more."""
        return replace(self, saves=step) if step != self.saves else self

    def without(self, why: str) -> Stop:
        """It goes on though the step is not saved; '' if nothing is said of that."""
        return replace(self, unsaved=why)


NO_STOP = Stop()
