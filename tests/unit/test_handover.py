"""Whose threads hand over soon: kcontrol's own, and those of who imports it as they were."""

from __future__ import annotations

import subprocess
import sys

from kcontrol.settings.handover import SWITCH_INTERVAL_S
from tests.support.patience import HANG_S

COMMAND = """
import atexit, sys
sys.argv = ["kcontrol", "--version"]
atexit.register(lambda: print(sys.getswitchinterval()))
from kcontrol.cli.main import main
main()
"""


def said_by(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=HANG_S, check=True
    )
    return done.stdout.splitlines()[-1]


def test_a_command_lets_its_threads_hand_over_soon() -> None:
    assert float(said_by(COMMAND)) == SWITCH_INTERVAL_S


def test_who_imports_kcontrol_keeps_the_interpreter_as_it_was() -> None:
    assert float(said_by("import sys, kcontrol; print(sys.getswitchinterval())")) == sys.getswitchinterval()
