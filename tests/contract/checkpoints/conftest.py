"""Each test of the store runs in a directory and in a bucket."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyarrow import fs

from tests.support.s3 import S3Server

_numbers = itertools.count()


@dataclass(frozen=True)
class Place:
    """location: as a pipeline names it. raw, base: the same place for a test that looks, or does damage,
    behind the store's back. environment: what another process needs to reach it."""

    location: str
    raw: fs.FileSystem
    base: str
    environment: Mapping[str, str]

    def files(self) -> set[str]:
        """Everything that is stored."""
        found = self.raw.get_file_info(fs.FileSelector(self.base, recursive=True, allow_not_found=True))
        return {info.path.removeprefix(self.base + "/") for info in found if info.type == fs.FileType.File}

    def write(self, path: str, content: bytes) -> None:
        self.raw.create_dir(f"{self.base}/{path}".rpartition("/")[0], recursive=True)
        with self.raw.open_output_stream(f"{self.base}/{path}") as stream:
            stream.write(content)

    def read(self, path: str) -> bytes:
        with self.raw.open_input_stream(f"{self.base}/{path}") as stream:
            content: bytes = stream.read()
        return content

    def delete(self, path: str) -> None:
        self.raw.delete_file(f"{self.base}/{path}")


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(params=["file", "s3"])
def where(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    if request.param == "file":
        base = tmp_path / "durable"
        return Place(base.as_uri(), fs.LocalFileSystem(), str(base), {})
    server: S3Server = request.getfixturevalue("s3")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    path = f"test-{next(_numbers)}"
    return Place(server.location(path), server.client(), f"{server.bucket}/{path}", server.environment)
