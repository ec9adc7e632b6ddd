"""Reading and writing under one location: in pieces, with bounded retries, stoppable, and
durable when a call has returned."""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from pyarrow import fs

from kcontrol.adapters.checkpoints.limits import StoreLimits
from kcontrol.adapters.checkpoints.locations import Location
from kcontrol.backoff import Backoff
from kcontrol.errors import CheckpointCancelledError, CheckpointError

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")
_WAIT_SLICE_MS = 100
_LISTING_TRIES = 20

Cancelled = Callable[[], bool]


def never() -> bool:
    return False


def check(cancelled: Cancelled) -> None:
    """Raises CheckpointCancelledError."""
    if cancelled():
        raise CheckpointCancelledError("saving the checkpoint's part was given up")


class Files:
    """The files under a location. Paths are relative to it.

    All methods raise CheckpointError, naming location and file, when a try after the
    limits' last one has failed too.
    """

    def __init__(self, location: Location, limits: StoreLimits, cancelled: Cancelled = never) -> None:
        """cancelled: asked, by several threads, before every operation and every piece of one."""
        self._location, self._limits, self._cancelled = location, limits, cancelled
        self._fs = location.filesystem
        self.shown = location.shown

    def uncancelled(self) -> Files:
        """The same files, for cleaning up after a call that was cancelled."""
        return Files(self._location, self._limits)

    def where(self, path: str) -> str:
        return f"{self.shown.rstrip('/')}/{path}"

    def read(self, path: str) -> bytes | None:
        """The whole of a small file; None when it is not there."""

        def action() -> bytes:
            with self._fs.open_input_stream(self._full(path)) as stream:
                content: bytes = stream.read(self._limits.manifest_bytes + 1)
            return content

        try:
            content = self._tried(f"reading {self.where(path)}", action)
        except FileNotFoundError:
            return None
        if len(content) > self._limits.manifest_bytes:
            raise CheckpointError(
                f"{self.where(path)} has more than {self._limits.manifest_bytes} bytes: raise manifest_bytes"
            )
        return content

    def exists(self, path: str) -> bool:
        info = self._tried(
            f"looking for {self.where(path)}", lambda: self._fs.get_file_info(self._full(path))
        )
        return bool(info.type == fs.FileType.File)

    def sizes(self, directory: str) -> dict[str, int]:
        """Sizes in bytes of all files under a directory, by path from it; {} when it is not there."""
        return {
            path: info.size for path, info in self._listed(directory, True) if info.type == fs.FileType.File
        }

    def folders(self, directory: str) -> list[str]:
        """Names of the directories in a directory; [] when it is not there."""
        return [path for path, info in self._listed(directory, False) if info.type == fs.FileType.Directory]

    def publish(self, path: str, content: bytes) -> None:
        """Write a small file so that it is there whole or not at all, whenever this process dies."""

        def action() -> None:
            if self._location.objects:
                self._write(self._full(path), content)
                return
            staging = self._full(
                f"{path.rpartition('/')[0]}/.{path.rpartition('/')[2]}.{secrets.token_hex(4)}"
            )
            self._make_directory(path)
            self._write(staging, content)
            self._settle(staging)
            self._fs.move(staging, self._full(path))
            self.settle_directories([path])

        self._done(f"writing {self.where(path)}", action)

    def upload(self, source: Path, path: str) -> tuple[int, str]:
        """Copy a file of this machine. Size in bytes and SHA-256 of what was copied."""

        def action() -> tuple[int, str]:
            digest, size_bytes = hashlib.sha256(), 0
            if not self._location.objects:
                self._make_directory(path)
            with source.open("rb") as reader, self._fs.open_output_stream(self._full(path)) as writer:
                while chunk := reader.read(self._limits.chunk_bytes):
                    check(self._cancelled)
                    digest.update(chunk)
                    size_bytes += len(chunk)
                    writer.write(chunk)
            self._settle(self._full(path))
            return size_bytes, digest.hexdigest()

        return self._done(f"copying {source} to {self.where(path)}", action)

    def copy_within(self, source: str, path: str) -> bool:
        """Have the storage itself make another name for, or a copy of, a file that it has: none of it comes over the
        network, and on a disk of this machine it takes no room. False: the file has gone, or the storage can't.

        Tried once: who is told False copies the file from this machine.
        """
        check(self._cancelled)
        try:
            if self._location.objects:
                self._fs.copy_file(self._full(source), self._full(path))
            elif self._location.local:
                self._make_directory(path)
                os.link(self._full(source), self._full(path))
            else:
                return False
        except OSError as error:
            _log.info("%s is copied anew: %s", self.where(path), error)
            return False
        return True

    def download(self, path: str, target: Path) -> tuple[int, str] | None:
        """Copy to a file of this machine. Size in bytes and SHA-256 of what was copied; None when it is not
        there."""

        def action() -> tuple[int, str]:
            digest, size_bytes = hashlib.sha256(), 0
            with self._fs.open_input_stream(self._full(path)) as reader, target.open("wb") as writer:
                while chunk := reader.read(self._limits.chunk_bytes):
                    check(self._cancelled)
                    digest.update(chunk)
                    size_bytes += len(chunk)
                    writer.write(chunk)
            return size_bytes, digest.hexdigest()

        try:
            return self._tried(f"copying {self.where(path)} to {target}", action)
        except FileNotFoundError:
            return None

    def delete(self, path: str) -> None:
        """Delete a file; one that is not there is fine."""
        try:
            self._tried(f"deleting {self.where(path)}", lambda: self._fs.delete_file(self._full(path)))
        except FileNotFoundError:
            pass

    def delete_directory(self, path: str) -> None:
        """Delete a directory with all that is in it; one that is not there is fine."""
        try:
            self._tried(f"deleting {self.where(path)}", lambda: self._fs.delete_dir(self._full(path)))
        except FileNotFoundError:
            pass

    def settle_directories(self, paths: Iterable[str]) -> None:
        """Make the names of files survive a crash of this machine, up to the location; only needed on its own
        disk."""
        if not self._location.local:
            return
        base = Path(self._location.base)
        folders = {
            parent for path in paths for parent in (base / path).parents if parent.is_relative_to(base)
        }
        for folder in sorted(folders, key=lambda each: len(each.parts), reverse=True):
            self._settle(str(folder))

    # --- the file system's own paths ------------------------------------------------------------------------

    def _full(self, path: str) -> str:
        return f"{self._location.base.rstrip('/')}/{path}"

    def _listed(self, directory: str, recursive: bool) -> list[tuple[str, Any]]:
        selector = fs.FileSelector(self._full(directory), allow_not_found=True, recursive=recursive)
        found = self._done(f"listing {self.where(directory)}", lambda: self._list(selector))
        prefix = len(self._full(directory)) + 1
        return [(info.path[prefix:], info) for info in found]

    def _list(self, selector: Any) -> Any:
        """A directory that comes or goes during a listing fails it, though its absence is fine."""
        for tries_left in reversed(range(_LISTING_TRIES)):
            try:
                return self._fs.get_file_info(selector)
            except FileNotFoundError:
                if not tries_left:
                    raise
        raise AssertionError("there is at least one try")

    def _make_directory(self, path: str) -> None:
        self._fs.create_dir(self._full(path.rpartition("/")[0]), recursive=True)

    def _write(self, path: str, content: bytes) -> None:
        with self._fs.open_output_stream(path) as stream:
            stream.write(content)

    def _settle(self, path: str) -> None:
        """Wait until what was written is on the disk of this machine; elsewhere closing the file has done
        so."""
        if not self._location.local:
            return
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def _done(self, what: str, action: Callable[[], _Result]) -> _Result:
        try:
            return self._tried(what, action)
        except FileNotFoundError as error:
            raise CheckpointError(f"{what} failed: {error}") from error

    def _tried(self, what: str, action: Callable[[], _Result]) -> _Result:
        """Raises FileNotFoundError as it is: it never passes."""
        tries = Backoff(self._limits.first_wait_ms, self._limits.longest_wait_ms).begin()
        attempts = 1 if self._location.local else self._limits.attempts
        for failures in range(1, attempts + 1):
            check(self._cancelled)
            try:
                return action()
            except FileNotFoundError:
                raise
            except OSError as error:
                if failures == attempts:
                    raise CheckpointError(f"{what} failed {failures} times: {error}") from error
                _log.warning("%s: %s; trying again", what, error)
                self._wait(tries.failed())
        raise AssertionError("attempts is at least 1")

    def _wait(self, wait_ms: int) -> None:
        until = time.monotonic() + wait_ms / 1000
        while (left := until - time.monotonic()) > 0:
            check(self._cancelled)
            time.sleep(min(left, _WAIT_SLICE_MS / 1000))
