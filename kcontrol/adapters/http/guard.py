"""What every request passes before it is answered: who asks, how many at a time, how large, and for how
long."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kcontrol.adapters.http.access import AccessToken, is_foreign_host, is_foreign_write
from kcontrol.adapters.http.console_pages import is_console
from kcontrol.adapters.http.limits import HttpLimits
from kcontrol.adapters.http.problems import problem

HEALTH = "/health/"
"""Paths under it are for probes: they need no token and are never turned away."""


STREAM = re.compile(r"/v1/pipelines/([^/]+)/outputs/([^/]+)/stream")
"""Such paths may be answered for longer, and are counted apart: whoever follows an output does so for minutes."""
INGRESS = "/ingress/"
"""Bodies for paths that hold this may be larger."""


class RequestGuard:
    """An ASGI application around another."""

    def __init__(
        self,
        app: ASGIApp,
        limits: HttpLimits,
        token: AccessToken | None,
        oversized: Callable[[str], None] = lambda _: None,
        crowded: Callable[[str], None] = lambda _: None,
    ) -> None:
        """oversized, crowded: are told the path of a request whose body is too large, and of a stream that is one too many."""
        self._app = app
        self._oversized, self._crowded = oversized, crowded
        self._limits = limits
        self._token = token
        self._running = {False: 0, True: 0}
        """Requests that are being answered: others, and streams."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        streams = self._is_stream(path)
        refused = self._refused(scope, Headers(scope=scope))
        if refused is not None:
            status, name, detail = refused
            await problem(status, name, detail, path)(scope, receive, send)
            return
        self._running[streams] += 1
        try:
            await self._bounded(scope, receive, send)
        finally:
            self._running[streams] -= 1

    def _refused(self, scope: Scope, headers: Headers) -> tuple[int, str, str] | None:
        """Status, name and detail of the problem, if there is one."""
        host, limits = headers.get("host", ""), self._limits
        if self._token is None and is_foreign_host(host):
            return 421, "foreign-host", f"The request is for the host {host!r}, which this server is not."
        if self._token is None and is_foreign_write(scope["method"], headers.get("origin", ""), host):
            return 403, "foreign-origin", "The request comes from a page of another site."
        if scope["path"].startswith(HEALTH):
            return None
        authorization = headers.get("authorization", "")
        if (
            self._token is not None
            and not is_console(scope["path"])
            and not self._token.matches(authorization)
        ):
            return 401, "unauthorized", "The request has no token, or not the right one."
        if self._is_stream(scope["path"]):
            if self._running[True] >= limits.max_streams:
                self._crowded(scope["path"])
                return 503, "busy", f"{limits.max_streams} outputs are being streamed already."
        elif self._running[False] >= limits.max_concurrent:
            return 503, "busy", f"{limits.max_concurrent} requests are being answered already."
        length = headers.get("content-length", "0")
        most = self._most_bytes(scope)
        if length.isdecimal() and int(length) > most:
            self._oversized(scope["path"])
            return 413, "too-large", f"The body has {length} bytes; {most} are allowed."
        return None

    def _is_stream(self, path: str) -> bool:
        return self._limits.max_streams > 0 and STREAM.fullmatch(path) is not None

    def _most_bytes(self, scope: Scope) -> int:
        pushes = INGRESS in scope["path"] and self._limits.max_push_bytes
        return max(self._limits.max_body_bytes, pushes)

    async def _bounded(self, scope: Scope, receive: Receive, send: Send) -> None:
        limits, most, read, begun = self._limits, self._most_bytes(scope), 0, False

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > most:
                self._oversized(scope["path"])
                raise HTTPException(413, f"The body has more than the {most} bytes that are allowed.")
            return message

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            more_s = limits.longest_stream_s if self._is_stream(scope["path"]) else 0
            async with asyncio.timeout(limits.request_timeout_s + more_s):
                await self._app(scope, counted, noted)
        except TimeoutError:
            detail = f"The request was not answered within {limits.request_timeout_s:g} s."
            if not begun:
                await problem(504, "timeout", detail, scope["path"])(scope, receive, send)
