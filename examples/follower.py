"""What a following kcontrol command prints, as it comes, over every crash of what it reads from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

AGAIN_S = 0.3


class Follower(ABC):
    """Runs a command with `--follow --json` in the background and hears its lines; starts it again when it
    ends.

    What is heard changes under `_changed`, so that others can wait for it.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._changed = threading.Condition()
        self._closed = False
        self._failure: Exception | None = None
        self._command: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._follow, name=type(self).__name__, daemon=True)
        self._thread.start()

    @abstractmethod
    def _arguments(self) -> list[str]:
        """The command and where to go on."""

    @abstractmethod
    def _hear(self, line: dict[str, Any]) -> None:
        """One line. Called under `_changed`; a ValueError ends the following, and every wait raises it."""

    def close(self) -> None:
        """Stop following."""
        with self._changed:
            self._closed = True
            if self._command is not None:
                self._command.kill()
        self._thread.join()

    def _wait_until(self, reached: Callable[[], bool], timeout_s: float, each_s: float = 1.0) -> bool:
        """Looks when a line comes, and every `each_s`. Whether it came true in time."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not reached():
                if self._failure is not None:
                    raise self._failure
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(min(left, each_s))
        return True

    def _follow(self) -> None:
        while (command := self._start()) is not None:
            with command:
                for line in command.stdout or ():
                    if line.endswith("\n"):
                        self._take(json.loads(line))
                command.kill()
            # The pipeline may not be known yet, or the broker be away.
            time.sleep(AGAIN_S)

    def _start(self) -> subprocess.Popen[str] | None:
        with self._changed:
            if self._closed or self._failure is not None:
                return None
            common = ("--follow", "--json", "--bootstrap-servers", self._bootstrap_servers)
            self._command = subprocess.Popen(
                [sys.executable, "-m", "kcontrol.cli", *self._arguments(), *common],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL,
                text=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
            return self._command

    def _take(self, line: dict[str, Any]) -> None:
        with self._changed:
            try:
                self._hear(line)
            except ValueError as error:
                self._failure = error
            self._changed.notify_all()
