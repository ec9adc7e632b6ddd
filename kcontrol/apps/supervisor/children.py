"""The processes that `kcontrol run` starts: each leads its own process group, ends with `run`,
and is started again if it dies.

Recovery is kcontrol's product, so a child that dies is no error. It becomes one when the child says that
trying again is of no use (its exit code), fails before it has ever worked, or dies again and again. A child
that lives and does nothing is ended: each writes a byte a second to a pipe (see `watchdog`), and one that was
stopped, or whose event loop is blocked, does not.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kcontrol.apps.exit_codes import ExitVerdict, verdict_of
from kcontrol.backoff import Backoff
from kcontrol.errors import KcontrolError, SparkLostError
from kcontrol.sessions.health import DEFAULT_LIMITS, HangLimits

_log = logging.getLogger("kcontrol.run")

SHORT_LIFE_S = 10.0
MAX_SHORT_LIVES = 20
"""So many lives in a row shorter than `SHORT_LIFE_S`, and the child is given up, unless told otherwise."""
LOOK_EVERY_S = 0.05

_USELESS = frozenset({ExitVerdict.USELESS, ExitVerdict.USELESS_HERE, ExitVerdict.REPLACED})
RESTARTS = Backoff(first_ms=100, longest_ms=5_000)


class ChildError(KcontrolError):
    """A child process ended for a reason that starting it again does not help; with the child's own exit
    code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass
class Child:
    """One of them. `arguments` are those of the `kcontrol` command; what it says goes to the file `log`.
    again: what is added to them from its second life on; one that has it may be replaced in its first and comes back."""

    name: str
    arguments: Sequence[str]
    log: Path
    again: Sequence[str] = ()
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    began: float = 0.0
    lives: int = 0
    short_lives: int = 0
    beats: int | None = field(default=None, repr=False)
    """The pipe's end to read from."""
    heard: float = 0.0
    works: bool = False
    """Whether it has written its first byte."""
    told_to_end: float | None = None

    def start(self) -> None:
        """Begin a new incarnation. Its standard input ends when this process does: see `lifeline`."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.close_beats()
        self.beats, written = os.pipe()
        os.set_blocking(self.beats, False)
        try:
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(
                    [
                        sys.executable,
                        "-m",
                        "kcontrol.cli",
                        *self.arguments,
                        *(self.again if self.lives else ()),
                        "--lifeline",
                        "--beats",
                        str(written),
                    ],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=(written,),
                )
        finally:
            os.close(written)
        self.began = self.heard = time.monotonic()
        self.works, self.told_to_end = False, None
        self.lives += 1

    def ended(self) -> int | None:
        """The exit code (negative: the signal) of an incarnation that is over."""
        return None if self.process is None else self.process.poll()

    def close_beats(self) -> None:
        """Of an incarnation that is over."""
        if self.beats is not None:
            os.close(self.beats)
            self.beats = None

    def silent_s(self) -> float:
        """For how long it has written nothing."""
        if self.beats is not None:
            with suppress(BlockingIOError):
                if os.read(self.beats, 4096):
                    self.heard, self.works = time.monotonic(), True
        return time.monotonic() - self.heard

    def signal(self, number: int) -> None:
        """Send a signal to the whole group: workers of Spark must not outlive their driver."""
        if self.process is not None:
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                pass

    def last_words(self) -> str:
        """The last sentence of its log that was meant for people."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        said = [line.removeprefix("kcontrol: ") for line in lines if line.startswith("kcontrol: ")]
        return said[-1] if said else f"its log {self.log} says why"


