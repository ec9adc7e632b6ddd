"""Gathers what an input watcher reports, so that busy input does not become as many
control records as Kafka has batches.

The first arrival goes out at once; those that follow within `every_ms` go out together. The latest arrival
holds all that the ones before it said, so only it is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kcontrol.core.model import ReceivedPartition

Arrival = tuple[tuple[ReceivedPartition, ...], int]


class ArrivalReporter:
    """The arrivals of one input. `run` is to be kept running as a task of the session."""

    def __init__(self, every_ms: int, send: Callable[[tuple[ReceivedPartition, ...], int], None]) -> None:
        self._every_ms = every_ms
        self._send = send
        self._latest: Arrival | None = None
        self._arrived = asyncio.Event()

    def put(self, arrival: Arrival) -> None:
        """Take in what the watcher saw."""
        self._latest = arrival
        self._arrived.set()

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            if self._latest is not None:
                self._send(*self._latest)
            await asyncio.sleep(self._every_ms / 1000)
