"""Files that say whose a directory is, for as long as their holder lives."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import BinaryIO

_ID_BYTES = 20
"""No process id is longer."""


class LockedError(Exception):
    """Somebody holds the lock. holder: their process id, as far as they have written it yet."""

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(f"{path} is held by process {holder or 'of an unknown id'}")
        self.holder = holder


def lock(path: Path) -> BinaryIO:
    """An open file that keeps others from the same lock for as long as it, or a copy that a child inherited,
    is open: the operating system frees it however its holder dies.

    Raises LockedError: another holder, of whatever process, has it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("a+b")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.seek(0)
        holder = _written(file)
        file.close()
        raise LockedError(path, holder) from error
    file.truncate(0)
    file.write(str(os.getpid()).encode("ascii"))
    file.flush()
    return file


def holder_of(path: Path) -> tuple[str, bool]:
    """The process id of the newest holder, '' if there was none, and whether it holds the lock still."""
    try:
        with path.open("rb") as file:
            held = _is_held(file)
            return _written(file), held
    except FileNotFoundError:
        return "", False


def _written(file: BinaryIO) -> str:
    return file.read(_ID_BYTES).decode("ascii", "replace").strip()


def _is_held(file: BinaryIO) -> bool:
    """A shared lock, for a moment: those who only look are in nobody's way but a new holder's."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
