"""Bytes of one file, by where they are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from kcontrol.errors import InputGoneError


class OpenedFile:
    """Of a file that stays open, whatever becomes of its name meanwhile."""

    chunk_bytes = 1 << 20

    def __init__(self, path: str, descriptor: int) -> None:
        self.path, self._descriptor = path, descriptor

    def size(self) -> int:
        """Of all of it, now."""
        return os.fstat(self._descriptor).st_size

    def read(self, at: int, size_bytes: int) -> bytes:
        """So many bytes from `at` on, fewer at the end of the file. Raises OSError."""
        return os.pread(self._descriptor, size_bytes, at)


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
