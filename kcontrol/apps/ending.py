"""Work that has to be over before its process goes on, whatever becomes of it."""

from __future__ import annotations

import asyncio
from typing import Any

CANCEL_AGAIN_S = 1.0


async def end_task(working: asyncio.Task[Any]) -> None:
    """Cancel it until it has ended, should a failure get in the way of the first try;
    what it says is of no interest."""
    while not working.done():
        working.cancel()
        await asyncio.wait([working], timeout=CANCEL_AGAIN_S)
    if not working.cancelled():
        working.exception()
