"""A receiver of a webhook that is a process of its own, and keeps what it has taken in a file.

    python -m tests.support.webhook_process PORT FILE [came|kept|answered NTH]

With the last two it kills itself with SIGKILL at its NTH request: when that has come and nothing was kept, when it was kept and
not answered, or when it was answered. What it keeps, a request a line, is written before it answers.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support.patience import HANG_S
from tests.support.ports import free_ports
from tests.support.processes import ROOT, environment

CAME, KEPT, ANSWERED = "came", "kept", "answered"


class ReceiverProcess:
    """One after the other on the same port, with the same file; none when it is made."""

    def __init__(self, directory: Path) -> None:
        [self._port] = free_ports(1)
        self._file = directory / "taken.ndjson"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/hooks/orders"

    def start(self, *death: str) -> None:
        """death: where it ends, of CAME, KEPT and ANSWERED, and at which request; none: nowhere."""
        command = [sys.executable, "-m", __name__, str(self._port), str(self._file), *death]
        self._process = subprocess.Popen(command, env=environment(), cwd=ROOT)

    def until_dead(self) -> int:
        """Its exit code."""
        assert self._process is not None
        return self._process.wait(HANG_S)

    def taken(self) -> list[dict[str, Any]]:
        """Each with its `key` and its `body`; a line that was broken off was not kept."""
        lines = self._file.read_text().splitlines(keepends=True) if self._file.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def __enter__(self) -> ReceiverProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def _serve(port: int, file: Path, death: str = "", nth: int = 0) -> None:
    came = 0

    def reach(point: str) -> None:
        if point == death and came == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            nonlocal came
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            came += 1
            reach(CAME)
            with file.open("a") as out:
                out.write(json.dumps({"key": self.headers["Idempotency-Key"], "body": body}) + "\n")
                out.flush()
                os.fsync(out.fileno())
            reach(KEPT)
            self.send_response(204)
            self.send_header("Content-Length", "0")
            self.end_headers()
            self.wfile.flush()
            reach(ANSWERED)

        def log_message(self, *_: Any) -> None:
            """Nobody reads it."""

    HTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    _port, _file, *_death = sys.argv[1:]
    _serve(int(_port), Path(_file), *(_death[:1]), *(int(each) for each in _death[1:]))
