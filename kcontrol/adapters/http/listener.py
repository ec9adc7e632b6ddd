"""A socket that is listened on, and the ASGI server behind it: in the process's own event
loop, or in a thread beside it."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import uvicorn
from starlette.types import ASGIApp

from kcontrol.adapters.http.access import AccessToken, check_address
from kcontrol.adapters.http.deadlines import HeaderDeadlines
from kcontrol.adapters.http.limits import HttpLimits
from kcontrol.errors import ConfigurationError

_log = logging.getLogger("kcontrol.http")

BACKLOG = 128
_JOIN_S = 10.0


@dataclass(frozen=True)
class HttpOptions:
    """Where a server listens, who may ask, and its limits. port 0: any free one. token None: only on
    loopback."""

    host: str = "127.0.0.1"
    port: int = 0
    token: AccessToken | None = None
    limits: HttpLimits = field(default_factory=HttpLimits)


class Listener:
    """Listens from the moment it is made: an address that is taken is an error before anything else is
    started.

    Raises ConfigurationError: the address is taken or not this machine's, or others could ask without a
    token.
    """

    def __init__(self, options: HttpOptions) -> None:
        check_address(options.host, options.token)
        self.options = options
        self._stopped = threading.Event()
        self._server: _Server | None = None
        family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
        try:
            self._socket = socket.create_server((options.host, options.port), family=family, backlog=BACKLOG)
        except OSError as error:
            raise ConfigurationError(
                f"can't listen on host {options.host}, port {options.port}: {error.strerror or error}; "
                "give another"
            ) from error

    @property
    def url(self) -> str:
        """Of the server, with the port that it has got."""
        host, port = self._socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    @property
    def reachable_url(self) -> str:
        """The same for others: with this machine's name where every address of it is listened on."""
        host, port = self._socket.getsockname()[:2]
        everywhere = ipaddress.ip_address(host).is_unspecified
        return f"http://{socket.gethostname()}:{port}" if everywhere else self.url

    async def serve(self, app: ASGIApp) -> None:
        """Answer until `stop` is called or this is cancelled; requests under way are given
        `stop_timeout_s`."""
        self._server = _Server(_config(app, self.options.limits))
        self._server.should_exit = self._stopped.is_set()
        await self._server.serve([self._socket])

    def stop(self) -> None:
        """End `serve` soon; from any thread."""
        self._stopped.set()
        if self._server is not None:
            self._server.should_exit = True

    @contextmanager
    def in_thread(self, run: Callable[[], Awaitable[None]]) -> Iterator[None]:
        """While the block runs, keep `run`, which serves, going in a thread and an event loop of its own."""

        async def work() -> None:
            try:
                await run()
            except Exception:  # noqa: BLE001 - the process does its work without it, and probes see that it is gone
                _log.exception("the HTTP server has ended by itself")

        thread = threading.Thread(target=lambda: asyncio.run(work()), name="kcontrol-http", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.stop()
            thread.join(_JOIN_S)


class _Server(uvicorn.Server):
    """Leaves signals to the process that it is part of."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _config(app: ASGIApp, limits: HttpLimits) -> uvicorn.Config:
    deadlines = HeaderDeadlines(limits.headers_timeout_s, limits.keep_alive_s)
    return uvicorn.Config(
        deadlines.around(app),
        interface="asgi3",
        lifespan="off",
        loop="asyncio",
        http=deadlines.protocol(),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=limits.max_connections + limits.max_streams,
        timeout_keep_alive=limits.keep_alive_s,
        timeout_graceful_shutdown=limits.stop_timeout_s,
    )
