"""A thread that looks whether the process still does its work, tells the one that started
it, and ends it if it does not.

`kcontrol run` reads what its children write to a pipe: a byte each second, from here. A process that was
stopped writes none, nor does one whose event loop is blocked; both are then killed from outside. One that
nobody started so ends itself.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import click

from kcontrol.errors import HungError
from kcontrol.sessions.health import HangLimits, Health

_Command = TypeVar("_Command", bound=Callable[..., Any])

BEAT_EVERY_S = 1.0


class Watchdog:
    """Looks on until the process ends. `jvm_pid` is ended with the process, which may not be able to."""

    def __init__(
        self, health: Health | None = None, beats: int | None = None, every_s: float = BEAT_EVERY_S
    ) -> None:
        """health: None judges nothing, so that only a process that stands still is
        silent. beats: the pipe to write to."""
        self._health = health or Health()
        self._beats = beats
        if beats is not None:
            os.set_blocking(beats, False)
        self._every_s = every_s
        self.jvm_pid: int | None = None
        threading.Thread(target=self._look, name="kcontrol-watchdog", daemon=True).start()

    @property
    def limits(self) -> HangLimits:
        """Those of the health that it looks at."""
        return self._health.limits

    def end_within(self, seconds: float) -> None:
        """The process has been told to end; whatever keeps it then is not waited for any longer."""
        timer = threading.Timer(seconds, self._end, [f"it has not ended within {seconds:g} s"])
        timer.daemon = True
        timer.start()

    def _look(self) -> None:
        # Looks are counted, not time: a process that was stopped has not had that time to come right by
        # itself.
        looks, pause, patience = 0, threading.Event(), self.limits.patience_ms / 1000 / self._every_s
        while not pause.wait(self._every_s):
            wrong = self._health.wrong()
            looks = looks + 1 if wrong else 0
            if looks > patience:
                self._end(wrong)
            if not wrong and self._beats is not None:
                # Whoever started this process may be gone: its lifeline ends it.
                with suppress(OSError):
                    os.write(self._beats, b".")

    def _end(self, why: str) -> None:
        sys.stderr.write(f"kcontrol: this process hangs and is ended: {why}\n")
        sys.stderr.flush()
        if self.jvm_pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.jvm_pid, signal.SIGKILL)
        if os.getpgrp() == os.getpid():
            # It leads its group, so workers of Spark end with it. The first process of a
            # container survives its own signal.
            os.killpg(os.getpgrp(), signal.SIGKILL)
        os._exit(HungError.exit_code)


def beats_option(command: _Command) -> _Command:
    """--beats FD (hidden): a pipe to which this process writes a byte each second while it does its work."""
    return click.option(
        "--beats", type=int, hidden=True, help="Write a byte to this descriptor each second."
    )(command)
