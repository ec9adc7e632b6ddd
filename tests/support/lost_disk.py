"""A real file system that can be taken away from under a process, and come back with all that was on it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class LostDisk:
    """Mounted at `path` whenever it is there; while it is away, an empty directory is left in its place, as with a disk that
    was not mounted at boot or a share whose server is gone."""

    def __init__(self, path: Path, kept: Path) -> None:
        self.path, self._kept = path, kept

    def take_away(self) -> None:
        """Files that are open stay open, and nobody finds them by their names."""
        _run("umount", "--lazy", str(self.path))

    def bring_back(self) -> None:
        _run("mount", "--bind", str(self._kept), str(self.path))


@contextmanager
def lost_disk(path: Path) -> Iterator[LostDisk]:
    """There when the block begins. Skips the test where that is not permitted."""
    if os.geteuid() != 0:
        pytest.skip("only root mounts a file system that can be taken away")
    kept = path.with_name(f"{path.name}-kept")
    for each in (path, kept):
        each.mkdir()
    mounting = ("mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(kept))
    done = subprocess.run(mounting, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    disk = LostDisk(path, kept)
    try:
        disk.bring_back()
        yield disk
    finally:
        if path.is_mount():
            disk.take_away()
        _run("umount", "--lazy", str(kept))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
