"""The fork server itself: `python -m` this, with the path of its first socket, the numbers of the descriptors of both, and a
pipe of its parent's as standard input.

It is two processes. The first has imported what plans, for which a third of the time is enough, and is asked seconds before
anything is computed. It forks the second, which imports what runs tasks besides, once something was planned: by then the
session is made, and a processor has time for that.

They begin no thread, for what it forks goes on as if it had been started by itself: with the arguments,
environment, directory, descriptors and module path that Spark gave it. What an import may have looked at must
be the same here and there, so a request whose environment differs in more than what Spark tells its processes
is refused, and its launcher starts a Python of its own. Whoever forks from here is ended with the launcher that
Spark ends; all of them with the server, and the server with its parent.
"""

from __future__ import annotations

import gc
import os
import runpy
import select
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from marshal import loads
from pathlib import Path

from kcontrol.adapters.spark.session.fork_server.launcher import (
    ADDRESS,
    FORKED,
    HERE,
    LENGTH_BYTES,
    REFUSED,
    STATUS_BYTES,
    TASKS,
    WAIT_S,
)

FREE_NAMES = (ADDRESS, "PYTHONPATH", "PYTHONUNBUFFERED", "PWD", "OLDPWD", "SHLVL", "_")
FREE_PREFIXES = ("SPARK_", "PYSPARK_", "_PYSPARK_", "PYTHON_", "ROCKSDB_")
"""Variables that may differ: what Spark and the shell that starts it tell their processes, read when it is
needed. The module path is set anew."""
THREADS = b"OMP_NUM_THREADS"
"""Spark sets it for tasks alone; what plans computes nothing."""
END_S = 2.0
"""A process that is to end has so long to do it well."""
_SECOND_END_S = 5 * END_S
"""The second server, which sees that its parent's parent is gone once it has imported all."""
_MOST_BYTES = 16 * 1024 * 1024
_READ_BYTES = 4096
_COMMAND_CHARACTERS = 15
SOCKET = "socket"
"""The name of the first one, in a directory that has nothing but them."""


@dataclass
class Request:
    """What a launcher was started for. arguments: those of `python -m`, the module first."""

    arguments: Sequence[str]
    environment: Mapping[bytes, bytes]
    directory: str
    descriptors: Sequence[int]


class Second:
    """What `serve` returns in the process that is to be the server of tasks."""


@dataclass
class _Child:
    pid: int
    launcher: socket.socket
    end_at: float | None = None
    """Killed then, if it has not ended."""


def differing(own: Mapping[bytes, bytes], theirs: Mapping[bytes, bytes]) -> list[str]:
    """The names of variables that keep a process from being forked."""
    theirs = {THREADS: own.get(THREADS, b""), **theirs}
    names = {name for name in {*own, *theirs} if own.get(name) != theirs.get(name)}
    texts = sorted(os.fsdecode(name) for name in names)
    return [text for text in texts if text not in FREE_NAMES and not text.startswith(FREE_PREFIXES)]


