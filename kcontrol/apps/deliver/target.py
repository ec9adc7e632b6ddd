"""What a delivery needs of a target, whatever it is."""

from __future__ import annotations

from typing import Protocol

from kcontrol.core.step.following import Applied, Delivered, Guarantee, PlacedRecords


class Target(Protocol):
    """All methods raise TargetAwayError, after which `open` begins anew, and DeliveryHaltedError."""

    guarantee: Guarantee
    kind: str
    held_by: str
    """Who has the delivery, if `take` did not get it."""

    @property
    def name(self) -> str:
        """Short, and without secrets."""
        ...

    @property
    def address(self) -> str:
        """As a URL, without user, query and secrets."""
        ...

    def open(self) -> None:
        """Connect, and see that what is needed is there."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...

    def applied(self) -> Applied | None:
        """What the target holds; None: nothing was ever delivered."""
        ...

    def forget(self) -> None:
        """Nothing was ever delivered, if the target is empty."""
        ...

    def begin(self, log_id: str, step: int) -> None:
        """Of a target that holds nothing: `step` counts as its last one."""
        ...

    def take(self) -> Applied | None:
        """Have the delivery, so that nobody else has; what the target holds. None: somebody else has it."""
        ...

    def beat(self, last_in_log: int) -> None:
        """Say that this is at work. Raises ReplacedError: another has taken over."""
        ...

    def halted(self, reason: str) -> None:
        """For whoever looks at the target."""
        ...

    def apply(
        self, step: int, its_print: str, committed_ms: int, records: PlacedRecords, follows: int
    ) -> Delivered:
        """Apply a step, which follows another one; its records are read once and to their end if it is the next one. Raises
        ReplacedError."""
        ...
