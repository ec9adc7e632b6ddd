"""Bytes of what a URL gives, by where they are, and only of the version that was found when the pipeline was first started.

Each request asks for that version (`If-Match`, where the server has strong entity tags: RFC 9110, 13.1.1), and each answer must
say that it is of it, by size and by tag or time of change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING

from kcontrol.errors import ConfigurationError, InputGoneError, InputRefusedError, RetriableError
from kcontrol.wire.files import UrlVersion

if TYPE_CHECKING:
    import httpx

TIMEOUT_S = 30.0
"""For a connection, and for each piece of an answer."""
_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+)")
_AGAIN = (408, 425, 429)
"""And all from 500 on: another try may give it."""
_REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


class OpenedUrl:
    """A connection that is kept for as long as it is read."""

    chunk_bytes = 8 << 20

    def __init__(self, url: str, version: UrlVersion, client: httpx.Client) -> None:
        self.path, self._version, self._client = url, version, client

    def size(self) -> int:
        """Of the version that it is."""
        return self._version.size_bytes

    def read(self, at: int, size_bytes: int) -> bytes:
        """So many bytes from `at` on, fewer at the end. Raises InputGoneError: it is another version, not there, or not for us.
        RetriableError: the server did not give it now, or gave other bytes."""
        to = min(at + size_bytes, self._version.size_bytes)
        if at >= to:
            return b""
        answer = _get(self._client, self.path, at, to, self._version.strong_tag)
        _check_same(self.path, self._version, _version_in(self.path, answer))
        _check_range(self.path, answer, at, to)
        if len(answer.content) != to - at:
            raise RetriableError(
                f"{self.path} gave {len(answer.content)} bytes of {to - at} that it was asked for"
            )
        return answer.content


@contextmanager
def opened_url(url: str, version: UrlVersion) -> Iterator[OpenedUrl]:
    """To be read in ranges."""
    with _client() as client:
        yield OpenedUrl(url, version, client)


def version_of(url: str) -> UrlVersion:
    """What is there now. Raises InputGoneError: it is not there, or not for us. ConfigurationError: no ranges of it can be had.
    RetriableError: the server does not answer, or not now."""
    with _client() as client:
        return _version_in(url, _get(client, url, 0, 1, ""))


def changed(url: str, was: UrlVersion, now: UrlVersion) -> str:
    """What is not as it was; '' if it is the same version."""
    if was == now:
        return ""
    return f"{url} is another version: it is {now.told}, and was {was.told}"


def _client() -> httpx.Client:
    # Every node and every Python worker of Spark imports this module, and hardly one of them reads a URL.
    import httpx

    return httpx.Client(timeout=TIMEOUT_S, follow_redirects=False)


def _get(client: httpx.Client, url: str, at: int, to: int, tag: str) -> httpx.Response:
    import httpx

    headers = {"Range": f"bytes={at}-{to - 1}", "Accept-Encoding": "identity"}
    try:
        with client.stream("GET", url, headers={**headers, **({"If-Match": tag} if tag else {})}) as answer:
            if answer.status_code == HTTPStatus.PARTIAL_CONTENT:
                answer.read()
    except httpx.TransportError as error:
        raise RetriableError(f"{url} does not answer: {str(error) or type(error).__name__}") from error
    code = answer.status_code
    if code == HTTPStatus.OK:
        raise ConfigurationError(
            f"{url}: its server gives all of it and no ranges, so no step could read its part of it"
        )
    if answer.is_redirect:
        raise ConfigurationError(
            f"{url} redirects to {answer.headers.get('location', 'nowhere')}: give that address instead"
        )
    if code >= HTTPStatus.INTERNAL_SERVER_ERROR or code in _AGAIN:
        raise RetriableError(f"{url} answers {code} {answer.reason_phrase}")
    if code in _REFUSED:
        raise InputRefusedError(
            f"{url} may not be read: its server answers {code} {answer.reason_phrase}, and requests carry no login: "
            "have it given to the hosts of nodes and executors without one"
        )
    if code == HTTPStatus.PRECONDITION_FAILED:
        raise InputGoneError(f"{url} is another version than {tag}, which its steps have read")
    if code not in (HTTPStatus.PARTIAL_CONTENT, HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE):
        raise InputGoneError(f"{url} answers {code} {answer.reason_phrase}")
    return answer


def _version_in(url: str, answer: httpx.Response) -> UrlVersion:
    size = _CONTENT_RANGE.fullmatch(answer.headers.get("content-range", ""))
    if size is None or answer.headers.get("content-encoding", "identity") != "identity":
        raise ConfigurationError(
            f"{url}: its server does not say how large it is, or sends it compressed, so no range of it can be read"
        )
    return UrlVersion(int(size[3]), answer.headers.get("etag", ""), answer.headers.get("last-modified", ""))


def _check_same(url: str, was: UrlVersion, now: UrlVersion) -> None:
    wrong = changed(url, was, now)
    if wrong:
        raise InputGoneError(wrong)


def _check_range(url: str, answer: httpx.Response, at: int, to: int) -> None:
    """What stands between may give what it has of another range."""
    said = answer.headers["content-range"]
    found = _CONTENT_RANGE.fullmatch(said)
    if found is None or found[1] is None or (int(found[1]), int(found[2])) != (at, to - 1):
        raise RetriableError(f"{url} gave {said!r} and was asked for bytes {at}-{to - 1}")
