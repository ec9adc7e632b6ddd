"""Each test of files runs on a disk, behind a URL, and in a bucket of a real S3 server."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from kcontrol.adapters.files.s3_client import asking, forget_client
from kcontrol.wire.files import FileAddress
from tests.support.files_server import FilesServer, serving_files
from tests.support.s3 import S3Server

_numbers = itertools.count()


class Place(Protocol):
    """root: what the files' paths begin with."""

    root: str

    def put(self, name: str, data: bytes) -> None:
        """A file, or another one in its place."""

    def remove(self, name: str) -> None: ...


class OnDisk:
    def __init__(self, directory: Path) -> None:
        self.root, self._directory = str(directory), directory
        directory.mkdir()

    def put(self, name: str, data: bytes) -> None:
        # As files should come: whole, by a change of name.
        (self._directory / f".{name}").write_bytes(data)
        (self._directory / f".{name}").rename(self._directory / name)

    def remove(self, name: str) -> None:
        (self._directory / name).unlink()


class BehindUrl:
    def __init__(self, server: FilesServer) -> None:
        self.root, self._server = f"{server.url}/in", server

    def put(self, name: str, data: bytes) -> None:
        self._server.put(f"/in/{name}", data, f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"')

    def remove(self, name: str) -> None:
        del self._server.files[f"/in/{name}"]


class InBucket:
    def __init__(self, bucket: str, prefix: str) -> None:
        self.root, self._bucket, self._prefix = f"s3://{bucket}/{prefix}", bucket, prefix

    def put(self, name: str, data: bytes) -> None:
        with asking(self.root) as client:
            client.put_object(Bucket=self._bucket, Key=f"{self._prefix}/{name}", Body=data)

    def remove(self, name: str) -> None:
        with asking(self.root) as client:
            client.delete_object(Bucket=self._bucket, Key=f"{self._prefix}/{name}")


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3"), "spool") as server:
        yield server


@pytest.fixture
def bucket(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[InBucket]:
    """Of the real server, with a prefix of the test's own."""
    for name, value in s3.for_aws_clients.items():
        monkeypatch.setenv(name, value)
    forget_client()
    yield InBucket(s3.bucket, f"test-{next(_numbers)}")
    forget_client()


def _place(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if kind == "disk":
        yield OnDisk(tmp_path / "in")
    elif kind == "url":
        with serving_files() as server:
            yield BehindUrl(server)
    else:
        yield request.getfixturevalue("bucket")


@pytest.fixture(params=["disk", "url", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """For files that are named one by one."""
    yield from _place(request.param, request, tmp_path)


@pytest.fixture(params=["disk", "s3"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """For files that are found."""
    yield from _place(request.param, request, tmp_path)


def address_of(place: Place, name: str = "", *, pattern: str = "") -> str:
    path = f"{place.root}/{name}" if name else place.root
    return FileAddress(path, pattern, growing=False, header=False, max_line_bytes=5_000).text
