"""What people were shown last."""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.core.model import Status


@dataclass(frozen=True, slots=True)
class Shown:
    """The newest status of this coordinator, if the log does not hold another one since."""

    status: Status | None = None
    status_ms: int = 0

    def saying(self, status: Status, now_ms: int) -> Shown:
        """It is published."""
        return Shown(status, now_ms)

    def displaced(self) -> Shown:
        """Another coordinator's is newer, or another tenure begins: it must be said again."""
        return Shown(None, self.status_ms)
