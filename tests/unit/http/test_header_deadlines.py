"""Connections whose headers never come to an end are cut off, and no others."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable

from starlette.types import Receive, Scope, Send

from kcontrol.adapters.http.listener import HttpOptions, Listener
from tests.support.patience import HANG_S
from tests.support.patient_http import patient_limits

HALF = b"GET /now HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
LATER = b"GET /later HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
WHOLE = HALF + b"no\r\n\r\n"
BETWEEN_S = 0.02


class _Answers:
    """An application. Of requests for /later: asked is set when there is one, and it is answered once `released` is."""

    def __init__(self) -> None:
        self.asked, self.released = threading.Event(), threading.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/later":
            self.asked.set()
            await asyncio.to_thread(self.released.wait, HANG_S)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


def _served(scenario: Callable[[Callable[[], socket.socket], _Answers], None]) -> None:
    """scenario: is given what connects, and the application."""
    listener = Listener(HttpOptions(limits=patient_limits(headers_timeout_s=0.3, keep_alive_s=1)))
    address, answers = listener.url.removeprefix("http://").split(":"), _Answers()

    def connect() -> socket.socket:
        return socket.create_connection((address[0], int(address[1])), HANG_S)

    async def main() -> None:
        serving = asyncio.create_task(listener.serve(answers))
        try:
            await asyncio.to_thread(scenario, connect, answers)
        finally:
            answers.released.set()
            listener.stop()
            await serving

    asyncio.run(main())


def _is_cut(connection: socket.socket, *, drips: bool = False) -> bool:
    """Whether the server ends it, whatever is sent. drips: a byte now and then. False: it has answered."""
    pause = threading.Event()
    try:
        if drips:
            connection.settimeout(BETWEEN_S)
        for _ in range(round(HANG_S / BETWEEN_S) if drips else 1):
            try:
                return not connection.recv(1)
            except TimeoutError:
                connection.sendall(b"x")
                pause.wait(BETWEEN_S)
    except ConnectionError:
        return True
    return False


def _answers_read(connection: socket.socket, answers: int) -> None:
    """Reads that many answers to their last byte: head and body come as the network has them."""
    found = b""
    while found.count(b"\r\n\r\nok") < answers:
        more = connection.recv(1 << 16)
        assert more, found
        found += more
    assert found.count(b"HTTP/1.1 200") == answers


def test_headers_that_do_not_end_are_not_waited_for() -> None:
    def scenario(connect: Callable[[], socket.socket], _: _Answers) -> None:
        with connect() as silent, connect() as half, connect() as dripping:
            half.sendall(HALF)
            dripping.sendall(HALF)
            assert _is_cut(dripping, drips=True)
            assert _is_cut(half)
            assert _is_cut(silent)

    _served(scenario)


def test_nor_are_those_of_a_later_request() -> None:
    def scenario(connect: Callable[[], socket.socket], _: _Answers) -> None:
        with connect() as connection:
            connection.sendall(WHOLE)
            _answers_read(connection, 1)
            connection.sendall(HALF)
            assert _is_cut(connection, drips=True)

    _served(scenario)


def test_who_waits_for_an_answer_is_not_cut_off() -> None:
    def scenario(connect: Callable[[], socket.socket], answers: _Answers) -> None:
        with connect() as waiting, connect() as half:
            # The second request comes before the first one is answered.
            waiting.sendall(WHOLE + LATER)
            assert answers.asked.wait(HANG_S)
            half.sendall(HALF)
            assert _is_cut(half)
            answers.released.set()
            _answers_read(waiting, 2)

    _served(scenario)
