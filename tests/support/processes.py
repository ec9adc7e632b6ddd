"""kcontrol's processes as a user starts them: `python -m kcontrol.cli ...`, to be waited for, killed, and
paused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from kcontrol.adapters.kafka.embedded.pausing import pause_child
from tests.support.forked_commands import ForkedCommands, forks
from tests.support.patience import HANG_S

ROOT = Path(__file__).parents[2]
POLL_S = 0.02
ENDS_S = 5.0
"""For what a process had started to end by itself once that one is gone."""
_forked = ForkedCommands()


def run_kcontrol(
    *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None, timeout_s: float = HANG_S
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end; returns the CompletedProcess with text."""
    if forks(arguments, env or {}):
        return _forked.run(arguments, environment(env), cwd, timeout_s)
    return subprocess.run(
        [sys.executable, "-m", "kcontrol.cli", *arguments],
        capture_output=True,
        text=True,
        env=environment(env),
        cwd=cwd,
        timeout=timeout_s,
        check=False,
    )


def objects(text: str) -> list[dict[str, Any]]:
    """The JSON objects that a command has printed, one a line."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment, without what would point commands elsewhere, plus `extra`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KCONTROL_")}
    return {**kept, "PYTHONPATH": str(ROOT), **(extra or {})}


def until(
    condition: Callable[[], object], what: str, timeout_s: float = HANG_S, hint: Callable[[], str] = str
) -> None:
    """Wait until `condition()` is true; fails the test with `what` and `hint()` after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {timeout_s:g} s still not: {what}\n{hint()}")
        time.sleep(POLL_S)


class KcontrolProcess:
    """One long-running command. Everything that it started is killed at the end of the `with` block."""

    def __init__(
        self,
        *arguments: str,
        log: Path,
        env: Mapping[str, str] | None = None,
        module: str = "kcontrol.cli",
        cwd: Path | None = None,
    ) -> None:
        self._command = [sys.executable, "-m", module, *arguments]
        self._env = environment(env)
        self._cwd = cwd
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None
        self._family: list[psutil.Process] = []

    def start(self) -> KcontrolProcess:
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=self._env,
                cwd=self._cwd, start_new_session=True,
            )  # fmt: skip
        return self

    def __enter__(self) -> KcontrolProcess:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        if kind is not None:
            print(f"--- {' '.join(self._command[2:])}\n{self.text()[-6000:]}")  # noqa: T201 - shown by pytest when a test fails

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def says(self, text: str, timeout_s: float = HANG_S) -> None:
        """Wait until it has printed `text`."""

        def said() -> bool:
            assert self.process is not None
            return text in self.text() or (self.process.poll() is not None and self._fail(text))

        until(said, f"{self._command[3]} says {text!r}", timeout_s, self.text)

    def _fail(self, text: str) -> bool:
        assert self.process is not None
        if text in self.text():
            return True
        raise AssertionError(
            f"ended with {self.process.returncode} and did not say {text!r}:\n{self.text()[-6000:]}"
        )

    def kill(self) -> None:
        """SIGKILL to the process itself, as a crash would; what it had started is left to
        its own devices, then swept up."""
        if self.process is None or self.process.poll() is not None:
            self.sweep()
            return
        self._family = psutil.Process(self.pid).children(recursive=True)
        self.process.kill()
        self.process.wait()
        self.sweep()

    def restart(self) -> None:
        """SIGKILL, and a new incarnation at once."""
        self.kill()
        self.start()

    def terminate(self, timeout_s: float = HANG_S) -> int:
        """SIGTERM; returns the exit code."""
        assert self.process is not None
        self._family = (
            psutil.Process(self.pid).children(recursive=True) if self.process.poll() is None else []
        )
        self.process.terminate()
        code = self.process.wait(timeout_s)
        self.sweep()
        return code

    def wait(self, timeout_s: float) -> int:
        """Its exit code, when it ends by itself."""
        assert self.process is not None
        return self.process.wait(timeout_s)

    def pause(self) -> None:
        """SIGSTOP: it is there and does nothing until `resume`."""
        pause_child(self.pid)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def descendants(self) -> list[psutil.Process]:
        return psutil.Process(self.pid).children(recursive=True)

    def sweep(self) -> None:
        """Kill what it had started and has outlived it; nothing of it writes to a file any more."""
        _, left = psutil.wait_procs(self._family, timeout=ENDS_S)
        for each in left:
            try:
                each.kill()
            except psutil.NoSuchProcess:
                pass
        until(lambda: not any(map(_lives, left)), f"{left} have ended")
        self._family = []


def _lives(process: psutil.Process) -> bool:
    """Who has ended and is not waited for by its parent does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
