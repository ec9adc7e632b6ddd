"""The files of an address as they are now, in the order in which they are read, and where each begins."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from kcontrol.errors import ConfigurationError, InputGoneError, RetriableError
from kcontrol.wire.files import FileAddress

MAX_FILES = 100_000
COMPRESSED = (".gz", ".bz2", ".zst", ".xz", ".zip", ".lz4", ".snappy")
"""Of such a file no range can be read."""


@dataclass(frozen=True, slots=True)
class ListedFile:
    """begins: the offset of its first byte. version: inode, and time of the last change in ns. tag: of an object in a store,
    which another object has not."""

    path: str
    begins: int
    size_bytes: int
    version: tuple[int, int] = (0, 0)
    tag: str = ""

    @property
    def end(self) -> int:
        """The offset behind its last byte."""
        return self.begins + self.size_bytes


def listed(address: FileAddress) -> tuple[ListedFile, ...]:
    """Those that are there, one after the other. Of a directory hidden files, and those whose name begins with an underscore,
    are none of them.

    Raises InputGoneError: there is no such file or directory, or it may not be read. ConfigurationError: it is not what the
    address says, or can't be read in ranges. RetriableError: the disk does not give it now.
    """
    try:
        found = _in_directory(address) if address.pattern else [_one(address)]
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputGoneError(f"{error.filename} is not there") from error
    except PermissionError as error:
        raise InputGoneError(f"{error.filename} may not be read by this user: {error.strerror}") from error
    except OSError as error:
        raise RetriableError(f"{address.path} can't be looked at: {error}") from error
    files: list[ListedFile] = []
    begins = 0
    for path, facts in found:
        files.append(ListedFile(path, begins, facts.st_size, (facts.st_ino, facts.st_mtime_ns)))
        begins += facts.st_size
    return tuple(files)


def end_of(files: tuple[ListedFile, ...]) -> int:
    """The offset behind the last byte of all."""
    return files[-1].end if files else 0


def _one(address: FileAddress) -> tuple[str, os.stat_result]:
    found = Path(address.path).stat()
    if stat.S_ISDIR(found.st_mode):
        raise ConfigurationError(f"{address.path} is a directory: say which files of it, pattern='*.ndjson'")
    return _checked(address.path, found)


def _in_directory(address: FileAddress) -> list[tuple[str, os.stat_result]]:
    with os.scandir(address.path) as entries:
        names = sorted(
            entry.name for entry in entries if is_wanted(entry.name, address.pattern) and entry.is_file()
        )
    if len(names) > MAX_FILES:
        raise ConfigurationError(
            f"{address.path} has {len(names)} files {address.pattern!r}, more than {MAX_FILES}: put them together, or "
            f"into several "
            "directories with an input each"
        )
    paths = [Path(address.path) / name for name in names]
    return [_checked(str(path), path.stat()) for path in paths]


def _checked(path: str, found: os.stat_result) -> tuple[str, os.stat_result]:
    if not stat.S_ISREG(found.st_mode):
        raise ConfigurationError(f"{path} is no file of which a range could be read again")
    refuse_compressed(path)
    return path, found


def is_wanted(name: str, pattern: str) -> bool:
    """Whether a file of this name is one that a pattern means."""
    return name[:1] not in ("", ".", "_") and fnmatchcase(name, pattern)


def refuse_compressed(path: str) -> None:
    """Raise ConfigurationError if its name says that it is."""
    if path.endswith(COMPRESSED):
        raise ConfigurationError(
            f"{path} is compressed, and no range of it can be read: unpack it, or leave it out by pattern="
        )
