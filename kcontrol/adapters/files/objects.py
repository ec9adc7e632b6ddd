"""Objects of S3, and of stores that are asked as S3 is: ranges of them, what is below a prefix, and which version is there.

An object is never appended to; another one may come in its place, and has another entity tag. So each range is asked for with
`If-Match`, and each answer is compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http import HTTPStatus
from typing import Any

from kcontrol.adapters.files.listing import MAX_FILES, ListedFile, is_wanted, refuse_compressed
from kcontrol.adapters.files.s3_client import asking, server_of
from kcontrol.errors import ConfigurationError, InputGoneError, RetriableError
from kcontrol.wire.files import S3, FileAddress, UrlVersion

PAGE_KEYS = 1_000
"""In one answer of a listing: the most that S3 gives."""

_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
_AS_IT_IS = ("", "identity", "aws-chunked")


class OpenedObject:
    """One object, with the size and tag that it has in a listing, or had when the pipeline was first started."""

    chunk_bytes = 8 << 20

    def __init__(self, uri: str, version: UrlVersion) -> None:
        self.path, self._version = uri, version

    def size(self) -> int:
        """Of the object that it is."""
        return self._version.size_bytes

    def read(self, at: int, size_bytes: int) -> bytes:
        """So many bytes from `at` on, fewer at the end. Raises as `asking`."""
        to = min(at + size_bytes, self._version.size_bytes)
        if at >= to:
            return b""
        found, range_, data = _get(self.path, at, to, self._version.tag)
        wrong = changed_object(self.path, self._version, found)
        if wrong:
            raise InputGoneError(wrong)
        if range_ != (at, to - 1):
            raise RetriableError(
                f"{self.path}: S3 gave bytes {range_[0]}-{range_[1]} and was asked for {at}-{to - 1}"
            )
        if len(data) != to - at:
            raise RetriableError(f"{self.path}: S3 gave {len(data)} bytes of {to - at} that it was asked for")
        return data


@contextmanager
def opened_object(uri: str, version: UrlVersion) -> Iterator[OpenedObject]:
    """To be read in ranges."""
    yield OpenedObject(uri, version)


def changed_object(uri: str, was: UrlVersion, now: UrlVersion) -> str:
    """What is not as it was; '' if it is the same object."""
    if was == now:
        return ""
    return f"{uri} is another object: it is {now.told}, and was {was.told}"


def object_version(uri: str) -> UrlVersion:
    """What is there now. Raises as `asking`; ConfigurationError: no range of it can be read."""
    refuse_compressed(uri)
    with asking(uri) as client:
        try:
            return _get(uri, 0, 1, "")[0]
        except _EmptyError:
            answer = client.head_object(**_named(uri))
    return _version(uri, answer, answer["ContentLength"])


def listed_objects(address: FileAddress) -> tuple[ListedFile, ...]:
    """Those right below the prefix, in the order of their keys. Raises as `listing.listed`."""
    bucket, prefix = _parts(address.path)
    prefix = prefix if prefix.endswith("/") or not prefix else f"{prefix}/"
    found: list[tuple[str, int, str]] = []
    keys = 0
    with asking(address.path) as client:
        pages = client.get_paginator("list_objects_v2").paginate(
            Bucket=bucket, Prefix=prefix, Delimiter="/", PaginationConfig={"PageSize": PAGE_KEYS}
        )
        for page in pages:
            if "IsTruncated" not in page:
                raise ConfigurationError(f"{address.path}: {server_of(client)} does not answer as S3 does")
            contents = page.get("Contents", ())
            keys += len(contents)
            if keys > MAX_FILES:
                raise ConfigurationError(
                    f"{address.path} has more than {MAX_FILES} objects: put them together, or below several prefixes with an "
                    "input each"
                )
            for each in contents:
                if is_wanted(each["Key"].removeprefix(prefix), address.pattern):
                    found.append((each["Key"], each["Size"], _tag(f"{S3}{bucket}/{each['Key']}", each)))
    files: list[ListedFile] = []
    begins = 0
    for key, size_bytes, tag in sorted(found):
        path = f"{S3}{bucket}/{key}"
        refuse_compressed(path)
        files.append(ListedFile(path, begins, size_bytes, tag=tag))
        begins += size_bytes
    return tuple(files)


class _EmptyError(InputGoneError):
    """There is no byte where one was asked for."""


def _get(uri: str, at: int, to: int, tag: str) -> tuple[UrlVersion, tuple[int, int], bytes]:
    """With the first and the last byte that the answer says it is of."""
    wanted = {"Range": f"bytes={at}-{to - 1}", **({"IfMatch": tag} if tag else {})}
    with asking(uri) as client:
        try:
            answer = client.get_object(**_named(uri), **wanted)
        except client.exceptions.ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                raise _EmptyError(f"{uri} ends before byte {at}") from error
            raise
        with closing(answer["Body"]) as body:
            size = _CONTENT_RANGE.fullmatch(answer.get("ContentRange", ""))
            if size is None:
                raise ConfigurationError(
                    f"{uri}: its server gives no ranges, so no step could read its part of it"
                )
            return _version(uri, answer, int(size[3])), (int(size[1]), int(size[2])), body.read()


def _version(uri: str, answer: Any, size_bytes: int) -> UrlVersion:
    if answer.get("ContentEncoding", "") not in _AS_IT_IS:
        raise ConfigurationError(
            f"{uri} is stored compressed ({answer['ContentEncoding']}), and no range of it can be read: unpack it"
        )
    return UrlVersion(size_bytes, _tag(uri, answer), "")


def _tag(uri: str, found: Any) -> str:
    """In quotes, which some servers leave out in one place or another."""
    bare = str(found.get("ETag", "")).strip('"')
    if not bare:
        raise ConfigurationError(f"{uri}: its server gives no ETag, by which another object would be known")
    return f'"{bare}"'


def _parts(uri: str) -> tuple[str, str]:
    """Bucket and key."""
    bucket, _, key = uri.removeprefix(S3).partition("/")
    return bucket, key


def _named(uri: str) -> dict[str, str]:
    bucket, key = _parts(uri)
    return {"Bucket": bucket, "Key": key}
