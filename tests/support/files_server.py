"""A server of files over HTTP with ranges and entity tags, as web servers and stores of objects have them, and with their
faults.

    python -m tests.support.files_server PORT FILE NTH

is one as a process of its own, of one file, which kills itself with SIGKILL in the midst of its NTH answer; 0: never.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_RANGE = re.compile(r"bytes=(\d+)-(\d+)")


class FilesServer:
    """files: by path their bytes and tag. faults: by name, how many more answers are faulty so. `asked`: ranges that were
    given."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.files: dict[str, tuple[bytes, str]] = {}
        self.faults: Counter[str] = Counter()
        self.asked: list[tuple[int, int]] = []
        self.refuses_with = 0
        """The status that everything is answered with; 0: nothing is refused."""
        self.dies_at = 0
        """The answer in whose midst this process ends; 0: none."""

    def put(self, path: str, data: bytes, tag: str) -> str:
        """Returns its URL."""
        self.files[path] = data, tag
        return f"{self.url}{path}"

    def takes(self, fault: str) -> bool:
        """Whether this answer has the fault."""
        if self.faults[fault] < 1:
            return False
        self.faults[fault] -= 1
        return True


@contextmanager
def serving_files(port: int = 0) -> Iterator[FilesServer]:
    """On a port of loopback, for as long as it is open. port: 0 for any."""
    shared: list[FilesServer] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            _answer(shared[0], self)

        def log_message(self, *_: Any) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    shared.append(FilesServer(f"http://127.0.0.1:{server.server_address[1]}"))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield shared[0]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _answer(files: FilesServer, request: BaseHTTPRequestHandler) -> None:
    found = files.files.get(request.path)
    if files.refuses_with:
        return _send(request, files.refuses_with, b"", {})
    if files.takes("away"):
        return _send(request, 503, b"", {})
    if files.takes("redirect"):
        return _send(request, 302, b"", {"Location": "http://elsewhere/"})
    if found is None:
        return _send(request, 404, b"", {})
    data, tag = found
    wanted = request.headers.get("If-Match")
    if wanted is not None and wanted != tag:
        return _send(request, 412, b"", {})
    headers = {"ETag": tag, "Last-Modified": "Thu, 26 Nov 2026 05:00:00 GMT"}
    if files.takes("whole"):
        return _send(request, 200, data, headers)
    match = _RANGE.fullmatch(request.headers.get("Range", ""))
    assert match is not None
    begin, stop = int(match[1]), min(int(match[2]) + 1, len(data))
    if begin >= len(data):
        return _send(request, 416, b"", {**headers, "Content-Range": f"bytes */{len(data)}"})
    if files.takes("packed"):
        headers["Content-Encoding"] = "gzip"
    if files.takes("other range"):
        begin, stop = begin - 1, stop - 1
    files.asked.append((begin, stop))
    headers["Content-Range"] = f"bytes {begin}-{stop - 1}/{len(data)}"
    if len(files.asked) == files.dies_at:
        _send(
            request, 206, data[begin : (begin + stop) // 2], {**headers, "Content-Length": str(stop - begin)}
        )
        os.kill(os.getpid(), signal.SIGKILL)
    if files.takes("short"):
        stop -= 1
    return _send(request, 206, data[begin:stop], headers)


def _send(request: BaseHTTPRequestHandler, code: int, body: bytes, headers: dict[str, str]) -> None:
    request.send_response(code)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(body)


if __name__ == "__main__":
    _port, _file, _dies_at = sys.argv[1:]
    _data = Path(_file).read_bytes()
    with serving_files(int(_port)) as _server:
        _server.dies_at = int(_dies_at)
        _server.put(f"/{Path(_file).name}", _data, f'"{hashlib.sha256(_data).hexdigest()}"')
        threading.Event().wait()
