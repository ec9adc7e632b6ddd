"""A webhook whose answer comes a byte at a time: a request is over when its time is, wherever the answer stands."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kcontrol.adapters.webhook.address import WebhookAddress
from kcontrol.adapters.webhook.target import WebhookOptions, WebhookTarget
from kcontrol.core.step.following import Applied, RecordPlace, StepVerdict
from kcontrol.errors import DeliveryHaltedError, TargetAwayError
from tests.support.patience import HANG_S

TIMEOUT_S, BETWEEN_S, BYTES = 0.3, 0.02, 200
"""Of a request; between two bytes of its answer; that are dripped at most, after which the answer goes on in one go."""
RECORDS = [(b"k", b'{"a": 1}', RecordPlace(0, 5))]


class _Standing:
    """Of a delivery that nobody else wants."""

    def __init__(self) -> None:
        self.applied: Applied | None = Applied("p", "log", 0)

    def open(self) -> None: ...

    def close(self) -> None: ...

    def read(self) -> Applied | None:
        return self.applied

    def take(self) -> bool:
        return True

    def beat(self) -> None: ...

    def write(self, applied: Applied) -> None:
        self.applied = applied


class _Dripping:
    """Takes one connection, and answers with `quick` at once, and with `slow` byte by byte until its client has left.

    left: set when that is so.
    """

    def __init__(self, quick: bytes, slow: bytes) -> None:
        self._quick, self._slow = quick, slow
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/hook"
        self.left = threading.Event()
        self._pause = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        connection, _ = self._socket.accept()
        with connection:
            connection.recv(1 << 16)
            try:
                connection.sendall(self._quick)
                for at in range(BYTES):
                    self._pause.wait(BETWEEN_S)
                    connection.sendall(self._slow[at : at + 1] or b" ")
                connection.sendall(self._slow[BYTES:])
            except OSError:
                self.left.set()

    @contextmanager
    def running(self) -> Iterator[_Dripping]:
        self._thread.start()
        try:
            yield self
        finally:
            self._pause.set()
            self._thread.join(HANG_S)
            self._socket.close()


def _apply(url: str) -> tuple[StepVerdict, _Standing]:
    standing = _Standing()
    options = WebhookOptions(WebhookAddress(url), "json", timeout_s=TIMEOUT_S)
    target = WebhookTarget(options, "p", "out", standing)
    target.open()
    try:
        assert target.take() is not None
        return target.apply(1, "print", 0, RECORDS, 0).verdict, standing
    finally:
        target.close()


@pytest.mark.parametrize(
    ("quick", "slow"),
    [
        (b"", b"HTTP/1.1 204 No Content\r\nx: " + b"x" * BYTES + b"\r\n\r\n"),
        (b"HTTP/1.1 204 No Content\r\n", b"x: " + b"x" * BYTES + b"\r\n\r\n"),
    ],
    ids=["status", "headers"],
)
def test_an_answer_that_drips_is_given_up(quick: bytes, slow: bytes) -> None:
    with _Dripping(quick, slow).running() as server:
        with pytest.raises(
            TargetAwayError, match=r"step 1, .*not answered within 0.3 s \(--request-timeout\)"
        ):
            _apply(server.url)
        assert server.left.wait(HANG_S)


def test_what_was_said_before_its_time_was_over_is_the_answer() -> None:
    head = b"HTTP/1.1 %s\r\nContent-Length: 1000\r\n\r\n"
    with _Dripping(head % b"200 OK", b"a" * 1_000).running() as server:
        verdict, standing = _apply(server.url)
    assert (verdict, standing.applied) == (StepVerdict.NEXT, Applied("p", "log", 1, "print"))
    with (
        _Dripping(head % b"422 No" + b"no column key", b"!" * 1_000).running() as server,
        pytest.raises(DeliveryHaltedError, match="refused with 422: no column key"),
    ):
        _apply(server.url)
