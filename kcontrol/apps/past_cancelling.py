"""Calls of Spark that go on when nobody wants what they give any more: how long they are waited for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

_log = logging.getLogger("kcontrol.node")
_Made = TypeVar("_Made")


async def in_thread(call: Callable[[], _Made], what: str, done: str, pipeline: str, limit_ms: int) -> _Made:
    """In a thread, which no cancelling ends: if this is cancelled, it is over only when the thread is, or when that is taken to
    hang. what, done: for people. Raises what the call raises."""
    working = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working], timeout=limit_ms / 1000)
        if not working.done():
            _log.warning(
                "pipeline %s: %s are still being %s, %g s after nobody wanted them any more; others are %s nevertheless. If "
                "Spark hangs, the node has to be started anew",
                *(pipeline, what, done, limit_ms / 1000, done),
            )
        elif (error := working.exception()) is not None:
            _log.info("%s, which nobody wants any more: %s", what, error)
        raise


async def warmed(warming: Awaitable[None], pipeline: str, limit_ms: int) -> None:
    """Cancelled, it closes what it has opened, in Spark, which may hang: it is waited for no longer than queries that are
    bound, or whoever has made ready would neither go on by the new layout nor make ready for another one. Raises what `Warm`
    raises."""
    working = asyncio.ensure_future(warming)
    try:
        await asyncio.shield(working)
    except asyncio.CancelledError:
        working.add_done_callback(_of_no_interest)
        working.cancel()
        await asyncio.wait([working], timeout=limit_ms / 1000)
        if not working.done():
            _log.warning(
                "pipeline %s: what was opened to be warm for a layout which nobody waits for any more is still being closed, "
                "%g s after that; it is not waited for. If Spark hangs, the node has to be started anew",
                *(pipeline, limit_ms / 1000),
            )
        raise


def _of_no_interest(work: asyncio.Future[None]) -> None:
    if not work.cancelled():
        work.exception()
