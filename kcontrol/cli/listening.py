"""What commands that listen for HTTP do with their options."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from kcontrol.adapters.http.access import read_token
from kcontrol.adapters.http.limits import HttpLimits
from kcontrol.adapters.http.listener import HttpOptions, Listener


def listen(host: str, port: int, token_file: Path | None, limits: HttpLimits | None = None) -> Listener:
    """Raises ConfigurationError: the address can't be had, the token file is wrong, or one is needed."""
    token = None if token_file is None else read_token(token_file)
    return Listener(HttpOptions(host, port, token, limits or HttpLimits()))


def run_listening(listener: Listener, serve: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Serve until it ends, as it does soon after SIGINT or SIGTERM. serve: is called on the event loop."""

    async def until_stopped() -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, listener.stop)
        await serve()

    asyncio.run(until_stopped())
