"""Bytes of one file, by where they are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from kcontrol.errors import InputGoneError

CHUNK_BYTES = 1 << 20


class OpenedFile:
    """Of a file that stays open, whatever becomes of its name meanwhile."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path, self._descriptor = path, descriptor

    def size(self) -> int:
        """Of all of it, now."""
        return os.fstat(self._descriptor).st_size

    def read(self, at: int, size_bytes: int) -> bytes:
        """So many bytes from `at` on, fewer at the end of the file. Raises OSError."""
        return os.pread(self._descriptor, size_bytes, at)

    def behind_newline(self, at: int, before: int) -> int | None:
        """Where the byte is that follows the first end of a line at `at` or behind it; None if the file has none, or it is not
        before `before`."""
        while at < before:
            chunk = self.read(at, min(CHUNK_BYTES, before - at))
            if not chunk:
                return None
            found = chunk.find(b"\n")
            if found >= 0:
                return at + found + 1
            at += len(chunk)
        return None

    def last_newline(self, before: int, from_: int) -> int:
        """The offset behind the last end of a line in [from_, before); `from_` if there is none."""
        while before > from_:
            begin = max(from_, before - CHUNK_BYTES)
            found = self.read(begin, before - begin).rfind(b"\n")
            if found >= 0:
                return begin + found + 1
            before = begin
        return from_


@contextmanager
def opened(path: str) -> Iterator[OpenedFile]:
    """For as long as it is read. Raises InputGoneError: it is not there, or may not be read; OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise InputGoneError(f"{path} can't be opened: {error.strerror}") from error
    try:
        yield OpenedFile(path, descriptor)
    finally:
        os.close(descriptor)
