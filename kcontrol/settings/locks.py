"""Files that say whose a directory is, for as long as their holder lives."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import BinaryIO


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
        holder = file.read(20).decode("ascii", "replace").strip()
        file.close()
        raise LockedError(path, holder) from error
    file.truncate(0)
    file.write(str(os.getpid()).encode("ascii"))
    file.flush()
    return file
