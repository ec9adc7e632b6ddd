"""The InputWatcher port for files: how far whole lines reach, and whether what was read is still what it was.

What a node says in place of a topic's id is `LINES_ID` while all is well, and otherwise a sentence: it is compared with what
the pipeline's definition has, so the pipeline halts with it. It is well again once the files are: the look goes on.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from kcontrol.adapters.files.lines import read_lines
from kcontrol.adapters.files.listing import ListedFile, end_of
from kcontrol.adapters.files.newlines import last_newline
from kcontrol.adapters.files.stores import Store, store_of
from kcontrol.core.model import InputSlice, InputSpec, ReceivedPartition
from kcontrol.errors import ConfigurationError, InputGoneError, RetriableError, StepFailedError
from kcontrol.sessions.ports import Arrivals
from kcontrol.wire.files import LINES_ID, FileAddress, files_of

PACE_S = 0.1
"""Least time between two looks."""
S3_PACE_S = 10.0
"""The same where each is a request that costs something."""
REST = 20
"""Looks take no more than this part of the time, however many files there are, as long as that is not more than LONGEST_S."""
LONGEST_S = 10.0
"""Between two looks, so that lines are seen though a disk was slow once."""
ANSWER_S = 30.0
"""A disk that does not answer for so long is away."""
TAIL_BYTES = 4_096
"""So much before the end is compared when a file has grown."""

_Result = TypeVar("_Result")


class FileWatcher:
    """Watches one input. One `arrivals` at a time."""

    def __init__(
        self,
        item: InputSpec,
        from_: Mapping[int, int],
        last_read: Mapping[int, InputSlice],
        pace_s: float | None = None,
    ) -> None:
        """from_: by partition, where the next step begins. last_read: by partition, what the newest step that has found
        records in
        it has read, as far as the log of steps was looked at. pace_s: least time between two looks; None: as it is usual.
        Raises ConfigurationError for an address that is not known here."""
        self._begin, address = max(from_.values(), default=0), files_of(item.topic)
        usual_s = S3_PACE_S if address.is_s3 else PACE_S
        self._pace_s = usual_s if pace_s is None else pace_s
        self._looks = FileLooks(item.name, address, self._begin, last_read.get(0))
        self._looking: asyncio.Future[tuple[str, int]] | None = None
        """A look that is under way. A disk that hangs holds its thread, and must not get another at each try."""

    async def arrivals(self) -> Arrivals:
        """As the port says."""
        before: tuple[str, int] | None = None
        loop = asyncio.get_running_loop()
        while True:
            begun_s = loop.time()
            try:
                async with asyncio.timeout(ANSWER_S):
                    found = await self._look()
            except TimeoutError as error:
                raise RetriableError(f"the files have not answered for {ANSWER_S:.0f} s") from error
            rest_s = min(REST * (loop.time() - begun_s), LONGEST_S)
            if found != before:
                before = found
                id_, end = found
                yield (ReceivedPartition(0, id_, 0, end),), max(0, end - self._begin)
            await asyncio.sleep(max(self._pace_s, rest_s))

    async def _look(self) -> tuple[str, int]:
        if self._looking is None:
            self._looking = _aside(self._looks.look)
        looking = self._looking
        await asyncio.wait((looking,))
        self._looking = None
        return looking.result()

    async def close(self) -> None:
        """Nothing is open. A look that hangs is left alone."""


def _aside(work: Callable[[], _Result]) -> asyncio.Future[_Result]:
    """In a thread that nobody waits for: not the loop when it ends, and not the process."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_Result] = loop.create_future()

    def tell(set_it: Callable[[], None]) -> None:
        # The loop may be over by now.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(lambda: None if done.done() else set_it())

    def run() -> None:
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - as a future does
            failed = error
            tell(lambda: done.set_exception(failed))
        else:
            tell(lambda: done.set_result(result))

    threading.Thread(target=run, name="kcontrol-files", daemon=True).start()
    return done


@dataclass(frozen=True, slots=True)
class _Seen:
    """tail: the bytes before `end`, the offset behind the last whole line; of an object of S3 none, for its tag says more."""

    files: tuple[ListedFile, ...]
    end: int
    tail: bytes


