"""A file or a directory that the node's user may not read is named, and it goes on by itself once that is mended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kcontrol.adapters.files.lines import read_lines
from kcontrol.adapters.files.watcher import FileLooks
from kcontrol.errors import InputGoneError
from kcontrol.wire.files import LINES_ID, FileAddress
from tests.support.rights import public_directory, without_privileges


@pytest.fixture
def place() -> Iterator[Path]:
    """With one file of two lines."""
    with public_directory() as path:
        (path / "a.txt").write_bytes(b"one\ntwo\n")
        yield path


def _address(path: Path, pattern: str = "") -> FileAddress:
    return FileAddress(str(path), pattern, growing=True, header=False, max_line_bytes=1_000)


def _said(looks: FileLooks) -> tuple[str, int]:
    with without_privileges():
        return looks.look()


def test_a_file(place: Path) -> None:
    file, looks = place / "a.txt", FileLooks("orders", _address(place / "a.txt"), 0, None)
    file.chmod(0o000)
    said, end = _said(looks)
    assert said == f"{file} can't be opened: Permission denied"
    assert end == 0
    with without_privileges(), pytest.raises(InputGoneError, match=r"a.txt can't be opened: Permission d"):
        list(read_lines("orders", _address(file).text, LINES_ID, [(0, 0, 4)]))
    file.chmod(0o444)
    assert _said(looks) == (LINES_ID, 8)


def test_a_directory(place: Path) -> None:
    looks = FileLooks("orders", _address(place, "*.txt"), 0, None)
    assert _said(looks) == (LINES_ID, 8)
    place.chmod(0o000)
    assert _said(looks) == (f"{place} may not be read by this user: Permission denied", 8)
    place.chmod(0o555)
    assert _said(looks) == (LINES_ID, 8)
