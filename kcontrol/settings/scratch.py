"""Temporary directories that tell whether their maker lives: what a killed process has left is deleted by the next one.

Python's own outlive a process that is killed, for ever.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from kcontrol.settings.locks import LockedError, lock

LOCK = "lock"
"""In the directory; held while its maker lives."""
INNER = "files"
"""What is used of it, so that nobody meets the lock."""
MOST_TRIES = 10
"""To make one that nobody takes for left behind before it is locked."""


@contextmanager
def scratch_directory(stem: str, parent: Path | None = None) -> Iterator[Path]:
    """A new directory, deleted at the end of the block. First, what makers that are gone have left.

    parent: where, if not where temporary files are. Raises OSError.
    """
    clear_left(stem, parent)
    directory, held = _made(stem, parent)
    with held:
        try:
            yield directory / INNER
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def _made(stem: str, parent: Path | None) -> tuple[Path, BinaryIO]:
    """The directory, and what locks it for as long as it is open."""
    for _ in range(MOST_TRIES):
        directory = Path(tempfile.mkdtemp(prefix=f"kcontrol-{stem}-", dir=parent))
        with suppress(LockedError, FileNotFoundError):
            held = lock(directory / LOCK)
            if (directory / LOCK).exists():
                (directory / INNER).mkdir()
                return directory, held
            held.close()
    raise OSError(f"{directory} was deleted while it was made, and {MOST_TRIES - 1} others before it")


def clear_left(stem: str, parent: Path | None = None) -> None:
    """Delete what makers that are gone have left; those of living ones stay."""
    for left in Path(parent or tempfile.gettempdir()).glob(f"kcontrol-{stem}-*"):
        if not (left / LOCK).is_file():
            continue
        with suppress(LockedError, OSError), lock(left / LOCK):
            shutil.rmtree(left, ignore_errors=True)
