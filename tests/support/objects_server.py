"""What a store of objects answers to S3's clients, as far as inputs of files ask, and the faults that no real one shows when it
is asked to."""

from __future__ import annotations

import hashlib
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

SECRET = "kept-by-nobody-else"
_RANGE = re.compile(r"bytes=(\d+)-(\d+)")
_REFUSED = {
    "away": (503, "ServiceUnavailable"),
    "slow_down": (503, "SlowDown"),
    "denied": (403, "AccessDenied"),
    "wrong_key": (403, "SignatureDoesNotMatch"),
    "expired": (400, "ExpiredToken"),
    "archived": (403, "InvalidObjectState"),
}


class ObjectsServer:
    """objects: by bucket and key. faults: by name, how many more answers are faulty so. asked: ranges that were given. pages:
    listings that were given. woken: what hangs goes on. at_next_range: is called once, before a range is looked for."""

    def __init__(self, url: str, page_keys: int) -> None:
        self.url, self.page_keys, self.pages = url, page_keys, 0
        self.buckets: dict[str, dict[str, bytes]] = {"spool": {}}
        self.faults: Counter[str] = Counter()
        self.asked: list[tuple[int, int]] = []
        self.woken = threading.Event()
        self.at_next_range: Callable[[], object] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """For botocore, which then looks for nothing of this machine's."""
        return {
            "AWS_ENDPOINT_URL_S3": self.url,
            "AWS_ACCESS_KEY_ID": "known",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def put(self, key: str, data: bytes) -> str:
        """Returns its URI."""
        self.buckets["spool"][key] = data
        return f"s3://spool/{key}"

    def takes(self, fault: str) -> bool:
        """Whether this answer has the fault."""
        if self.faults[fault] < 1:
            return False
        self.faults[fault] -= 1
        return True


@contextmanager
def serving_objects(page_keys: int = 1_000) -> Iterator[ObjectsServer]:
    """On a port of loopback, for as long as it is open."""
    shared: list[ObjectsServer] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            _answer(shared[0], self)

        def do_HEAD(self) -> None:
            _answer(shared[0], self)

        def log_message(self, *_: Any) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    shared.append(ObjectsServer(f"http://127.0.0.1:{server.server_address[1]}", page_keys))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield shared[0]
    finally:
        shared[0].woken.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _answer(store: ObjectsServer, request: BaseHTTPRequestHandler) -> None:
    parts = urlsplit(request.path)
    bucket, _, key = unquote(parts.path).removeprefix("/").partition("/")
    for fault, (code, word) in _REFUSED.items():
        if store.takes(fault):
            return _refuse(request, code, word)
    if store.takes("hang"):
        store.woken.wait()
        request.close_connection = True
        return None
    if store.takes("other"):
        return _send(request, 200, b"<html>welcome</html>", {"Content-Type": "text/html"})
    if bucket not in store.buckets:
        return _refuse(request, 404, "NoSuchBucket")
    asked = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
    if asked.get("list-type") == "2":
        return _list(store, request, store.buckets[bucket], asked)
    if store.at_next_range is not None:
        called, store.at_next_range = store.at_next_range, None
        called()
    return _give(store, request, store.buckets[bucket].get(key))


def _list(
    store: ObjectsServer, request: BaseHTTPRequestHandler, objects: dict[str, bytes], asked: dict[str, str]
) -> None:
    store.pages += 1
    prefix, after = asked.get("prefix", ""), asked.get("continuation-token", "")
    assert asked["delimiter"] == "/"
    keys = sorted(
        key for key in objects if key.startswith(prefix) and "/" not in key[len(prefix) :] and key > after
    )
    given = keys[: min(store.page_keys, int(asked["max-keys"]))]
    contents = "".join(
        f"<Contents><Key>{escape(key)}</Key><Size>{len(objects[key])}</Size><ETag>{_tag(objects[key])}</ETag></Contents>"
        for key in given
    )
    more = f"<NextContinuationToken>{escape(given[-1])}</NextContinuationToken>" if given != keys else ""
    body = f"<ListBucketResult><IsTruncated>{str(given != keys).lower()}</IsTruncated>{more}{contents}</ListBucketResult>"
    _send(request, 200, body.encode(), {"Content-Type": "application/xml"})


def _give(store: ObjectsServer, request: BaseHTTPRequestHandler, data: bytes | None) -> None:
    if data is None:
        return _refuse(request, 404, "NoSuchKey")
    headers = {} if store.takes("no_tag") else {"ETag": _tag(data)}
    if request.command == "HEAD":
        return _send(request, 200, data, headers)
    if request.headers.get("If-Match", _tag(data)) != _tag(data) and not store.takes("deaf"):
        return _refuse(request, 412, "PreconditionFailed")
    match = _RANGE.fullmatch(request.headers.get("Range", ""))
    assert match is not None
    if store.takes("whole"):
        return _send(request, 200, data, headers)
    begin, stop = int(match[1]), min(int(match[2]) + 1, len(data))
    if begin >= len(data):
        return _refuse(request, 416, "InvalidRange")
    if store.takes("packed"):
        headers["Content-Encoding"] = "gzip"
    if store.takes("other range"):
        begin, stop = begin - 1, stop - 1
    store.asked.append((begin, stop))
    headers["Content-Range"] = f"bytes {begin}-{stop - 1}/{len(data)}"
    if store.takes("cut_off"):
        request.close_connection = True
        headers["Content-Length"] = str(stop - begin)
        return _send(request, 206, data[begin : stop - 1], headers)
    if store.takes("short"):
        stop -= 1
    return _send(request, 206, data[begin:stop], headers)


def _tag(data: bytes) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


def _refuse(request: BaseHTTPRequestHandler, code: int, word: str) -> None:
    """As S3 does, which may name users and keys in what it says."""
    body = f"<Error><Code>{word}</Code><Message>{SECRET} of known</Message></Error>"
    _send(request, code, body.encode(), {"Content-Type": "application/xml"})


def _send(request: BaseHTTPRequestHandler, code: int, body: bytes, headers: dict[str, str]) -> None:
    request.send_response(code)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        request.send_header(name, value)
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(body)
