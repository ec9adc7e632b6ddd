"""A pause that something may end sooner."""

from __future__ import annotations

import asyncio
from contextlib import suppress


async def pause(pause_ms: int, unless: asyncio.Event) -> None:
    """So long, or until the event, if that is sooner."""
    with suppress(TimeoutError):
        async with asyncio.timeout(pause_ms / 1000):
            await unless.wait()