class ForkServer:
    """Serves until its parent closes the pipe; in a child, `serve` returns what is to be run.

    tasks: what a second server is to listen to, which is forked once there is a child, or somebody waits there.
    """

    def __init__(self, listening: socket.socket, tasks: socket.socket | None = None) -> None:
        self._listening, self._tasks = listening, tasks
        self._second = 0
        """Its process id, while it runs."""
        self._environment = dict(os.environb)
        self._children: dict[int, _Child] = {}
        """By the descriptor of its launcher."""
        self._wakeups = os.pipe()
        for descriptor in self._wakeups:
            os.set_blocking(descriptor, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakeups[1], warn_on_full_buffer=False)

    def serve(self) -> Request | Second | None:
        """None once the parent is gone, and with it everybody."""
        poller = select.poll()
        tasks = -1 if self._tasks is None else self._tasks.fileno()
        for descriptor in (0, self._listening.fileno(), self._wakeups[0], tasks):
            if descriptor >= 0:
                poller.register(descriptor, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poller.poll(self._patience_ms())}
            if 0 in ready and not os.read(0, 1):
                self._end_all(poller)
                return None
            if self._wakeups[0] in ready:
                os.read(self._wakeups[0], _READ_BYTES)
            self._reap(poller)
            for descriptor in ready & self._children.keys():
                self._lost_launcher(poller, self._children[descriptor])
            self._kill_late()
            if self._listening.fileno() in ready:
                request = self._accept(poller)
                if request is not None:
                    return request
            if self._tasks is not None and (self._children or tasks in ready):
                poller.unregister(self._tasks)
                if self._is_second(self._tasks):
                    return Second()

    def _is_second(self, tasks: socket.socket) -> bool:
        """Whether this is the process that was forked to be the server of tasks."""
        pid = _forked()
        if pid == 0:
            self._become_child()
            return True
        self._tasks, self._second = None, pid or 0
        tasks.close()  # Where there can't be another process, who asks there is refused.
        return False

    def _accept(self, poller: select.poll) -> Request | None:
        """In the child, what it is to run."""
        launcher, _ = self._listening.accept()
        launcher.settimeout(WAIT_S)
        try:
            launcher.sendall(HERE)
            request = _received(launcher)
        except (OSError, ValueError, EOFError):
            launcher.close()  # Its launcher has given up, and runs it by itself.
            return None
        pid = None if differing(self._environment, request.environment) else _forked()
        if pid == 0:
            self._become_child()
            launcher.close()
            if self._tasks is not None:
                self._tasks.close()
            return request
        for descriptor in request.descriptors:
            os.close(descriptor)
        if pid is None:
            with suppress(OSError):
                launcher.sendall(REFUSED)
            launcher.close()
            return None
        self._children[launcher.fileno()] = child = _Child(pid, launcher)
        poller.register(launcher, select.POLLIN)
        try:
            launcher.sendall(FORKED)
        except OSError:
            self._lost_launcher(poller, child)
        return None

    def _become_child(self) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for descriptor in self._wakeups:
            os.close(descriptor)
        for each in (self._listening, *(child.launcher for child in self._children.values())):
            each.close()
        _end_with_parent()

    def _reap(self, poller: select.poll) -> None:
        """Tell launchers whose process has ended."""
        if self._second and os.waitpid(self._second, os.WNOHANG)[0]:
            self._second = 0
        for descriptor, child in list(self._children.items()):
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if not pid:
                continue
            code = os.waitstatus_to_exitcode(status)
            with suppress(OSError):
                child.launcher.sendall((code if code >= 0 else 128 - code).to_bytes(STATUS_BYTES, "big"))
            if child.end_at is None:
                poller.unregister(descriptor)
            child.launcher.close()
            del self._children[descriptor]

    def _lost_launcher(self, poller: select.poll, child: _Child) -> None:
        """Spark has ended it, or somebody else."""
        if child.end_at is None:
            poller.unregister(child.launcher)
            os.kill(child.pid, signal.SIGTERM)
            child.end_at = time.monotonic() + END_S

    def _kill_late(self) -> None:
        for child in self._children.values():
            if child.end_at is not None and time.monotonic() > child.end_at:
                os.kill(child.pid, signal.SIGKILL)

    def _patience_ms(self) -> float | None:
        ends = [child.end_at for child in self._children.values() if child.end_at is not None]
        return max(1.0, (min(ends) - time.monotonic()) * 1000) if ends else None

    def _end_all(self, poller: select.poll) -> None:
        for child in list(self._children.values()):
            self._lost_launcher(poller, child)
        late_at = time.monotonic() + _SECOND_END_S
        while self._children or self._second:
            select.select([self._wakeups[0]], [], [], END_S)
            with suppress(BlockingIOError):
                os.read(self._wakeups[0], _READ_BYTES)
            self._reap(poller)
            self._kill_late()
            if self._second and time.monotonic() > late_at:
                os.kill(self._second, signal.SIGKILL)


def _forked() -> int | None:
    """None where there can't be another process."""
    try:
        return os.fork()
    except OSError:
        return None


