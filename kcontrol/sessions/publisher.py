"""Carries out `Publish` effects in order without making the state machine wait.

Everything that is waiting goes out in one append: while one is being acknowledged the next ones gather. Order
is kept, and `drained` lets a process end only after its last words are acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from kcontrol.core.events import Publish
from kcontrol.sessions.ports import ControlLog
from kcontrol.sessions.retrying import until_deadline


class Publisher:
    """Appends to one control log. `run` is to be kept running as a task of the session."""

    def __init__(
        self,
        control: ControlLog,
        log: logging.Logger,
        deadline_ms: int,
        acknowledged: Callable[[int], None] = lambda _offset: None,
    ) -> None:
        """acknowledged: told the offset of the last record of each append."""
        self._control = control
        self._acknowledged = acknowledged
        self._log = log
        self._deadline_ms = deadline_ms
        self._waiting: deque[Publish] = deque()
        self._arrived = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def put(self, publish: Publish) -> None:
        """Take the records over; they are written in the order of the calls."""
        self._waiting.append(publish)
        self._idle.clear()
        self._arrived.set()

    async def drained(self) -> None:
        """Return when all that was put is acknowledged."""
        await self._idle.wait()

    async def run(self) -> None:
        """Write until cancelled. Raises RetriableError when the broker stays away beyond the deadline."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                batch = self._take()
                offsets = await until_deadline(
                    lambda batch=batch: self._control.append(batch.records, batch.forget),  # type: ignore[misc]
                    "writing to the control topic",
                    self._log,
                    self._deadline_ms,
                )
                if offsets:
                    self._acknowledged(offsets[-1])
            self._idle.set()

    def _take(self) -> Publish:
        """The longest run of waiting records that one append may write: it writes
        tombstones last, so they end a run."""
        records = list(self._waiting[0].records)
        forget = self._waiting.popleft().forget
        while self._waiting and not forget:
            following = self._waiting.popleft()
            records.extend(following.records)
            forget = following.forget
        return Publish(tuple(records), forget)
