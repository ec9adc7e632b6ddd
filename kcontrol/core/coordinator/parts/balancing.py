"""How evenly state has been divided, checkpoint by checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Balancing:
    """None was looked at, as it is made: what there is without a policy."""

    judged: int = 0
    """The newest checkpoint that was looked at; 0: none under this claim."""
    uneven: int = 0
    """In how many in a row a node had too much."""
    still_ms: int = 0
    """Since when the layout has not been changed, by the monotonic clock; no longer than under this assignment."""
    text: str = ""
    """For the status."""

    def off(self) -> Balancing:
        """Nothing is looked at: there is no policy, or another claim."""
        return NOTHING_LOOKED_AT

    def anew(self, now_ms: int) -> Balancing:
        """Nothing was looked at yet with this policy, under this claim."""
        return Balancing(still_ms=now_ms)

    def begun(self, now_ms: int, text: str) -> Balancing:
        """Another layout is in force, or asked for."""
        return Balancing(self.judged, 0, now_ms, text)

    def seen(self, step: int, text: str) -> Balancing:
        """One more checkpoint. text: '': nobody has too much in it."""
        return replace(self, judged=step, uneven=self.uneven + 1 if text else 0, text=text)

    def saying(self, text: str) -> Balancing:
        """What is done about it."""
        return replace(self, text=text)


NOTHING_LOOKED_AT = Balancing()
