"""One file over HTTP by ranges, as a web server gives it: the kernel sends it, so that the server takes little of the processor
that is measured.

`python -m bench.files.served FILE` prints the port it listens on, on loopback, and serves until it is ended.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_RANGE = re.compile(r"bytes=(\d+)-(\d+)")
_TAG = '"1"'
"""The file is not changed while it is served."""


@contextmanager
def serving(file: Path) -> Iterator[str]:
    """The file's URL, whose server is a process of its own."""
    command = [sys.executable, "-m", "bench.files.served", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield f"http://127.0.0.1:{int(server.stdout.readline())}/{file.name}"
        finally:
            server.terminate()


def serve(file: Path) -> ThreadingHTTPServer:
    """A server on any port."""
    size_bytes = file.stat().st_size

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            match = _RANGE.fullmatch(self.headers.get("Range", ""))
            if match is None or self.path != f"/{file.name}":
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            begin, stop = int(match[1]), min(int(match[2]) + 1, size_bytes)
            if begin >= stop:
                self._head(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, f"*/{size_bytes}", 0)
                return
            self._head(HTTPStatus.PARTIAL_CONTENT, f"{begin}-{stop - 1}/{size_bytes}", stop - begin)
            with file.open("rb") as served:
                while begin < stop:
                    begin += os.sendfile(self.connection.fileno(), served.fileno(), begin, stop - begin)

        def _head(self, status: HTTPStatus, content_range: str, length: int) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(length))
            self.send_header("Content-Range", f"bytes {content_range}")
            self.send_header("ETag", _TAG)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nobody reads it."""

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)


if __name__ == "__main__":
    made = serve(Path(sys.argv[1]))
    print(made.server_address[1], flush=True)
    made.serve_forever()
