"""Processes that are forked when Spark starts a Python: they find what a Python of their own would, and end with
whoever started them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from kcontrol.adapters.spark.session.fork_server.launcher import ADDRESS, DAEMON, HERE, WAIT_S
from kcontrol.adapters.spark.session.fork_server.process import SWITCH, ServerProcess, early
from kcontrol.adapters.spark.session.fork_server.starting import PYTHON, Forks
from tests.support.patience import HANG_S
from tests.support.processes import until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")

HASH_SEED = {"PYTHONHASHSEED": "0"}
"""As PySpark sets it for its workers."""

LOOK = """
import sys
there = sorted(each for each in ("pyspark", "pyarrow", "pandas") if each in sys.modules)
import json, os
print(json.dumps({
    "pid": os.getpid(), "parent": os.getppid(), "there": there, "name": __name__,
    "main": sys.modules["__main__"].__dict__ is globals(), "arguments": sys.argv[1:], "first": sys.path[0],
    "said": os.environ.get("SPARK_SAID"), "more": os.environ.get("MORE"),
    "hash": hash("some text"), "read": sys.stdin.read(),
}))
print("an error", file=sys.stderr)
sys.exit(3)
"""
WAIT = """
import os, sys, time
print(os.getpid(), flush=True)
time.sleep(600)
"""


@contextmanager
def serving(directory: Path) -> Iterator[dict[str, str]]:
    """The environment of the JVM of a session that uses a server of its own, with modules `look` and `wait`."""
    (directory / "look.py").write_text(LOOK, encoding="utf-8")
    (directory / "wait.py").write_text(WAIT, encoding="utf-8")
    forks = Forks()
    with pytest.MonkeyPatch.context() as patched:
        for name in (PYTHON, SWITCH, "PYTEST_CURRENT_TEST"):
            patched.delenv(name, raising=False)
        with forks.forking("local[2]"):
            await_server()
            environment = {**os.environ, **HASH_SEED}
        assert PYTHON not in os.environ
        assert ADDRESS not in os.environ
    try:
        yield {**environment, "PYTHONPATH": os.pathsep.join([str(directory), *sys.path[1:]])}
    finally:
        forks.close()


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Of one server for all tests that leave it as it is: it imports for seconds."""
    with serving(tmp_path_factory.mktemp("modules")) as environment:
        yield environment


@pytest.fixture
def started_alone(tmp_path: Path) -> Iterator[dict[str, str]]:
    with serving(tmp_path) as environment:
        yield environment


