"""A child that was paused: none of its threads runs any more, whatever it was doing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kcontrol.adapters.kafka.embedded.pausing import pause_child
from kcontrol.errors import ClusterError
from tests.support.patience import HANG_S

THREADS, TIMES = 8, 100
BUSY = f"""
import hashlib, threading
data = bytes(1_000_000)
def work():
    while True:
        hashlib.sha256(data)  # without the interpreter's lock
for _ in range({THREADS}):
    threading.Thread(target=work, daemon=True).start()
print("busy", flush=True)
threading.Event().wait()
"""


def states(pid: int) -> set[str]:
    """Of all its threads, as Linux says: T for one that has stopped."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return {(task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks}


def test_none_of_its_threads_runs_any_more() -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "busy\n"
            found = set[str]()
            for _ in range(TIMES):
                pause_child(child.pid, HANG_S)
                found |= states(child.pid)
                os.kill(child.pid, signal.SIGCONT)
            assert found == {"T"}
        finally:
            child.kill()


def test_one_that_has_ended_can_still_be_waited_for() -> None:
    with subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        pause_child(child.pid, HANG_S)
        assert child.wait() == 3


def test_one_that_does_not_stop_in_time_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as child:
        try:
            monkeypatch.setattr(os, "waitid", lambda *_: None)
            with pytest.raises(ClusterError, match=f"process {child.pid} did not stop"):
                pause_child(child.pid, 0.05)
        finally:
            child.kill()
