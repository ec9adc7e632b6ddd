"""Ports that nobody listens on."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST = 10_240


def free_ports(count: int) -> list[int]:
    """Different ones, all free at the same moment, which the system gives to no connection that goes out: such a one may take
    a port at any moment before it is bound, or while a server that is restarted does not hold it."""
    dice, found = random.SystemRandom(), list[int]()
    with ExitStack() as stack:
        while len(found) < count:
            probe = stack.enter_context(socket.socket())
            try:
                probe.bind(("127.0.0.1", dice.randrange(_FIRST, _first_given())))
            except OSError:
                continue
            found.append(probe.getsockname()[1])
    return found


def _first_given() -> int:
    """The first port that connections may be given."""
    return int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 32_768
