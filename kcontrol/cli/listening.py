"""Options of the commands that listen for HTTP."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import click

from kcontrol.adapters.http.access import read_token
from kcontrol.adapters.http.limits import HttpLimits
from kcontrol.adapters.http.listener import HttpOptions, Listener

_Command = TypeVar("_Command", bound=Callable[..., Any])


def listen_options(what: str, prefix: str, default_port: int | None) -> Callable[[_Command], _Command]:
    """--PREFIXhost, --PREFIXport and --token-file, as the parameters `host`, `port` and
    `token_file`; `what` is served."""

    def add(command: _Command) -> _Command:
        default = f"Default: {default_port}." if default_port is not None else "Default: nothing is served."
        for option in (
            click.option(
                "--token-file",
                type=click.Path(path_type=Path),
                help="File with the bearer token that every request must hold. Needed for any --host but "
                "this machine's own.",
            ),
            click.option(
                f"--{prefix}port",
                "port",
                type=click.IntRange(0, 65535),
                default=default_port,
                help=f"Port of {what}; 0: a free one. {default}",
            ),
            click.option(
                f"--{prefix}host",
                "host",
                default="127.0.0.1",
                show_default=True,
                help=f"Address of {what} on this machine.",
            ),
        ):
            command = option(command)
        return command

    return add


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
