"""Pauses a child process: when that has been done, nothing of it runs any more."""

from __future__ import annotations

import os
import signal
import time

from kcontrol.errors import ClusterError

STOP_TIMEOUT_S = 30.0
_LOOK_EVERY_S = 0.001


def pause_child(pid: int, timeout_s: float = STOP_TIMEOUT_S) -> None:
    """SIGSTOP, until each of its threads has stopped: after the signal alone one may still answer what comes next.

    One that has ended is left as it is. Raises ProcessLookupError: it was waited for already; ClusterError: it did not stop.
    """
    os.kill(pid, signal.SIGSTOP)
    until = time.monotonic() + timeout_s
    while os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        if time.monotonic() > until:
            raise ClusterError(f"process {pid} did not stop within {timeout_s:g} s of SIGSTOP")
        time.sleep(_LOOK_EVERY_S)
