"""How long a thread computes before one that wakes up has its turn.

Linux gives each thread turns of some milliseconds, and since 6.6 one that wakes up waits for the end of the turn of the one
that computes, however little that one weighs. Two that ask each other, as PySpark's Python and its JVM do thousands of times
in a start, wait for it at each question. A thread may ask for shorter turns, since 6.12 (sched_attr.sched_runtime of
sched_setattr(2)): what it gets of the processor in all is the same. Before that, and elsewhere, nothing is changed.
"""

from __future__ import annotations

import ctypes
import platform
import struct
import sys

SHORT_US = 100
"""The least that Linux takes."""
_CALLS = {"x86_64": 314, "aarch64": 274}
"""The number of sched_setattr, which libraries have no name for."""
_ATTRIBUTES = struct.Struct("=IIQiIQQQ")
"""size, policy, flags, niceness, priority, runtime, deadline and period in ns."""
_KEEP_POLICY = 0x08


def take_short_turns(thread: int, niceness: int) -> bool:
    """Have a thread, of any process of this user's, compute for `SHORT_US` at a time, with this niceness: Linux takes both
    together. Whether it did."""
    number = _CALLS.get(platform.machine()) if sys.platform == "linux" else None
    if number is None:
        return False
    attributes = _ATTRIBUTES.pack(_ATTRIBUTES.size, 0, _KEEP_POLICY, niceness, 0, SHORT_US * 1000, 0, 0)
    return bool(ctypes.CDLL(None).syscall(number, thread, attributes, 0) == 0)
