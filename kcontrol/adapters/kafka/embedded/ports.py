"""Ports for brokers: free ones, which the system gives to no connection that goes out.

Such a connection may take any other port: before it is bound, or while a broker that is started again does not hold it. Clients
that look for that broker all the time even connect to themselves then, by chance, and have its port for good.
"""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack
from pathlib import Path

from kcontrol.adapters.kafka.embedded.files import HOST

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST, _LAST = 10_240, 32_767
_TRIES = 1_000


def free_ports(count: int) -> list[int]:
    """Different ones, that nobody listens on at this moment."""
    dice, found, end = random.SystemRandom(), list[int](), _end()
    with ExitStack() as stack:
        for tried in range(_TRIES):
            if len(found) == count:
                break
            # Where there are none below those that the system gives, it is one of these.
            wanted = dice.randrange(_FIRST, end) if end > _FIRST and tried < _TRIES // 2 else 0
            probe = stack.enter_context(socket.socket())
            try:
                probe.bind((HOST, wanted))
            except OSError:
                continue
            found.append(probe.getsockname()[1])
    return found


def _end() -> int:
    """The first port that the system may give."""
    try:
        return int(_RANGE.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return _LAST
