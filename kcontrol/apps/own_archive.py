"""The archive of Java's classes that `kcontrol warm` makes, made by itself: the first time that a node runs on
a machine, by a process of its own that gives way to everybody."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from kcontrol.adapters.java import find_java
from kcontrol.adapters.spark.session.class_archive import archive_path, make_archive
from kcontrol.apps.supervisor.priority import give_way
from kcontrol.errors import JavaError, KcontrolError
from kcontrol.settings.locks import LockedError, lock

_log = logging.getLogger("kcontrol.node")

NICENESS = 10
TIMEOUT_S = 1_800.0
"""Longer than `kcontrol warm` waits: on a busy machine it gets what others leave."""


def make_in_background() -> None:
    """Start to make the archive, unless there is one, or another process makes it, or that has failed before.

    Returns at once. Nothing that goes wrong is of any consequence but that nodes start as slowly as before.
    """
    try:
        path = archive_path(find_java())
        if path.is_file() or _failed(path).is_file() or not os.access(_existing(path.parent), os.W_OK):
            return
        process = begin()
    except (KcontrolError, OSError) as error:
        _log.info("Java's class archive is not made: %s", error)
        return
    _log.info("Java's class archive is being made in %s (pid %d)", path, process.pid)
    threading.Thread(target=process.wait, name="kcontrol-archive", daemon=True).start()


def begin() -> subprocess.Popen[bytes]:
    """A process that makes it, in a session of its own: it outlives a node that ends."""
    return subprocess.Popen(
        [sys.executable, "-m", "kcontrol.apps.own_archive"], stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


def _existing(directory: Path) -> Path:
    return next(each for each in (directory, *directory.parents) if each.is_dir())


def _failed(path: Path) -> Path:
    """Says that it was tried and can't be done, so that not every start of a node tries again; `kcontrol warm`
    does."""
    return path.with_suffix(".failed")


def main() -> None:
    """Make it, if nobody else does."""
    path = archive_path(find_java())
    with suppress(LockedError), lock(path.with_suffix(".lock")):
        if path.is_file():
            return
        give_way(NICENESS)
        try:
            make_archive(TIMEOUT_S)
        except JavaError as error:
            _failed(path).write_text(f"{error}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
