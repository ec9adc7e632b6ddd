"""Connections that bring no request are cut off.

The ASGI server bounds how long a connection may be idle between two requests, but not how long the headers of one may take:
whoever sends a byte of them now and then would keep a connection for ever, and there are only so many. So each connection has a
time within which the application must have been asked over it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

_log = logging.getLogger("kcontrol.http")

_Ends = tuple[tuple[str, int], tuple[str, int]]
"""Addresses of client and server, by which a request is told to be of a connection: no two that are open have the same."""


@dataclass(slots=True)
class _WatchedConnection:
    """requests: that are being answered. cut: when it is cut off; None while there are some."""

    transport: asyncio.Transport
    requests: int = 0
    cut: asyncio.TimerHandle | None = None


class HeaderDeadlines:
    """Of all connections of a server, in one event loop."""

    def __init__(self, headers_s: float, idle_s: float) -> None:
        """headers_s: within which they must be whole, counted from when the connection is made, or has been idle for as long as
        it may: idle_s, after an answer."""
        self._headers_s, self._idle_s = headers_s, idle_s
        self._open: dict[_Ends, _WatchedConnection] = {}

    def around(self, app: ASGIApp) -> ASGIApp:
        """An application that notes when it is asked."""

        async def noted(scope: Scope, receive: Receive, send: Send) -> None:
            connection = self._open.get((scope["client"], scope["server"]))
            if connection is None:
                await app(scope, receive, send)
                return
            connection.requests += 1
            self._leave(connection)
            try:
                await app(scope, receive, send)
            finally:
                connection.requests -= 1
                # Of requests that are sent one behind the other the next may have begun already.
                if not connection.requests:
                    self._watch(connection, self._idle_s + self._headers_s)

        return noted

    def protocol(self) -> type[asyncio.Protocol]:
        """HTTP as the server speaks it, over connections that are watched."""
        deadlines = self

        class WatchedProtocol(H11Protocol):
            def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
                super().connection_made(transport)
                deadlines.opened(transport)

            def connection_lost(self, exc: Exception | None) -> None:
                deadlines.closed(self.transport)
                super().connection_lost(exc)

        return WatchedProtocol

    def opened(self, transport: asyncio.Transport) -> None:
        """A connection is there."""
        connection = self._open[_ends(transport)] = _WatchedConnection(transport)
        self._watch(connection, self._headers_s)

    def closed(self, transport: asyncio.Transport) -> None:
        """It is gone."""
        connection = self._open.get(_ends(transport))
        # Another one may have got the same addresses by now.
        if connection is not None and connection.transport is transport:
            del self._open[_ends(transport)]
            self._leave(connection)

    def _watch(self, connection: _WatchedConnection, within_s: float) -> None:
        if not connection.transport.is_closing():
            loop = asyncio.get_running_loop()
            connection.cut = loop.call_later(within_s, self._cut, connection)

    def _leave(self, connection: _WatchedConnection) -> None:
        if connection.cut is not None:
            connection.cut.cancel()
            connection.cut = None

    def _cut(self, connection: _WatchedConnection) -> None:
        _log.debug(
            "a connection from %s brought no whole headers in time",
            connection.transport.get_extra_info("peername"),
        )
        # What is not taken of an answer would be waited for if it were closed.
        connection.transport.abort()


def _ends(transport: asyncio.Transport) -> _Ends:
    peer, own = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
    return (str(peer[0]), int(peer[1])), (str(own[0]), int(own[1]))
