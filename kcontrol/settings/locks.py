"""Files that say whose a directory is, for as long as their holder lives."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_ID_BYTES = 20
"""No process id is longer."""
_NAME_BYTES = 200
_LOOKS = 100
_LOOK_S = 0.001
"""Whoever looks is done within far less than so often this."""


@dataclass(frozen=True)
class Holder:
    """The newest one of a lock, '' where there was none. name: what it has said of itself beside its process id; '' if nothing.
    holds: whether it holds the lock still."""

    process_id: str
    name: str
    holds: bool


class LockedError(Exception):
    """Somebody holds the lock. holder: their process id, as far as they have written it yet."""

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(f"{path} is held by process {holder or 'of an unknown id'}")
        self.holder = holder


def lock(path: Path, name: str = "") -> BinaryIO:
    """An open file that keeps others from the same lock for as long as it, or a copy that a child inherited,
    is open: the operating system frees it however its holder dies.

    name: of the holder, as others find it: ASCII.
    Raises LockedError: another holder, of whatever process, has it. OSError: it can't be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("a+b")
    if not _take(file):
        file.seek(0)
        holder, _ = _written(file)
        file.close()
        raise LockedError(path, holder)
    # Versions that know of no names read as far as the longest id.
    text = f"{os.getpid():<{_ID_BYTES}}{name}" if name else str(os.getpid())
    try:
        file.truncate(0)
        file.write(text.encode("ascii"))
        file.flush()
    except OSError:
        with suppress(OSError):
            file.close()  # It has no room for what is still to be written.
        raise
    return file


def newest_holder(path: Path) -> Holder:
    """Who has, or had, the lock."""
    try:
        with path.open("rb") as file:
            held = _is_held(file)
            return Holder(*_written(file), held)
    except FileNotFoundError:
        return Holder("", "", False)


def holder_of(path: Path) -> tuple[str, bool]:
    """The process id of the newest holder, '' if there was none, and whether it holds the lock still."""
    found = newest_holder(path)
    return found.process_id, found.holds


def _written(file: BinaryIO) -> tuple[str, str]:
    """Process id and name."""
    text = file.read(_ID_BYTES + _NAME_BYTES).decode("ascii", "replace")
    return text[:_ID_BYTES].strip(), text[_ID_BYTES:].strip()


def _take(file: BinaryIO) -> bool:
    """Take it; False: it is held. That somebody looks at it keeps nobody out, and is waited for."""
    for _ in range(_LOOKS):
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if _is_held(file):
            return False
        fcntl.flock(file, fcntl.LOCK_UN)
        time.sleep(_LOOK_S)
    return False


def _is_held(file: BinaryIO) -> bool:
    """A shared lock, for a moment: those who only look are in nobody's way but a new holder's, who tries again."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