def _received(launcher: socket.socket) -> Request:
    """Raises OSError, ValueError or EOFError."""
    head, descriptors, _, _ = socket.recv_fds(launcher, LENGTH_BYTES, 3)
    try:
        while head and len(head) < LENGTH_BYTES:
            head += launcher.recv(LENGTH_BYTES - len(head))
        left = int.from_bytes(head, "big")
        if not 0 < left <= _MOST_BYTES or len(descriptors) != 3:
            raise ValueError("not a request")
        data = bytearray()
        while len(data) < left:
            more = launcher.recv(left - len(data))
            if not more:
                raise EOFError
            data += more
        arguments, environment, directory = loads(bytes(data))
    except BaseException:
        for descriptor in descriptors:
            os.close(descriptor)
        raise
    return Request(arguments, environment, directory, descriptors)


def _end_with_parent() -> None:
    """If the server is killed, nobody would end what it has forked. Linux alone can do that; elsewhere it ends
    when Spark hangs up, as it always has."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    parent_death_signal = 1
    ctypes.CDLL(None).prctl(parent_death_signal, signal.SIGKILL)


class Starting:
    """What a Python that was started by itself would begin with. base: the module path without what the
    environment names."""

    def __init__(self) -> None:
        named = {str(Path(each).absolute()) for each in _module_path(os.environ.get("PYTHONPATH", ""))}
        self._base = [each for each in sys.path[1:] if each not in named]

    def become(self, request: Request) -> None:
        """From here on this process is the one that was asked for."""
        for place, descriptor in enumerate(request.descriptors):
            os.dup2(descriptor, place)
            os.close(descriptor)
        os.environb.clear()
        os.environb.update(request.environment)
        os.chdir(request.directory)
        sys.path[:] = [request.directory, *_module_path(os.environ.get("PYTHONPATH", "")), *self._base]
        sys.path_importer_cache.clear()
        sys.argv[:] = list(request.arguments)
        with suppress(OSError):
            name = request.arguments[0].rpartition(".")[2]
            Path("/proc/self/comm").write_text(name[:_COMMAND_CHARACTERS], encoding="ascii")
        sys.modules.pop(request.arguments[0], None)  # It begins from its first line.
        runpy.run_module(request.arguments[0], run_name="__main__", alter_sys=True)


def _module_path(text: str) -> list[str]:
    return [each or str(Path.cwd()) for each in text.split(os.pathsep)] if text else []


def clear_away(directory: Path) -> None:
    """The directory of a server that is not there any more."""
    with suppress(OSError):
        for name in (SOCKET, TASKS):
            (directory / name).unlink(missing_ok=True)
        directory.rmdir()


def import_for_plans() -> None:
    """What Spark's planners import, out of the garbage collector's sight."""
    import ctypes  # noqa: F401

    import pyspark.sql.streaming.python_streaming_source_runner
    import pyspark.sql.worker.create_data_source
    import pyspark.sql.worker.lookup_data_sources
    import pyspark.sql.worker.plan_data_source_read  # noqa: F401

    import kcontrol.adapters.spark.source.data_source
    import kcontrol.adapters.spark.source.exchange_source  # noqa: F401

    gc.freeze()


def import_for_tasks() -> None:
    """What they do not."""
    from kcontrol.adapters.spark.session import warm_daemon

    warm_daemon.warm_up()


def main() -> None:
    """Returns when the parent is gone, or as the process that was forked."""
    # Ctrl-C ends the parent. PySpark starts its JVM, and so all of that, without it, too.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    directory = Path(sys.argv[1]).parent
    starting = Starting()
    plans, tasks = (socket.socket(fileno=int(number)) for number in sys.argv[2:])
    import_for_plans()
    request = ForkServer(plans, tasks).serve()
    if request is None:
        clear_away(directory)
    if isinstance(request, Second):
        import_for_tasks()
        request = ForkServer(tasks).serve()
    if isinstance(request, Request):
        starting.become(request)


if __name__ == "__main__":
    main()
