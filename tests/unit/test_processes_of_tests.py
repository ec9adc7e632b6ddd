"""What tests start is gone when it was killed, so that what it wrote to can be deleted; and a forked command is as any."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.support import processes
from tests.support.forked_commands import forks
from tests.support.patience import HANG_S
from tests.support.processes import KcontrolProcess, environment, run_kcontrol

FORKING = "tests.support.forked_commands"


class Stubborn:
    """Of psutil: a process that ends some looks after it was killed."""

    def __init__(self, looks: int) -> None:
        self.pid = 2**22 + 1
        self.killed = False
        self.looks = looks

    def wait(self, timeout: float) -> None:
        raise psutil.TimeoutExpired(timeout, self.pid)

    def kill(self) -> None:
        self.killed = True

    def is_running(self) -> bool:
        assert self.killed
        self.looks -= 1
        return self.looks > 0

    def status(self) -> str:
        return psutil.STATUS_RUNNING


def test_who_outlives_its_parent_is_killed_and_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "ENDS_S", 0.0)
    process, child = KcontrolProcess("steps", log=tmp_path / "log"), Stubborn(looks=3)
    process._family = [child]  # type: ignore[list-item]
    process.sweep()
    assert (child.killed, child.looks) == (True, 0)


def forking() -> list[int]:
    """The processes below this one that fork commands, or are such forks."""
    found = []
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            found += [each.pid] if FORKING in each.cmdline() else []
    return found


def test_a_command_that_is_forked_is_as_one_that_is_started(tmp_path: Path) -> None:
    (tmp_path / "kcontrol.toml").write_text("[kafka]\nbootstrap_servers = '${SERVERS}'\nprefix = '?'\n")
    env = {"SERVERS": "nowhere:1"}
    asked = ("steps", "p", "--json")
    assert forks(asked, env)
    forked = run_kcontrol(*asked, env=env, cwd=tmp_path)
    command = [sys.executable, "-m", "kcontrol.cli", *asked]
    started = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=environment(env),
        cwd=tmp_path,
        timeout=HANG_S,
        check=False,
    )
    assert (forked.returncode, forked.stdout, forked.stderr) == (2, "", started.stderr)
    assert started.returncode == 2
    assert "'?'" in forked.stderr
    shown = run_kcontrol("steps", "--help", cwd=tmp_path)
    assert (shown.returncode, shown.stdout[:22]) == (0, "Usage: kcontrol steps ")


def test_a_command_that_is_forked_and_takes_too_long_is_killed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(subprocess.TimeoutExpired):
            run_kcontrol("status", "p", "--bootstrap-servers", where, timeout_s=1.0)
    assert len(forking()) <= 2, "who forks, and who may just be saying how the command has ended"


def test_who_runs_spark_or_finds_what_it_imports_elsewhere_is_not_forked() -> None:
    assert not forks(("run", "file.py"), {})
    assert not forks(("status", "p"), {"PYTHONPATH": "elsewhere"})
    assert not forks((), {})
