"""`kcontrol COMMAND` in forks of one process that has imported what most commands need, for tests that ask again and again:
importing takes nearly all of the second of processor time that a look costs.

Arguments, environment, directory, what is printed and the exit code are as of `python -m kcontrol.cli`, and each command is a
process of its own, which ends as Python does. Commands that run Spark or other processes are started anew, see `forks`.

    python -m tests.support.forked_commands FD        serves whoever has the other end of the socket FD, until that is closed
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any

FORKED = frozenset(
    {"status", "steps", "log", "list", "pause", "resume", "stop", "pause-input", "resume-input", "skip"}
    | {"checkpoint", "wait", "delete", "reset", "deliver", "cluster", "region"}
)
_IMPORTED = ("kcontrol.cli.main", "kcontrol.cli.read", "kcontrol.cli.overview", "kcontrol.cli.desired")
_OF_IMPORTS = ("PYTHON", "NUMBA", "XDG_CACHE")
"""How the names of environment variables begin that an import may look at."""
KEEPER_S = 120.0
"""For what only a machine that stands still keeps from being said at once."""


def forks(arguments: Sequence[str], env: Mapping[str, str]) -> bool:
    """Whether this command may be forked. env: what it has of its own."""
    looks = any(name.startswith(_OF_IMPORTS) for name in env)
    return bool(arguments) and arguments[0] in FORKED and not looks


class ForkedCommands:
    """The other end: starts the process when it is first asked for a command. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None

    def run(
        self, arguments: Sequence[str], env: Mapping[str, str], cwd: Path | None, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """As `subprocess.run` with text that is captured. env: all of it. Raises subprocess.TimeoutExpired."""
        command = ["kcontrol", *arguments]
        mine, its = socket.socketpair()
        new = tempfile.TemporaryFile
        with new() as asked, new() as out, new() as err, mine:
            where = str(cwd or Path.cwd())
            asked.write(
                json.dumps({"arguments": [*map(str, arguments)], "env": dict(env), "cwd": where}).encode()
            )
            asked.seek(0)
            with its, self._lock:
                socket.send_fds(self._begun(env), [b"x"], [each.fileno() for each in (asked, out, err, its)])
            try:
                code = _awaited(mine, timeout_s)
            except TimeoutError:
                raise subprocess.TimeoutExpired(command, timeout_s, _text(out), _text(err)) from None
            return subprocess.CompletedProcess(command, code, _text(out), _text(err))

    def _begun(self, env: Mapping[str, str]) -> socket.socket:
        if self._control is None:
            self._control, its = socket.socketpair()
            with its:
                process = subprocess.Popen(
                    [sys.executable, "-m", "tests.support.forked_commands", str(its.fileno())],
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=env,
                    cwd=Path(__file__).parents[2], pass_fds=(its.fileno(),), start_new_session=True,
                )  # fmt: skip
            atexit.register(_end, process, self._control)
        return self._control


def _end(process: subprocess.Popen[bytes], control: socket.socket) -> None:
    control.close()
    process.wait()


def _awaited(answer: socket.socket, timeout_s: float) -> int:
    """The exit code. Raises TimeoutError after a command was killed because it took too long."""
    process_id = int(_line(answer, KEEPER_S))
    try:
        return int(_line(answer, timeout_s))
    except TimeoutError:
        os.kill(process_id, signal.SIGKILL)
        _line(answer, KEEPER_S)
        raise


def _line(answer: socket.socket, timeout_s: float) -> bytes:
    """The next line that is said. Raises TimeoutError."""
    deadline, said = time.monotonic() + timeout_s, b""
    while not said.endswith(b"\n"):
        answer.settimeout(max(deadline - time.monotonic(), 0.001))
        more = answer.recv(1)
        assert more, "the process that commands are forks of has ended"
        said += more
    return said


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


# --- in the process that is forked --------------------------------------------------------------------------


def serve(control: socket.socket) -> None:
    """Returns in forks that have a command to run, after that has run, and when nobody will ask any more."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Nobody has to wait for those that wait for commands.
    while True:
        told, descriptors, _, _ = socket.recv_fds(control, 1, 4)
        if not told:
            return
        if os.fork() == 0:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _keep(*descriptors)
            return
        for each in descriptors:
            os.close(each)


def _keep(asked: int, out: int, err: int, answer: int) -> None:
    """Say who runs the command, and how that has ended. Returns in the process that has run it."""
    process_id = os.fork()
    if process_id == 0:
        os.close(answer)
        with os.fdopen(asked, "rb") as file:
            _run(json.load(file), out, err)
        return
    os.write(answer, b"%d\n" % process_id)
    _, status = os.waitpid(process_id, 0)
    os.write(answer, b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _run(asked: dict[str, Any], out: int, err: int) -> None:
    for here, there in ((out, sys.stdout), (err, sys.stderr)):
        os.dup2(here, there.fileno())
        os.close(here)
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    sys.path[0] = asked["cwd"]
    sys.argv[1:] = asked["arguments"]
    sys.orig_argv[1:] = ["-m", "kcontrol.cli", *asked["arguments"]]
    runpy.run_module("kcontrol.cli", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    for name in _IMPORTED:
        import_module(name)
    serve(socket.socket(fileno=int(sys.argv[1])))
