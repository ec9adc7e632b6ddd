"""The processes of a peer while it runs. They end with the bench, however that ends: each watches its standard input, which
is a pipe that the bench keeps open."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.peers.peer import Command

END_TIMEOUT_S = 20.0
SHOWN_CHARACTERS = 3_000


class PeerProcesses:
    """Started together, stopped together; what they say is in one file each."""

    def __init__(self, commands: Sequence[Command], home: Path) -> None:
        self._logs = [home / f"peer-{number}.log" for number in range(len(commands))]
        self._processes: list[subprocess.Popen[bytes]] = []
        for command, log in zip(commands, self._logs, strict=True):
            with log.open("wb") as said:
                self._processes.append(
                    subprocess.Popen(
                        command,
                        stdin=subprocess.PIPE,
                        stdout=said,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                        env=_environment(),
                    )
                )

    def check(self) -> None:
        """Raises RuntimeError, with the end of what it said, for one that has ended by itself."""
        for process, log in zip(self._processes, self._logs, strict=True):
            if process.poll() is not None:
                said = log.read_text(errors="replace")[-SHOWN_CHARACTERS:]
                raise RuntimeError(f"it ended by itself with exit code {process.returncode}:\n{said}")

    def stop(self) -> None:
        """Their input ends; who does not end with it is killed."""
        for process in self._processes:
            if process.stdin is not None:
                process.stdin.close()
        for process in self._processes:
            try:
                process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(END_TIMEOUT_S)


def _environment() -> dict[str, str]:
    """Without what is meant for another Python or Spark than the peer's."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SPARK_", "PYSPARK_", "PYTHON", "VIRTUAL_ENV"))
    }


@contextmanager
def started(commands: Sequence[Command], home: Path) -> Iterator[PeerProcesses]:
    """All of them until the end of the block."""
    processes = PeerProcesses(commands, home)
    try:
        yield processes
    finally:
        processes.stop()