class FileLooks:
    """One look after the other; blocking."""

    def __init__(
        self, input_name: str, address: FileAddress, begin: int, last_read: InputSlice | None
    ) -> None:
        self._name, self._address, self._begin, self._last_read = input_name, address, begin, last_read
        self._store = store_of(address, LINES_ID)
        self._seen: _Seen | None = None

    def look(self) -> tuple[str, int]:
        """LINES_ID, or what is wrong, and how far whole lines reach. Raises RetriableError."""
        seen = self._seen
        known = self._begin if seen is None else seen.end
        try:
            files = self._store.listed()
            if seen is not None and files == seen.files:
                return LINES_ID, seen.end
            wrong = self._wrong(files) if seen is None else _changed(self._address, self._store, seen, files)
            if wrong:
                return wrong, known
            self._seen = self._look_at(files, known)
        except (InputGoneError, ConfigurationError) as error:
            return str(error), known
        except StepFailedError as error:
            raise RetriableError(str(error)) from error
        except OSError as error:
            raise RetriableError(f"{self._address.path} can't be read: {error}") from error
        return LINES_ID, self._seen.end

    def _wrong(self, files: tuple[ListedFile, ...]) -> str:
        """What a process that has seen nothing yet finds out: whether what the newest step read is where it was."""
        if end_of(files) < self._begin:
            return f"{self._address.path} has {end_of(files)} bytes, and {self._begin} were read"
        last = self._last_read
        if last is None:
            return ""
        read = read_lines(self._name, last.topic, last.topic_id, [(last.partition, last.from_, last.to)])
        try:
            for _ in read:
                pass
        except InputGoneError as error:
            return str(error.__cause__ or error)
        if (read.records, read.digest.hex) == (last.records, last.digest):
            return ""
        return (
            f"bytes {last.from_} to {last.to} of {self._address.path} are not those that were read: they had {last.records} "
            f"lines with digest {last.digest}, and have {read.records} with digest {read.digest.hex}"
        )

    def _look_at(self, files: tuple[ListedFile, ...], known: int) -> _Seen:
        if not files:
            return _Seen(files, 0, b"")
        last = files[-1]
        if self._address.is_s3:
            return _Seen(files, last.end, b"")
        with self._store.opened(last) as bytes_:
            end = last.size_bytes
            if self._address.growing:
                end = last_newline(bytes_, end, max(0, known - last.begins))
            tail = bytes_.read(max(0, end - TAIL_BYTES), min(end, TAIL_BYTES))
        return _Seen(files, last.begins + end, tail)


def _changed(address: FileAddress, store: Store, seen: _Seen, files: tuple[ListedFile, ...]) -> str:
    """What is not as it was; '' if lines were only added."""
    for index, was in enumerate(seen.files):
        now = files[index] if index < len(files) else None
        if now is None or now.path != was.path:
            return _other_name(was, {each.path for each in files}, now)
        if now.tag != was.tag:
            return (
                f"{was.path} is another object: it has {now.size_bytes} bytes and ETag {now.tag}, and had {was.size_bytes} and "
                f"{was.tag} when it was read"
            )
        is_last = index == len(seen.files) - 1
        if now.size_bytes != was.size_bytes and not (is_last and address.growing):
            more = "" if address.growing else "; growing=True is for files that are appended to"
            return f"{was.path} has {now.size_bytes} bytes, and had {was.size_bytes} when it was read{more}"
        if is_last and now.end < seen.end:
            return f"{was.path} has {now.size_bytes} bytes, and {seen.end - was.begins} were read"
        if is_last and not _has_tail(store, now, seen):
            return f"{was.path} is not the file that it was: what stands before byte {seen.end - was.begins} was other"
    return ""


def _other_name(was: ListedFile, there: set[str], now: ListedFile | None) -> str:
    if now is None or was.path not in there:
        return f"{was.path} is not there any more, and later files follow behind its bytes"
    return f"{now.path} has come before {was.path} by its name, which is read already: names must grow"


def _has_tail(store: Store, file: ListedFile, seen: _Seen) -> bool:
    with store.opened(file) as bytes_:
        return bytes_.read(seen.end - file.begins - len(seen.tail), len(seen.tail)) == seen.tail
