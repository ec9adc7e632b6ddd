"""Ends of lines in what can be read from anywhere."""

from __future__ import annotations

from typing import Protocol

FIRST_BYTES = 1 << 16
"""Most lines end within so many."""


class Readable(Protocol):
    """Bytes of one file, by where they are."""

    path: str
    chunk_bytes: int
    """What is read of it at once."""

    def size(self) -> int:
        """Of all of it, now."""
        ...

    def read(self, at: int, size_bytes: int) -> bytes:
        """So many bytes from `at` on, fewer at the end. Raises InputGoneError, RetriableError, OSError."""
        ...


def behind_newline(readable: Readable, at: int, before: int) -> int | None:
    """Where the byte is that follows the first end of a line at `at` or behind it; None if there is none before `before`."""
    size_bytes = FIRST_BYTES
    while at < before:
        chunk = readable.read(at, min(size_bytes, before - at))
        if not chunk:
            return None
        found = chunk.find(b"\n")
        if found >= 0:
            return at + found + 1
        at += len(chunk)
        size_bytes = min(2 * size_bytes, readable.chunk_bytes)
    return None


def last_newline(readable: Readable, before: int, from_: int) -> int:
    """The offset behind the last end of a line in [from_, before); `from_` if there is none."""
    while before > from_:
        begin = max(from_, before - readable.chunk_bytes)
        found = readable.read(begin, before - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        before = begin
    return from_
