"""Pins made up for tests of the checkpoint store, and what is left of them after a round trip."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from kcontrol.adapters.checkpoints import CheckpointStore, PartPlace, StoreLimits

Contents = Mapping[str, bytes]

SMALL_PIECES = StoreLimits(chunk_bytes=4, parallel_files=1)
"""Every file takes several pieces, so that there are many moments to die at, and always the same ones."""


def place(location: str, step: int, incarnation: int = 5, claim_epoch: int = 7, node: int = 0) -> PartPlace:
    return PartPlace(location, "orders", "Kq3-Xz_9TpWbV0aB1cD2eF", node, incarnation, claim_epoch, step)


def make_pin(directory: Path, contents: Contents) -> Path:
    for path, content in contents.items():
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def contents_of(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def killer(moment: int) -> Callable[[], bool]:
    """A `cancelled` that kills this process, as `kill -9` does, when it is asked for the `moment`-th time."""
    asked, lock = 0, threading.Lock()

    def reached() -> bool:
        nonlocal asked
        with lock:
            asked += 1
            if asked == moment:
                os.kill(os.getpid(), signal.SIGKILL)
        return False

    return reached


def save_and_die(environment: Mapping[str, str], part: PartPlace, pinned: Path, moment: int) -> None:
    """Run in a process of its own: save, and be killed at the `moment`-th operation, piece or write to the
    disk."""
    os.environ.update(environment)
    reached = killer(moment)
    settle = os.fsync

    def settling(handle: int) -> None:
        reached()
        settle(handle)

    os.fsync = settling
    CheckpointStore(SMALL_PIECES).save(part, pinned, reached)


def save_in_parallel(environment: Mapping[str, str], part: PartPlace, pinned: Path) -> None:
    """Run in a process of its own, which somebody else kills."""
    os.environ.update(environment)
    CheckpointStore(StoreLimits(chunk_bytes=256)).save(part, pinned)
