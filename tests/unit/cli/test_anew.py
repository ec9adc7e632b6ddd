"""A process that begins again keeps its number and the other end of its input, and nothing of a JVM."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from kcontrol.apps.supervisor import anew
from kcontrol.apps.supervisor.anew import end_jvm
from tests.support.patience import HANG_S

PROGRAM = """
import os, sys
from kcontrol.apps.supervisor.anew import begin_anew, has_begun_anew
print(os.getpid(), sys.argv[1], has_begun_anew(), has_begun_anew(), flush=True)
if "AGAIN" not in os.environ:
    os.environ["AGAIN"] = "1"
    begin_anew()
print(sys.stdin.readline().strip(), flush=True)
"""


def test_it_runs_the_same_command_in_the_same_process() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "an argument"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    said, _ = process.communicate("still connected\n", HANG_S)
    same = f"{process.pid} an argument"
    assert said.splitlines() == [f"{same} False False", f"{same} True False", "still connected"]


def test_a_jvm_ends_with_its_input_or_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    for command, timeout_s, code in (("cat", HANG_S, 0), ("sleep 600", 1.0, -9)):
        monkeypatch.setattr(anew, "JVM_END_TIMEOUT_S", timeout_s)
        process = subprocess.Popen(command.split(), stdin=subprocess.PIPE)
        end_jvm(SimpleNamespace(proc=process))
        assert process.returncode == code
    end_jvm(SimpleNamespace(proc=None))
