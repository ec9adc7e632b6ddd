"""The InputWatcher port for rows that follow from an address: how many are due is a question to the clock."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable

from kcontrol.core.model import ReceivedPartition
from kcontrol.sessions.ports import Arrivals, Clock
from kcontrol.wire.addresses import ROWS_ID, address_of

PACE_S = 0.02
"""Least time between two arrivals."""
LOOK_S = 1.0
"""A clock may be set: it is looked at so often at least."""
ROW_BYTES = 32
"""About what a row takes in Arrow."""


class GeneratedWatcher:
    """Watches some partitions of one input. One `arrivals` at a time."""

    def __init__(self, topic: str, partitions: Iterable[int], clock: Clock) -> None:
        """Raises ConfigurationError for an address that is not known here."""
        self._address = address_of(topic)
        self._partitions = sorted(partitions)
        self._clock = clock

    async def arrivals(self) -> Arrivals:
        """As the port says. A wall clock that is set back takes nothing back."""
        ends: dict[int, int] = {}
        first: dict[int, int] = {}
        while True:
            now_ms = self._clock.now_ms()
            due = self._address.ends(now_ms)
            before = dict(ends)
            for partition in self._partitions:
                ends[partition] = max(due[partition], ends.get(partition, 0))
                first.setdefault(partition, ends[partition])
            if ends != before:
                seen = sum(ends[partition] - first[partition] for partition in self._partitions)
                yield (
                    tuple(
                        ReceivedPartition(partition, ROWS_ID, 0, ends[partition])
                        for partition in self._partitions
                    ),
                    seen * ROW_BYTES,
                )
            next_ms = self._address.next_due_ms(now_ms)
            due_ms = math.inf if next_ms is None else max(next_ms, now_ms + PACE_S * 1000)
            # Who listens has a pace of its own, which counts.
            await asyncio.sleep(min(max(0.0, (due_ms - self._clock.now_ms()) / 1000), LOOK_S))

    async def close(self) -> None:
        """Nothing is open."""
