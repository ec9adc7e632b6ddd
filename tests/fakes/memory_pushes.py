"""The PushLog port in memory: rows have places, and are nowhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kcontrol.requests.push.bodies import content_of
from kcontrol.requests.push.limits import MemoryLimits
from kcontrol.requests.push.log import OtherRowsError, Push, Pushed, TooManyRememberedError, always
from kcontrol.sessions.ports import Clock
from kcontrol.wire.pushed import PushedEnd, PushedRequest


class MemoryPushLog:
    """All rows go to one partition, behind the `begin` records that are there."""

    def __init__(
        self, clock: Clock, limits: MemoryLimits | None = None, begin: int = 9, partition: int = 0
    ) -> None:
        self._clock, self._limits, self._end, self._partition = (
            clock,
            limits or MemoryLimits(),
            begin,
            partition,
        )
        self._known: dict[str, PushedRequest] = {}

    async def push(self, push: Push, check_room: Callable[[], None] = always) -> Pushed:
        content = content_of(push.rows)
        known = self._known.get(push.request_id)
        if known is not None and known.content != content:
            raise OtherRowsError(f"request {push.request_id!r} has pushed other rows already")
        if known is None:
            check_room()
            await asyncio.sleep(0)  # Others may come before the rows are there, or the same request.
            if push.request_id in self._known:
                return Pushed(self._known[push.request_id], True)
            if len(self._known) >= self._limits.requests:
                raise TooManyRememberedError(f"{self._limits.requests} requests are remembered", 60)
            self._end += len(push.rows)
            item, count = push.input, len(push.rows)
            known = self._known[push.request_id] = PushedRequest(
                *(push.pipeline, item.name, push.request_id, item.topic, item.topic_id, content, count),
                at_ms=self._clock.now_ms(),
                ends=(PushedEnd(self._partition, self._end - 1),),
                remember_ms=self._limits.remember_ms,
                longest_ms=self._limits.remember_ms,
            )
            return Pushed(known, False)
        return Pushed(known, True)

    def remembered(self) -> int:
        return len(self._known)

    async def close(self) -> None:
        """Nothing is open."""
