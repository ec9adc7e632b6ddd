"""Where RocksDB's native library lies while a JVM uses it.

Java's RocksDB copies it out of its jar, 15 MB for each JVM, into the temporary directory, and deletes it when the JVM ends
well; a JVM that is killed leaves it there for ever. So each gets a directory that tells whose it is, and what processes
have left that are gone is cleared away when the next one starts.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

VARIABLE = "ROCKSDB_SHAREDLIB_DIR"
"""Of RocksDB: where it copies its library to."""
PREFIX = "kcontrol-native-"


@contextmanager
def native_library_kept_apart() -> Iterator[None]:
    """While the block runs, a JVM that is started has a place of this process's own, unless its user has chosen one."""
    if VARIABLE in os.environ:
        yield
        return
    place = Path(tempfile.gettempdir()) / f"{PREFIX}{os.getpid()}"
    for left in place.parent.glob(f"{PREFIX}*"):
        number = left.name.removeprefix(PREFIX)
        if number.isdecimal() and (left == place or not psutil.pid_exists(int(number))):
            shutil.rmtree(left, ignore_errors=True)
    place.mkdir(mode=0o700, exist_ok=True)
    os.environ[VARIABLE] = str(place)
    try:
        yield
    finally:
        del os.environ[VARIABLE]
