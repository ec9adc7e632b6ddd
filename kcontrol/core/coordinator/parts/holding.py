"""The newest order of how far steps may read, as far as the coordinator goes by it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kcontrol.core.model import Hold, HoldPhase, HoldStatus, ReadLimit


@dataclass(frozen=True, slots=True)
class Holding:
    """None, as it is made."""

    offset: int = -1
    """Control offset of the order that every later step goes by."""
    until_ms: int = 0
    """When it is given up, by the monotonic clock."""
    limits: tuple[ReadLimit, ...] = ()
    """What it says."""
    told: HoldStatus | None = None
    """For the status."""

    def noting(self, offset: int, hold: Hold, until_ms: int) -> Holding:
        """An order that was not known yet. One that a predecessor has given up stays so."""
        phase = HoldPhase.RELEASED if hold.released else HoldPhase.NOTED
        if self.told is not None and self.told.request_id == hold.request_id:
            phase = HoldPhase.GIVEN_UP if self.told.phase is HoldPhase.GIVEN_UP else phase
        return Holding(offset, until_ms, hold.limits, HoldStatus(hold.request_id, phase, 0))

    def waiting_later(self, gap_ms: int) -> Holding:
        """For so long nobody listened: it may have been renewed meanwhile."""
        return replace(self, until_ms=self.until_ms + gap_ms) if self.counts else self

    def saying(self, phase: HoldPhase, step: int = 0) -> Holding:
        """How far the pipeline is with the order that is known."""
        if self.told is None or (self.told.phase, self.told.step) == (phase, step):
            return self
        return replace(self, told=replace(self.told, phase=phase, step=step))

    def inherited(self, told: HoldStatus | None) -> Holding:
        """What the predecessors have said. An order that they have given up means nothing to their successors."""
        return self if told is None else replace(self, told=told)

    def unread(self) -> Holding:
        """Another tenure begins."""
        return Holding()

    @property
    def counts(self) -> bool:
        """Whether steps go by the order."""
        return (
            self.told is not None
            and self.offset >= 0
            and self.told.phase in (HoldPhase.NOTED, HoldPhase.HELD)
        )
