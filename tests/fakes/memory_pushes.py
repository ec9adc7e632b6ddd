"""The PushLog port in memory: rows have places, and are nowhere."""

from __future__ import annotations

from collections.abc import Callable

from kcontrol.requests.push.bodies import content_of
from kcontrol.requests.push.log import OtherRowsError, Push, Pushed, always
from kcontrol.sessions.ports import Clock
from kcontrol.wire.pushed import PushedEnd, PushedRequest

REMEMBER_MS = 86_400_000


class MemoryPushLog:
    """All rows go to partition 0, behind the `begin` records that are there."""

    def __init__(self, clock: Clock, begin: int = 9) -> None:
        self._clock, self._end = clock, begin
        self._known: dict[str, PushedRequest] = {}

    async def push(self, push: Push, check_room: Callable[[], None] = always) -> Pushed:
        content = content_of(push.rows)
        known = self._known.get(push.request_id)
        if known is not None and known.content != content:
            raise OtherRowsError(f"request {push.request_id!r} has pushed other rows already")
        if known is None:
            check_room()
            self._end += len(push.rows)
            item, count = push.input, len(push.rows)
            known = self._known[push.request_id] = PushedRequest(
                *(push.pipeline, item.name, push.request_id, item.topic, item.topic_id, content, count),
                at_ms=self._clock.now_ms(),
                ends=(PushedEnd(0, self._end - 1),),
            )
            return Pushed(known, False, known.at_ms + REMEMBER_MS)
        return Pushed(known, True, known.at_ms + REMEMBER_MS)

    async def close(self) -> None:
        """Nothing is open."""
