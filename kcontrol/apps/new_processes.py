"""Starts processes of the new code, each to be a node, with the command that a user has given."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kcontrol.core.model import UpgradeWay
from kcontrol.errors import ConfigurationError, KcontrolError
from kcontrol.views.upgrades import UpgradePart, UpgradeTurn, turns

LAST_WORDS_BYTES = 2_000
HOST = "{host}"
"""In a command: where the process is to be started."""


@dataclass(frozen=True)
class Starter:
    """command: with {node} for the number of the node, and {host} for the host that it goes to; what says how it comes to be
    the node is added. logs: a folder for what they print."""

    command: str
    logs: Path

    @property
    def names_host(self) -> bool:
        """Whether it has to be known on which host a process is to be started."""
        return HOST in self.command

    def arguments(self, node: int, how: str, host: str) -> list[str]:
        """Of the process that is to be this node. how: `--instead` of another process, or `--new`. Raises ConfigurationError:
        the command is no command line."""
        try:
            words = shlex.split(self.command)
        except ValueError as error:
            raise ConfigurationError(f"--start {self.command!r} is no command line: {error}") from error
        if not words:
            raise ConfigurationError("--start needs a command, such as 'kcontrol node FILE'")
        filled = (word.replace("{node}", str(node)).replace(HOST, host) for word in words)
        return [*filled, "--node", str(node), how]

    def start(self, node: int, how: str, host: str) -> NewProcess:
        """Raises ConfigurationError."""
        return NewProcess(self.arguments(node, how, host), self.logs / f"node-{node}.log")


def host_of(turn: UpgradeTurn, node: int, way: UpgradeWay, hosts: Sequence[str], now: str) -> str:
    """Where the process is to be started that comes with a turn as this node; '' if that is not known.

    hosts: for those that go to another host than the one that has a node already, the last one last: so whoever goes on with
    an upgrade finds the right one by what is left of it. now: where the node is whose place it takes.
    """
    if not _goes_elsewhere(turn, way):
        return now
    to_come = turns(way, turn.left, turn.nodes_after, turn.whole)
    after = len(turn.comes) - 1 - turn.comes.index(node) + sum(_elsewhere(each, way) for each in to_come)
    return hosts[-1 - after] if after < len(hosts) else ""


def check_hosts(
    starter: Starter, way: UpgradeWay, to_come: Sequence[UpgradeTurn], hosts: Sequence[str]
) -> None:
    """Raise ConfigurationError if it is not said on which hosts all processes are to be started."""
    elsewhere = sum(_elsewhere(each, way) for each in to_come)
    if starter.names_host and elsewhere > len(hosts):
        raise ConfigurationError(
            f"--start has {HOST}, and {elsewhere} processes are to be started on another host each: give --host so many times, "
            "in that order. Nothing was changed"
        )


def _elsewhere(turn: UpgradeTurn, way: UpgradeWay) -> int:
    """How many processes."""
    return len(turn.comes) if _goes_elsewhere(turn, way) else 0


def _goes_elsewhere(turn: UpgradeTurn, way: UpgradeWay) -> bool:
    return turn.part is UpgradePart.ADD or (turn.part is UpgradePart.REPLACE and way is UpgradeWay.REPLACE)


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
    def pid(self) -> int:
        """Of what was started: of the node, if the command is no other's."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """However it did."""
        return self.exit_code is not None

    @property
    def exit_code(self) -> int | None:
        """None: it is there still."""
        return self._process.poll()

    def check(self) -> None:
        """Raise KcontrolError if it has failed. One that has ended well may have started another."""
        code = self.exit_code
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
