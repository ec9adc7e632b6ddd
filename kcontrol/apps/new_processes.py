"""Starts processes of the new code, each to be a node in place of an old one, with the command that a user has given."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kcontrol.errors import ConfigurationError, KcontrolError

LAST_WORDS_BYTES = 2_000


@dataclass(frozen=True)
class Starter:
    """command: with {node} for the number of the node; what says that it is to be it in place of another process is added.
    logs: a folder for what they print."""

    command: str
    logs: Path

    def arguments(self, node: int) -> list[str]:
        """Of the process that is to be this node. Raises ConfigurationError: the command is no command line."""
        try:
            words = shlex.split(self.command)
        except ValueError as error:
            raise ConfigurationError(f"--start {self.command!r} is no command line: {error}") from error
        if not words:
            raise ConfigurationError("--start needs a command, such as 'kcontrol node FILE'")
        return [*(word.replace("{node}", str(node)) for word in words), "--node", str(node), "--instead"]

    def start(self, node: int) -> NewProcess:
        """Raises ConfigurationError."""
        return NewProcess(self.arguments(node), self.logs / f"node-{node}.log")


class NewProcess:
    """One of them. It is on its own: it goes on when this process ends."""

    def __init__(self, arguments: Sequence[str], log: Path) -> None:
        self._arguments, self._log = arguments, log
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("ab") as out:
                self._process = subprocess.Popen(
                    arguments, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
                )
        except OSError as error:
            raise ConfigurationError(f"--start: {shlex.join(arguments)} can't be started: {error}") from error

    @property
    def text(self) -> str:
        """For people."""
        return f"{shlex.join(self._arguments)} (pid {self._process.pid}); what it prints goes to {self._log}"

    @property
    def ended(self) -> bool:
        """However it did."""
        return self._process.poll() is not None

    def check(self) -> None:
        """Raise KcontrolError if it has failed. One that has ended well may have started another."""
        code = self._process.poll()
        if code:
            raise KcontrolError(
                f"{shlex.join(self._arguments)} has ended with exit code {code}: {self._last_words()}"
            )

    def end(self) -> None:
        """SIGTERM, if it is there still."""
        with suppress(ProcessLookupError):
            self._process.terminate()

    def _last_words(self) -> str:
        with self._log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - LAST_WORDS_BYTES))
            lines = file.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1].removeprefix("kcontrol: ") if lines else f"its log {self._log} is empty"
