"""What this process has read of files of this machine to the end: their SHA-256, for as long as they are the same.

State is held by hard links, and is the same file in the node's directory, in a pin of it, where it was copied ahead and where
it is opened. A gigabyte of it that was hashed when it came need not be hashed again while no steps are made.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from hashlib import sha256
from pathlib import Path

from kcontrol.adapters.checkpoints.files import Cancelled, check, never

FileKey = tuple[int, int, int, int]
"""Device, inode, size and time of change: the same file as long as they are the same, whatever links lead to
it."""
MOST_FILES = 200_000
"""That are remembered: of more, those that were asked for longest ago are read again."""


def key_of(status: os.stat_result) -> FileKey:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class KnownDigests:
    """Used by any thread."""

    def __init__(self, most_files: int = MOST_FILES) -> None:
        self._most_files = most_files
        self._digests: OrderedDict[FileKey, str] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, key: FileKey) -> str | None:
        """None: nobody has read it, or that was long ago."""
        with self._lock:
            digest = self._digests.get(key)
            if digest is not None:
                self._digests.move_to_end(key)
            return digest

    def read(self, path: Path, key: FileKey, chunk_bytes: int, cancelled: Cancelled = never) -> str:
        """Of a file with that key, which is read if nobody has. Raises CheckpointCancelledError, OSError."""
        found = self.of(key)
        if found is None:
            digest = sha256()
            with path.open("rb") as reader:
                while chunk := reader.read(chunk_bytes):
                    check(cancelled)
                    digest.update(chunk)
            found = digest.hexdigest()
            self.note(key, found)
        return found

    def note(self, key: FileKey, digest: str) -> None:
        """The file was read to its end, and was the same before and after."""
        with self._lock:
            self._digests[key] = digest
            self._digests.move_to_end(key)
            while len(self._digests) > self._most_files:
                self._digests.popitem(last=False)

    def note_file(self, path: Path, size_bytes: int, digest: str) -> None:
        """As `note`, of a file that this process has just written, and nobody else writes to. One that is gone is none."""
        try:
            status = path.stat()
        except OSError:
            return
        if status.st_size == size_bytes:
            self.note(key_of(status), digest)


READ_HERE = KnownDigests()
"""Of this process."""