def await_server() -> None:
    """Until it has imported all: who does not get an answer for seconds is started and not forked."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(HANG_S)
        asking.connect(os.environ[ADDRESS])
        assert asking.recv(1) == HERE


class Tries:
    """A launcher whose server says nothing for seconds starts what it was to fork, as it is to. That, and nothing else, may
    be tried again: on a machine that stands still it says nothing about either."""

    def __init__(self) -> None:
        self._until_s = time.monotonic() + HANG_S
        self.begin()

    def begin(self) -> None:
        self._began_s = time.monotonic()

    def was_forked(self, forked: bool) -> bool:
        """False: try it again. Fails when it is to have been forked, and was not."""
        now_s = time.monotonic()
        assert forked or (now_s - self._began_s >= WAIT_S and now_s < self._until_s), "it was not forked"
        self.begin()
        return forked


def look_forked(environment: dict[str, str], directory: Path) -> dict[str, Any]:
    """In a process that was forked."""
    tries = Tries()
    while not tries.was_forked((found := look(environment, directory))["forked"]):
        pass
    return found


def look(environment: dict[str, str], directory: Path, python: str = "") -> dict[str, Any]:
    command = [python or environment[PYTHON], "-m", "look", "a", "b c"]
    with subprocess.Popen(
        command, env=environment, cwd=directory, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        out, errors = process.communicate("what it reads", HANG_S)
    assert process.returncode == 3, errors
    assert "an error" in errors
    found: dict[str, Any] = json.loads(out)
    return {"forked": found.pop("pid") != process.pid, **found}


def waiting(environment: dict[str, str]) -> tuple[subprocess.Popen[str], psutil.Process]:
    """What Spark has started, and the process that was forked for it."""
    tries, command = Tries(), [environment[PYTHON], "-m", "wait"]
    while True:
        process = subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE)
        assert process.stdout is not None
        forked = psutil.Process(int(process.stdout.readline()))
        if tries.was_forked(forked.pid != process.pid):
            return process, forked
        process.kill()
        process.wait()


def test_a_forked_process_is_what_a_started_one_would_be(started: dict[str, str], tmp_path: Path) -> None:
    environment = {**started, "SPARK_SAID": "something"}
    forked, plain = look_forked(environment, tmp_path), look(environment, tmp_path, sys.executable)
    assert (forked.pop("forked"), plain.pop("forked")) == (True, False)
    assert forked.pop("parent") != plain.pop("parent")
    assert (forked.pop("there"), plain.pop("there")) == (["pyarrow", "pyspark"], [])
    assert forked == plain
    assert forked["read"] == "what it reads"


def test_what_an_import_may_have_seen_otherwise_is_started_and_not_forked(
    started: dict[str, str], tmp_path: Path
) -> None:
    found = look({**started, "MORE": "of the user"}, tmp_path)
    assert (found["forked"], found["more"]) == (False, "of the user")
    assert look_forked(started, tmp_path)["forked"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_who_ends_what_was_started_ends_what_was_forked(started: dict[str, str], number: int) -> None:
    process, forked = waiting(started)
    process.send_signal(number)
    forked.wait(HANG_S)
    assert process.wait(HANG_S) == -number


def test_who_waits_for_what_was_started_learns_of_the_end_of_what_was_forked(started: dict[str, str]) -> None:
    process, forked = waiting(started)
    forked.kill()
    assert process.wait(HANG_S) == 128 + signal.SIGKILL


@contextmanager
def daemon(environment: dict[str, str]) -> Iterator[psutil.Process]:
    """What forks the processes that run tasks, until it is over."""
    tries, command = Tries(), [environment[PYTHON], "-m", DAEMON]
    while True:
        with subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.read(4), "the number of its port"
                servers = [each for each in psutil.Process().children(recursive=True) if serves(each)]
                forked = [each for server in servers for each in server.children() if not serves(each)]
                if tries.was_forked(len(forked) == 1):
                    yield forked[0]
                    return
            finally:
                process.kill()


def serves(process: psutil.Process) -> bool:
    return "fork_server.serving" in " ".join(process.cmdline()) and process.name().startswith("python")


def has_pandas(process: psutil.Process) -> bool:
    return any("/pandas/" in each.path for each in process.memory_maps())


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="nobody says what a process has loaded")
def test_tasks_are_forked_from_a_second_server_that_has_imported_what_they_need(
    started_alone: dict[str, str], tmp_path: Path
) -> None:
    with daemon(started_alone) as forked:
        second = forked.parent()
        assert second is not None
        first = second.parent()
        assert first is not None
        assert (has_pandas(forked), has_pandas(first)) == (True, False)
        assert first.parent() == psutil.Process()
        second.kill()
        forked.wait(HANG_S)
    assert look_forked(started_alone, tmp_path)["forked"], "who plans is still forked"
    plain = subprocess.run(
        [started_alone[PYTHON], "-m", DAEMON],
        env=started_alone, stdin=subprocess.DEVNULL, capture_output=True, timeout=HANG_S,
    )  # fmt: skip
    assert len(plain.stdout) == 4, plain.stderr


def test_without_its_server_nothing_goes_on_and_what_comes_is_started(
    started_alone: dict[str, str], tmp_path: Path
) -> None:
    process, forked = waiting(started_alone)
    server = forked.parent()
    assert server is not None
    server.kill()
    if sys.platform.startswith("linux"):
        forked.wait(HANG_S)
    else:
        forked.kill()
    assert process.wait(HANG_S) == 1
    assert not look(started_alone, tmp_path)["forked"]


PARENT = """
import os, subprocess, sys
from kcontrol.adapters.spark.session.fork_server.launcher import DAEMON
from kcontrol.adapters.spark.session.fork_server.starting import PYTHON, Forks
from tests.unit.spark.test_fork_server import await_server

