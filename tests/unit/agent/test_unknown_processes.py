"""No process runs that no agent knows of, wherever its agent has ended while it started it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from kcontrol.apps.agent.processes import HostProcesses
from kcontrol.core.cluster.model import Unit
from kcontrol.core.cluster.work import RunningUnit
from tests.support.patience import HANG_S
from tests.support.processes import until

UNIT: Unit = ("job", "nodes", 0)
DIES = """
import os, signal, sys
from pathlib import Path
from kcontrol.apps.agent import processes

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

processes.identity_of = die
host = processes.HostProcesses(Path(sys.argv[1]), 1_000)
host.start(("job", "nodes", 0), 7, ("sh", "-c", f"echo > {sys.argv[2]}; exec sleep 60"))
"""


def is_there(folder: Path) -> bool:
    """Whether anything runs that was started there."""
    lines = [one.info["cmdline"] or [] for one in psutil.process_iter(["cmdline"])]
    return any(str(folder) in " ".join(line) for line in lines)


def test_an_agent_that_is_killed_before_it_has_written_down_what_it_started_has_started_nothing(
    tmp_path: Path,
) -> None:
    folder, ran = tmp_path / "units", tmp_path / "ran"
    done = subprocess.run([sys.executable, "-c", DIES, str(folder), str(ran)], timeout=HANG_S, check=False)
    assert done.returncode < 0, "it was killed"
    until(lambda: ran.exists() or not is_there(folder), "it is known whether it runs", HANG_S)
    assert not ran.exists(), "nobody knows of it"
    assert HostProcesses(folder, 1_000).is_free(UNIT)


def test_what_can_not_be_written_down_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, ran = tmp_path / "units", tmp_path / "ran"
    host = HostProcesses(folder, 1_000)

    def full(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", full)
        with pytest.raises(OSError, match="no space left"):
            host.start(UNIT, 7, ("sh", "-c", f"echo > {ran}; exec sleep 60"))
    until(lambda: ran.exists() or not is_there(folder), "it is known whether it runs", HANG_S)
    assert not ran.exists()


def test_who_is_told_to_end_at_once_ends(tmp_path: Path) -> None:
    """Its command may not have begun when its keeper hears of it."""
    host = HostProcesses(tmp_path, 600_000)
    for generation in range(30):
        host.start(UNIT, generation, ("sleep", "600"))
        host.stop(RunningUnit(UNIT, generation), 0)
        until(lambda: not host.tend(0) and host.is_free(UNIT), "it has ended", HANG_S)
