"""The archive of Java's classes that `kcontrol warm` makes, made by itself: the first time that a node runs on
a machine, by a process of its own that gives way to everybody."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from kcontrol.adapters.java import find_java
from kcontrol.adapters.spark.session.class_archive import SCRATCH, archive_path, make_archive
from kcontrol.apps.supervisor.priority import give_way
from kcontrol.errors import JavaError, KcontrolError
from kcontrol.settings.locks import LockedError, holder_of, lock
from kcontrol.settings.scratch import clear_left

_log = logging.getLogger("kcontrol.node")

NICENESS = 10
TIMEOUT_S = 1_800.0
"""Longer than `kcontrol warm` waits: on a busy machine it gets what others leave."""
AGAIN_AFTER_S = 86_400.0
"""So long after a try that came to nothing no start of a node tries again: the machine may have been busy, or its disk full.
Longer than any try takes."""
_BEGUN = "it was begun and did not come to its end"


def make_in_background() -> None:
    """Start to make the archive, unless there is one, or another process makes it, or that has failed not long ago.

    Returns at once. Nothing that goes wrong is of any consequence but that nodes start as slowly as before.
    """
    try:
        path = archive_path(find_java())
        _clear_left(path.parent)
        if path.is_file() or _is_being_made(path) or not os.access(_existing(path.parent), os.W_OK):
            return
        if failed := _failed_lately(path):
            _say_failed(failed)
            return
        process = begin()
    except (KcontrolError, OSError) as error:
        _log.info("Java's class archive is not made: %s", error)
        return
    _log.info("Java's class archive is being made in %s (pid %d)", path, process.pid)
    threading.Thread(target=_watch, args=(process, path), name="kcontrol-archive", daemon=True).start()


def begin() -> subprocess.Popen[bytes]:
    """A process that makes it, in a session of its own: it outlives a node that ends."""
    return subprocess.Popen(
        [sys.executable, "-m", "kcontrol.apps.own_archive"], stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


def _watch(process: subprocess.Popen[bytes], path: Path) -> None:
    process.wait()
    with suppress(OSError):
        if not _is_being_made(path) and (failed := _failed_lately(path)):
            _say_failed(failed)


@cache
def _say_failed(failed: str) -> None:
    """Once in a process, whichever of its lives finds it."""
    _log.warning(
        "Java's class archive, without which nodes start more slowly, was not made: %s. A node that starts %g h after that "
        "tries again, `kcontrol warm` at once",
        failed,
        AGAIN_AFTER_S / 3600,
    )


def _existing(directory: Path) -> Path:
    return next(each for each in (directory, *directory.parents) if each.is_dir())


def _is_being_made(path: Path) -> bool:
    return holder_of(_lock(path))[1]


def _lock(path: Path) -> Path:
    return path.with_suffix(".lock")


def _failed(path: Path) -> Path:
    """Says when it was tried, on its first line, and what became of it, so that not every start of a node tries again;
    `kcontrol warm` does. It is there from the beginning of a try on: whoever makes it may be killed."""
    return path.with_suffix(".failed")


def _note(path: Path, what: str) -> None:
    _failed(path).write_text(f"{datetime.now(UTC).isoformat()}\n{what}\n", encoding="utf-8")


def _failed_lately(path: Path) -> str:
    """What became of the last try, and when; '' where there was none, or long ago. Raises OSError."""
    marker = _failed(path)
    try:
        text, noted_s = marker.read_text(encoding="utf-8"), marker.stat().st_mtime
    except FileNotFoundError:
        return ""
    when, _, what = text.partition("\n")
    try:
        at = datetime.fromisoformat(when)
    except ValueError:
        # Earlier versions wrote no time.
        at, what = datetime.fromtimestamp(noted_s, UTC), text
    lately = 0 <= time.time() - at.timestamp() < AGAIN_AFTER_S
    return f"{what.strip()} ({at:%Y-%m-%d %H:%M} UTC)" if lately else ""


def _clear_left(directory: Path) -> None:
    """What killed makers have left, each of which may be as large as the archive."""
    clear_left(SCRATCH, directory)
    for left in directory.glob(f"{SCRATCH}-*"):
        # Of earlier versions, which did not say whether they live.
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > AGAIN_AFTER_S:
                shutil.rmtree(left)


def main() -> None:
    """Make it, if nobody else does."""
    path = archive_path(find_java())
    with suppress(LockedError), lock(_lock(path)):
        if path.is_file() or _failed_lately(path):
            return
        _note(path, _BEGUN)
        give_way(NICENESS)
        try:
            make_archive(TIMEOUT_S)
        except (JavaError, OSError) as error:
            _note(path, str(error))
        else:
            _failed(path).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
