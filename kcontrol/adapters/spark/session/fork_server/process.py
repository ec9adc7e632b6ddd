"""The fork server as a process of this one's: begun with nothing but Python itself imported, so that it can import
what it is for while its parent still does the same."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from kcontrol.adapters.spark.session.fork_server.launcher import TASKS
from kcontrol.adapters.spark.session.fork_server.serving import SOCKET, THREADS, clear_away, differing

SWITCH = "KCONTROL_FORK"
"""The environment variable by which it can be done without: `0`."""
TIMEZONE = "PYARROW_IGNORE_TIMEZONE"
"""PySpark asks for it, and warns of what has been imported without."""
BACKLOG = 128
END_TIMEOUT_S = 20.0
PREFIX = "kcontrol-fork-"
"""Of the directory that the sockets are in."""
_LONGEST_ADDRESS = 100
"""Bytes that a socket's path may have everywhere."""


class ServerProcess:
    """One that runs, until `close` or the end of this process. address: of its first socket. Raises OSError."""

    def __init__(self) -> None:
        self._fixed = _fixed()
        self._environment = {**os.environb, **self._fixed}
        self.address, self._process = _started(self._environment)

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    @property
    def fits(self) -> bool:
        """Whether the environment is still the one in which it has imported, or differs in nothing that an import may have
        looked at."""
        return not differing(self._environment, {**self._fixed, **os.environb})

    def close(self) -> None:
        """End it, and all that it has forked."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.abandon()

    def abandon(self) -> None:
        """Kill it, whether it has imported all or not; on Linux what it has forked ends with it."""
        self._process.kill()
        self._process.wait()
        clear_away(Path(self.address).parent)


class Early:
    """One that was begun before anybody knew whether Spark will be used, for who comes to use it."""

    def __init__(self) -> None:
        self.server: ServerProcess | None = None

    def begin(self) -> None:
        """What can't be begun now can be later, by whoever needs it."""
        if self.server is not None or os.environ.get(SWITCH) == "0" or not hasattr(os, "fork"):
            return
        os.environ.setdefault(TIMEZONE, "1")
        with suppress(OSError):
            self.server = ServerProcess()

    def taken(self) -> ServerProcess | None:
        """It, whose end is now up to the caller; None if there is none, or it is no use any more."""
        server, self.server = self.server, None
        if server is not None and not (server.runs and server.fits):
            server.abandon()
            return None
        return server

    def close(self) -> None:
        """End it, if nobody has taken it."""
        if self.server is not None:
            self.server.abandon()
            self.server = None


early = Early()
"""Of this process."""


def _fixed() -> dict[bytes, bytes]:
    """As Spark sets them for its workers: what is forked can't have others."""
    return {
        b"PYTHONHASHSEED": os.environb.get(b"PYTHONHASHSEED", b"0"),
        THREADS: os.environb.get(THREADS, b"1"),
        b"PYTHONUNBUFFERED": b"YES",
    }


def _clear_left() -> None:
    """What servers that were killed have left: nobody listens there any more."""
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking, suppress(OSError):
            asking.setblocking(False)  # One that stands still is there all the same.
            try:
                asking.connect(str(left / SOCKET))
            except ConnectionRefusedError:
                clear_away(left)


def _started(environment: Mapping[bytes, bytes]) -> tuple[str, subprocess.Popen[bytes]]:
    _clear_left()
    directory = Path(tempfile.mkdtemp(prefix=PREFIX))
    address = str(directory / SOCKET)
    if len(os.fsencode(address)) > _LONGEST_ADDRESS:
        directory.rmdir()
        raise OSError(f"the path {address} is too long for a socket")
    with _listening(directory / TASKS) as tasks, _listening(Path(f"{address}.new")) as plans:
        # Under its name somebody listens from its first moment on: others delete what nobody does.
        Path(f"{address}.new").rename(address)
        numbers = (plans.fileno(), tasks.fileno())
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "kcontrol.adapters.spark.session.fork_server.serving",
                address,
                *map(str, numbers),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=numbers,
            env=environment,
        )
    return address, process


def _listening(path: Path) -> socket.socket:
    """Who comes before the server has imported anything waits for it."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(str(path))
    listening.listen(BACKLOG)
    return listening
