"""A real file system with little room, which root can mount."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

BALLAST = "ballast"


@contextmanager
def small_disk(path: Path, size_kb: int) -> Iterator[Path]:
    """Mounted there for the block. Skips the test where that is not permitted."""
    path.mkdir()
    mounting = ("mount", "-t", "tmpfs", "-o", f"size={size_kb}k", "tmpfs", str(path))
    if os.geteuid() != 0:
        pytest.skip("only root mounts a file system that is soon full")
    done = subprocess.run(mounting, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(("umount", "--lazy", str(path)), check=True)


def fill(disk: Path) -> None:
    """Leave no room at all, in a file that may be removed again."""
    with suppress(OSError), (disk / BALLAST).open("ab", buffering=0) as file:
        while True:
            file.write(bytes(4_096))