with Forks().forking("local[2]"):
    await_server()
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    daemon = subprocess.Popen(
        [os.environ[PYTHON], "-m", DAEMON],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )
    daemon.stdout.read(4)
    with subprocess.Popen([os.environ[PYTHON], "-m", "wait"], env=environment) as process:
        process.wait()
"""


def test_the_server_and_all_that_it_has_forked_end_with_the_process_that_began_it(
    started: dict[str, str],
) -> None:
    environment = {name: value for name, value in started.items() if name not in (PYTHON, ADDRESS)}
    command = [sys.executable, "-c", PARENT]
    tries = Tries()
    while True:
        with subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            forked = psutil.Process(int(process.stdout.readline()))
            server = forked.parent()
            assert server is not None
            if not tries.was_forked(server.pid != process.pid):
                forked.kill()
                continue
            address, seconds = (
                Path(server.cmdline()[-3]),
                [each for each in server.children() if serves(each)],
            )
            assert len(seconds) == 1
            process.kill()
            for each in (forked, server, *seconds):
                each.wait(HANG_S)
            assert not address.parent.exists()
            return


@pytest.mark.parametrize("master", ["spark://one:7077", "yarn", "local-cluster[1,1,1024]", None])
def test_where_executors_may_be_elsewhere_spark_starts_python_itself(
    master: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(PYTHON, raising=False)
    with Forks().forking(master):
        assert PYTHON not in os.environ


@pytest.mark.parametrize(
    ("name", "value"), [(PYTHON, "another-python"), (SWITCH, "0"), ("PYSPARK_GATEWAY_PORT", "1")]
)
def test_a_python_that_the_user_has_chosen_is_used(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    before = dict(os.environ)
    with Forks().forking("local[2]"):
        assert dict(os.environ) == before


def server_at(address: str) -> list[psutil.Process]:
    """The system may show no arguments of a process for a moment after it was started."""
    found: list[psutil.Process] = []

    def look() -> bool:
        found[:] = [each for each in psutil.Process().children() if address in each.cmdline()]
        return bool(found)

    until(look, "its server is there")
    return found


@pytest.fixture
def begun_early(monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerProcess]:
    """A server that was begun before anybody knew of a session."""
    for name in (PYTHON, SWITCH, "PYTEST_CURRENT_TEST"):
        monkeypatch.delenv(name, raising=False)
    early.begin()
    server = early.server
    assert server is not None
    yield server
    early.close()
    server.close()


def test_a_server_that_was_begun_early_is_the_one_that_is_used(
    begun_early: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # Pytest has set it anew since.
    forks = Forks()
    with forks.forking("local[2]"):
        assert os.environ[ADDRESS] == begun_early.address
    forks.close()
    assert not begun_early.runs


def test_a_server_that_imported_in_another_environment_is_not_used(
    begun_early: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    forks = Forks()
    with forks.forking("local[2]"):
        assert os.environ[ADDRESS] != begun_early.address
    assert not begun_early.runs
    forks.close()


def test_a_server_that_nobody_can_use_ends(begun_early: ServerProcess) -> None:
    forks = Forks()
    with forks.forking("spark://elsewhere:7077"):
        assert ADDRESS not in os.environ
    assert not begun_early.runs


def test_what_a_killed_server_has_left_is_cleared_away_and_one_that_runs_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tempfile.TemporaryDirectory() as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        killed, running = ServerProcess(), ServerProcess()
        left, kept = (Path(each.address).parent for each in (killed, running))
        [process] = server_at(killed.address)
        process.kill()
        process.wait()
        assert left.exists()
        newest = ServerProcess()
        assert {*Path(short).iterdir()} == {kept, Path(newest.address).parent}
        assert running.runs
        for each in (running, newest):
            each.abandon()
        assert not [*Path(short).iterdir()]
