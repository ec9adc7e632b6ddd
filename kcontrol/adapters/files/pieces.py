"""A range of one file as pieces of whole lines: those that begin in it, the last one to its end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kcontrol.adapters.files.newlines import Readable, behind_newline
from kcontrol.errors import InputGoneError

NEXT_BYTES = 1 << 16
"""Least that is read at once, also beyond a range, for the end of its last line."""
_AGAIN_BYTES = 1 << 14
"""The beginning of a line is read once more rather than copied, with the whole chunk behind it, if it has no more than that."""
HEAD_BYTES = 1_000
"""What is kept of a line that is too long."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Whole lines, each with its end. at: where `data` begins in the file. line_bytes: it is but the beginning of one line
    that is too long, which has so many; 0: it is not."""

    data: bytes | memoryview
    at: int
    line_bytes: int = 0


def pieces(opened: Readable, from_: int, to: int, max_line_bytes: int, complete: bool) -> Iterator[Piece]:
    """complete: at the end of the file a line ends, too. A piece may have lines that begin at `to` or behind it.

    Raises InputGoneError: the file ends before `to`, or within a line that is not complete; OSError.
    """
    begin = 0 if from_ == 0 else behind_newline(opened, from_ - 1, to)
    if begin is None:
        return
    at, rest = begin, b""
    while at < to:
        have = at + len(rest)
        chunk = opened.read(have, max(NEXT_BYTES, min(opened.chunk_bytes, to - have), len(rest)))
        if not chunk:
            if not rest or not complete:
                raise InputGoneError(
                    f"{opened.path} ends at byte {have}, where a line had no end yet; its steps need it up to byte {to}"
                )
            yield Piece(rest + b"\n", at)
            return
        data = rest + chunk if rest else chunk
        end = data.rfind(b"\n") + 1
        if end:
            yield Piece(memoryview(data)[:end], at)
            at, rest = at + end, data[end:]
            if len(rest) <= _AGAIN_BYTES:
                rest = b""
        elif len(data) > max_line_bytes:
            stop = _end_of_line(opened, at + len(data), complete)
            is_return = stop.newline and opened.read(stop.at - 1, 1) == b"\r"
            line_bytes = stop.at - at - is_return
            if line_bytes > max_line_bytes:
                yield Piece(data[: min(HEAD_BYTES, line_bytes)], at, line_bytes)
            else:  # It was read as far as between the two bytes of its end.
                yield Piece(data + b"\n", at)
            at, rest = stop.at + 1, b""
        else:
            rest = data


@dataclass(frozen=True, slots=True)
class _End:
    """at: where the line ends. newline: there is a byte that says so."""

    at: int
    newline: bool


def _end_of_line(opened: Readable, at: int, complete: bool) -> _End:
    size_bytes = opened.size()
    behind = behind_newline(opened, at, size_bytes)
    if behind is not None:
        return _End(behind - 1, newline=True)
    if not complete:
        raise InputGoneError(f"{opened.path} ends at byte {size_bytes}, where a line had no end yet")
    return _End(size_bytes, newline=False)
