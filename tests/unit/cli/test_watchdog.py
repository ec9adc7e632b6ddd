"""A process that hangs ends itself, and one that was stopped is ended by the one that
started it; with real processes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kcontrol.errors import HungError
from tests.support.patience import HANG_S

BLOCKED = """
import threading, time
from kcontrol.apps.supervisor.watchdog import Watchdog
from kcontrol.sessions.health import HangLimits, Health
health = Health(HangLimits(loop_ms=50, patience_ms=100))
health.beat()
Watchdog(health, every_s=0.01)
threading.Event().wait(600)
"""
ENDLESS = """
import threading
from kcontrol.apps.supervisor.watchdog import Watchdog
threading.Thread(target=threading.Event().wait).start()
Watchdog().end_within(0.1)
"""
BEATING = """
import sys, threading
from kcontrol.apps.supervisor.watchdog import Watchdog
Watchdog(beats=int(sys.argv[1]), every_s=0.01)
threading.Event().wait(600)
"""

BEGINS_ANEW = """
import os, sys, threading
from kcontrol.apps.supervisor.anew import begin_anew
from kcontrol.apps.supervisor.watchdog import Watchdog
if os.environ.get("SECOND_LIFE"):
    Watchdog(beats=int(sys.argv[1]), every_s=0.01)
    threading.Event().wait(600)
os.environ["SECOND_LIFE"] = "1"
begin_anew()
"""


def _run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S, check=False
    )


def test_a_process_whose_event_loop_is_blocked_ends_itself_and_says_so() -> None:
    ended = _run(BLOCKED)
    assert ended.returncode == HungError.exit_code
    assert "this process hangs and is ended: its event loop has not turned for" in ended.stderr


def test_a_process_that_can_not_end_is_ended() -> None:
    ended = _run(ENDLESS)
    assert ended.returncode == HungError.exit_code
    assert "it has not ended within 0.1 s" in ended.stderr


@pytest.mark.parametrize("code", [BEATING, BEGINS_ANEW], ids=["at once", "once it has begun anew"])
def test_a_process_that_works_writes_to_the_pipe_that_it_was_given(code: str) -> None:
    read, written = os.pipe()
    process = subprocess.Popen([sys.executable, "-c", code, str(written)], pass_fds=(written,))
    try:
        os.close(written)
        assert os.read(read, 1) == b"."
    finally:
        process.kill()
        process.wait()
        os.close(read)
