"""Kills the broker when the process that started it is gone, however it went: a SIGKILL runs no clean-up
code.

Run as a program by `broker.py`: reads one line with the broker's process id, then waits until its parent ends
or the broker does. Where the kernel has process handles (Linux) those are waited for, so that a process id
that was used again is never hit; elsewhere the end of standard input tells, which the kernel closes when the
parent ends. Imports nothing of kcontrol, so that it stays small.
"""

from __future__ import annotations

import os
import select
import signal
import sys


def main() -> None:
    parent = os.getppid()
    line = sys.stdin.buffer.readline()
    if not line:
        return
    broker = int(line)
    try:
        if hasattr(os, "pidfd_open"):
            _guard_by_handles(broker, parent)
        else:
            sys.stdin.buffer.read()
            os.kill(broker, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _guard_by_handles(broker: int, parent: int) -> None:
    broker_handle = os.pidfd_open(broker)
    parent_handle = os.pidfd_open(parent)
    ready, _, _ = select.select([broker_handle, parent_handle], [], [])
    if broker_handle not in ready:
        signal.pidfd_send_signal(broker_handle, signal.SIGKILL)


if __name__ == "__main__":
    main()
