"""What an agent does again and again, each at its own pace."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from kcontrol.errors import RetriableError

_log = logging.getLogger("kcontrol.agent")


async def again_and_again(
    act: Callable[[], Awaitable[None]],
    pause_ms: Callable[[], int],
    ended: Callable[[], bool],
    news: asyncio.Event | None = None,
) -> None:
    """Until it has ended, with a pause after each time; Kafka that is away is waited for. news: cuts a pause short, and is
    cleared by that."""
    while not ended():
        if news is not None:
            news.clear()
        try:
            await act()
        except (RetriableError, TimeoutError) as error:
            _log.info("%s", error)
        pause_s = pause_ms() / 1000
        if news is None:
            await asyncio.sleep(pause_s)
        else:
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), pause_s)
