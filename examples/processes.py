"""Real kcontrol processes that can be killed, paused and started again. The demo, the
chaos harness and the bench use it.

Every process leads a process group and ends with its parent, however that ends: it holds the reading end of a
pipe that the parent keeps open (`--lifeline`).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

END_TIMEOUT_S = 20.0
SHOWN_LOG_LINES = 40
FORK_SERVER = "kcontrol.adapters.spark.session.fork_server.serving"
LAUNCHER = "fork_server/launcher.py"
FORKED = {
    "python_streamin": ["python", "-m", "pyspark.sql.streaming.python_streaming_source_runner"],
    "warm_daemon": ["python", "-m", "kcontrol.adapters.spark.session.warm_daemon", "pyspark.worker"],
    "daemon": ["python", "-m", "pyspark.daemon"],
}
"""By the name of the process, which has at most 15 letters."""


def now_ms() -> float:
    """The clock that boundaries are stamped with: all processes are on one machine."""
    return time.time() * 1_000


def command_of(process: psutil.Process) -> list[str]:
    """Its command line; of what a fork server has forked, what it was forked for; nothing for the launcher beside
    it, which is no more than its handle. Raises psutil.Error."""
    command = process.cmdline()
    if any(word.endswith(LAUNCHER) for word in command):
        return []
    return FORKED.get(process.name(), command) if FORK_SERVER in command else command


@dataclass
class KcontrolProcess:
    """One `kcontrol` command. home: where it keeps what outlives it; its output is appended to `name`.log
    there.

    environment: variables beside those of this process. directory: where it works, and finds a kcontrol.toml.
    module: another Python module that is run instead; it has to end when its standard input does. group: the
    id of the group that it and its children run under, by which a packet filter knows them; needs root.
    """

    name: str
    arguments: Sequence[str]
    home: Path
    environment: dict[str, str] = field(default_factory=dict)
    directory: Path | None = None
    module: str = "kcontrol.cli"
    group: int | None = None
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def _lifeline(self) -> tuple[str, ...]:
        return ("--lifeline",) if self.module == "kcontrol.cli" else ()

    @property
    def log(self) -> Path:
        return self.home / f"{self.name}.log"

    @property
    def pid(self) -> int:
        if self.process is None:
            raise RuntimeError(f"{self.name} was never started")
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Begin a new incarnation; what is left of the process group of the one before is killed first."""
        self._clear()
        self.home.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", self.module, *self.arguments, *self._lifeline],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=self.directory,
                group=self.group,
                env={
                    **os.environ,
                    "XDG_DATA_HOME": str(self.home),
                    "PYTHONUNBUFFERED": "1",
                    **self.environment,
                },
            )

    def kill(self) -> None:
        """SIGKILL, to this process alone: what becomes of its children is part of what is tried."""
        os.kill(self.pid, signal.SIGKILL)
        if self.process is not None:
            self.process.wait(END_TIMEOUT_S)

    def stop(self) -> None:
        """End it well: SIGTERM, and SIGKILL for whatever of its group is left."""
        if self.process is not None and self.is_running:
            self.process.terminate()
            try:
                self.process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                pass
        self._clear()

    def log_tail(self, lines: int = SHOWN_LOG_LINES) -> str:
        """The end of what it said, for a failure to be understood without its directory."""
        said = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join([f"--- {self.name} ({self.log})", *said[-lines:]])

    def _clear(self) -> None:
        if self.process is None:
            return
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(END_TIMEOUT_S)
        if self.process.stdin is not None:
            self.process.stdin.close()


@contextmanager
def alive(*started: KcontrolProcess) -> Iterator[None]:
    """Run them until the block is left, the last one ended first."""
    try:
        for process in started:
            process.start()
        yield
    finally:
        for process in reversed(started):
            process.stop()


def coordinator(name: str, bootstrap_servers: str, home: Path) -> KcontrolProcess:
    """A coordinator that has its partitions back at once when it is started again under its name."""
    return KcontrolProcess(
        name, ["coordinator", "--instance", name, "--bootstrap-servers", bootstrap_servers], home
    )


def node(
    file: Path,
    bootstrap_servers: str,
    home: Path,
    number: int = 0,
    master: str = "local[2]",
    environment: Mapping[str, str] | None = None,
    standby: str = "",
) -> KcontrolProcess:
    """A node of the pipeline in `file`, with its working directory under `home`.

    standby: what tells one process from another of those that stand by for the number; '' for one that takes
    it at once.
    """
    place = ["--work-dir", str(home / "nodes"), "--master", master]
    which = ["--node", str(number), "--bootstrap-servers", bootstrap_servers]
    waits = ["--standby"] if standby else []
    return KcontrolProcess(
        f"node-{number}{standby}", ["node", str(file), *which, *place, *waits], home, dict(environment or {})
    )
