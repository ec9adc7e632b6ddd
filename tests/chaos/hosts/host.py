"""One host: an agent, and every process that anybody on it has started, known by a variable of their environment.

What is done to a host is done to all of them: they are killed, put to sleep, or cut off from the broker together.
"""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from examples.processes import KcontrolProcess
from tests.support.processes import ROOT

MARK = "CHAOS_HOST"
FIRST_GROUP = 5_400


class Host:
    """group: the id of the group that all of it runs under, for cuts; None where nothing can be cut."""

    def __init__(
        self, number: int, home: Path, servers: str, environment: Mapping[str, str], group: int | None
    ) -> None:
        self.name = f"host-{number}"
        self.home = home / self.name
        self.group = group
        self._work_dir = self.home / "work"
        arguments = [
            "agent",
            "--name",
            self.name,
            "--files",
            str(home / "files"),
            "--work-dir",
            str(self._work_dir),
        ]
        self.agent = KcontrolProcess(
            "agent",
            [*arguments, "--bootstrap-servers", servers],
            self.home,
            {"PYTHONPATH": str(ROOT), MARK: str(self.home), **environment},
            directory=self.home,
            # By this name it is given no lifeline, which an agent does not have.
            module="kcontrol.cli.__main__",
            group=group,
        )
        self.home.mkdir(parents=True)

    def start(self) -> None:
        """Its agent. What else runs on the host goes on."""
        self.agent.start()

    def processes(self) -> list[psutil.Process]:
        """All that run, the agent among them."""
        return [one for one in psutil.process_iter() if _is_of(one, str(self.home))]

    def nodes(self, pipeline: str) -> list[psutil.Process]:
        """Processes of `kcontrol node` of a pipeline; not what they have started, nor who keeps them."""
        found = []
        for one in self.processes():
            with suppress(psutil.Error):
                words = one.cmdline()
                if words[:4] == [sys.executable, "-m", "kcontrol.cli", "node"] and words[4].endswith(
                    f"/{pipeline}.py"
                ):
                    found.append(one)
        return found

    def signal(self, number: signal.Signals) -> int:
        """To all processes; those that are started meanwhile are met, too. How many were."""
        met: set[int] = set()
        while fresh := [one for one in self.processes() if one.pid not in met]:
            for one in fresh:
                met.add(one.pid)
                with suppress(psutil.NoSuchProcess):
                    one.send_signal(number)
        return len(met)

    def kill(self, *, wiped: bool = False) -> int:
        """The host loses its power. wiped: and does not get its disk back. How many processes there were."""
        met = self.signal(signal.SIGKILL)
        if self.agent.process is not None:
            self.agent.process.wait()
        if wiped:
            shutil.rmtree(self._work_dir, ignore_errors=True)
        return met


def _is_of(process: psutil.Process, home: str) -> bool:
    with suppress(psutil.Error, OSError):
        return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == home
    return False