class Children:
    """Starts, watches and stops them.

    tell: hears of every start and end: (name, "started", "hung" or "ended", process id, exit code).
    """

    def __init__(
        self,
        tell: Callable[[str, str, int, int | None], None],
        limits: HangLimits = DEFAULT_LIMITS,
        max_short_lives: int = MAX_SHORT_LIVES,
    ) -> None:
        """limits: a child that does nothing for so long is ended, and so started again. max_short_lives:
        in a row, before it is given up."""
        self._tell = tell
        self._limits = limits
        self._max_short_lives = max_short_lives
        self._all: list[Child] = []

    def add(self, child: Child) -> None:
        """Start one more."""
        self._all.append(child)
        self._start(child)

    def has(self, name: str) -> bool:
        """Whether a child of that name was added."""
        return any(child.name == name for child in self._all)

    def process_ids(self, *names: str) -> set[int]:
        """Of those that are running and have these names."""
        return {child.process.pid for child in self._all if child.name in names and child.process is not None}

    async def watch(self) -> None:
        """Start again what dies, and end what hangs, until cancelled. Raises ChildError when that is of no
        use."""
        paused = False
        while True:
            for child in list(self._all):
                if paused:
                    child.heard = time.monotonic()
                code = child.ended()
                if code is not None:
                    await self._again(child, code)
                else:
                    self._end_if_hung(child)
            looked = time.monotonic()
            await asyncio.sleep(LOOK_EVERY_S)
            paused = time.monotonic() - looked > self._limits.pause_ms / 1000

    async def stop(self) -> None:
        """End all: SIGTERM, last started first to be told, and SIGKILL for what is left
        of their groups after a while."""
        for child in reversed(self._all):
            if child.process is not None and child.ended() is None:
                child.process.terminate()
        processes = [child.process for child in self._all if child.process is not None]
        waits = [asyncio.to_thread(_wait, process, self._limits.stop_ms / 1000) for process in processes]
        await asyncio.gather(*waits)
        for child in self._all:
            child.signal(signal.SIGKILL)
        for process in processes:
            process.wait()
            if process.stdin is not None:
                process.stdin.close()
        for child in self._all:
            child.close_beats()

    def _end_if_hung(self, child: Child) -> None:
        """SIGTERM, for a process that can still end itself; SIGKILL a little later, which
        one that was stopped hears too."""
        process, silent_s = child.process, child.silent_s()
        limit_ms = self._limits.silence_ms if child.works else self._limits.start_ms
        if process is None or silent_s <= limit_ms / 1000:
            return
        if child.told_to_end is None:
            child.told_to_end = time.monotonic()
            self._tell(child.name, "hung", process.pid, None)
            _log.warning(
                "%s (pid %d) has done nothing for %.0f s and is ended", child.name, process.pid, silent_s
            )
            process.terminate()
        elif time.monotonic() - child.told_to_end > self._limits.term_ms / 1000:
            child.signal(signal.SIGKILL)

    def _start(self, child: Child) -> None:
        child.start()
        if child.process is not None:
            self._tell(child.name, "started", child.process.pid, None)

    async def _again(self, child: Child, code: int) -> None:
        lived_s = time.monotonic() - child.began
        process = child.process
        if process is None:
            return
        child.signal(signal.SIGKILL)
        if process.stdin is not None:
            process.stdin.close()
        child.process = None
        self._tell(child.name, "ended", process.pid, code)
        verdict = verdict_of(code)
        if verdict is ExitVerdict.LEFT_OUT:
            child.close_beats()
            self._all.remove(child)
            return
        child.short_lives = child.short_lives + 1 if lived_s < SHORT_LIFE_S else 0
        first_words = code > 0 and code != SparkLostError.exit_code and child.lives == 1
        explained = verdict in _USELESS or first_words
        comes_back = verdict is ExitVerdict.REPLACED and child.again and child.lives == 1
        if (explained and not comes_back) or child.short_lives >= self._max_short_lives:
            raise ChildError(f"{child.name}: {child.last_words()}", code if code > 0 else 1)
        await asyncio.sleep(RESTARTS.wait_ms(max(1, child.short_lives)) / 1000)
        self._start(child)


def _wait(process: subprocess.Popen[bytes], timeout_s: float) -> None:
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        _log.warning("process %d did not end within %g s and is killed", process.pid, timeout_s)
