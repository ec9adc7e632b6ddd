"""Writes that are lost just when they would say that an alarm went off."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kcontrol.core.regions.log_view import RegionLogged
from kcontrol.core.regions.model import Alarm
from kcontrol.core.regions.records import RegionChange, RegionEventKind


@dataclass
class LostAlarms:
    """left: for each of these the next such write is lost. lost: how many were."""

    left: set[Alarm] = field(default_factory=set)
    lost: int = 0

    def loses(self, before: RegionChange | None, written: Iterable[RegionLogged]) -> bool:
        """Whether a write is. before: the newest change of the log that it would go on with."""
        for record in written:
            if not isinstance(record, RegionChange):
                continue
            set_then = None if before is None else before.alarm
            if record.happened.kind is RegionEventKind.ALARM_WENT_OFF and set_then in self.left:
                self.left.discard(set_then)
                self.lost += 1
                return True
            before = record
        return False
