"""Giving way to other processes of the machine, also where Linux weighs sessions instead of processes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

AUTOGROUP = Path("/proc/self/autogroup")


def give_way(niceness: int) -> None:
    """Lower this process's priority by `niceness` (0 to 19).

    With sched_autogroup, which most distributions switch on, nice values count only within a session
    (sched(7)): a process that leads a session of its own, as services do, therefore lowers the priority of
    the session too.
    """
    os.nice(niceness)
    if os.getsid(0) == os.getpid():
        with suppress(OSError):  # Not every kernel has it, and none of this is worth failing for.
            AUTOGROUP.write_text(str(niceness), encoding="ascii")
