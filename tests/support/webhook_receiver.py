"""A server that takes what a webhook is sent, and answers as it is told."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.patience import HANG_S


@dataclass(frozen=True)
class Received:
    """A request as it came. key: without its quotation marks."""

    path: str
    headers: dict[str, str]
    body: bytes
    key: str

    @property
    def said(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


@dataclass
class Answer:
    """What a request gets instead of 204."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    text: str = ""


class Receiver:
    """Everything that was taken, that is answered with success, in its order; `others` were not."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.taken: list[Received] = []
        self.others: list[Received] = []
        self.answers: deque[Answer] = deque()
        """Of the next requests, one each."""
        self.came = threading.Condition()

    def take(self, received: Received) -> Answer:
        with self.came:
            answer = self.answers.popleft() if self.answers else Answer(204)
            (self.taken if answer.status < 300 else self.others).append(received)
            self.came.notify_all()
            return answer

    def until(self, step: int, timeout_s: float = HANG_S) -> None:
        """Until a step was taken whole."""

        def there() -> bool:
            return any(each.said["step"] == step and each.said["last_of_step"] for each in self.taken)

        with self.came:
            assert self.came.wait_for(there, timeout_s), f"step {step} did not come: {self.keys()}"

    def keys(self) -> list[str]:
        return [each.key for each in self.taken]

    def once(self) -> list[Received]:
        """What was taken, of each key once, in the order in which they came first."""
        return list({each.key: each for each in self.taken}.values())

    def rows(self) -> list[Any]:
        """The values of that."""
        return [record["value"] for each in self.once() for record in each.said["records"]]


@contextmanager
def receiver() -> Iterator[Receiver]:
    """One that runs while the block does."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            key = json.loads(headers["idempotency-key"])
            answer = there.take(Received(self.path, headers, body, key))
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            text = answer.text.encode()
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    there = Receiver(f"http://127.0.0.1:{server.server_port}/hooks/orders")
    thread = threading.Thread(target=server.serve_forever, name="webhook-receiver", daemon=True)
    thread.start()
    try:
        yield there
    finally:
        server.shutdown()
        server.server_close()
        thread.join(HANG_S)
