"""Cuts between processes on one machine, by the packet filter: packets vanish, no
connection is reset, nobody is told.

Processes are known by the group that they run under, addresses by their ports, and only packets over the
loopback device are touched, in a chain of our own. Where one is not root, or there is no iptables, nothing
can be cut.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable

from tests.support.patience import HANG_S

_CHAIN = "KCONTROL_CHAOS"
_TIMEOUT_S = HANG_S


def can_cut() -> bool:
    """Whether there is what it takes."""
    return os.geteuid() == 0 and shutil.which("iptables") is not None


class Network:
    """What is cut at the moment: nothing at first."""

    def __init__(self) -> None:
        self._on = False

    def cut(self, groups: Iterable[int], ports: Iterable[int]) -> None:
        """From now on nothing that processes of these groups send reaches these ports."""
        self._begin()
        listed = ",".join(map(str, sorted(set(ports))))
        for group in groups:
            who = ["-m", "owner", "--gid-owner", str(group)]
            where = ["-p", "tcp", "-m", "multiport", "--dports", listed]
            _iptables("-A", _CHAIN, "-o", "lo", *who, *where, "-j", "DROP")

    def heal(self) -> None:
        """Everything goes through again."""
        if self._on:
            _iptables("-F", _CHAIN)

    def close(self) -> None:
        """As it was before."""
        if self._on:
            _iptables("-F", _CHAIN)
            _iptables("-D", "OUTPUT", "-j", _CHAIN)
            _iptables("-X", _CHAIN)
            self._on = False

    def _begin(self) -> None:
        if not self._on:
            # A run that was killed has left its chain.
            _iptables(*(("-F", _CHAIN) if _holds("-S", _CHAIN) else ("-N", _CHAIN)))
            if not _holds("-C", "OUTPUT", "-j", _CHAIN):
                _iptables("-A", "OUTPUT", "-j", _CHAIN)
            self._on = True


def _holds(*arguments: str) -> bool:
    return _run(*arguments).returncode == 0


def _iptables(*arguments: str) -> None:
    done = _run(*arguments)
    if done.returncode:
        raise OSError(f"iptables {' '.join(arguments)}: {done.stderr.strip()}")


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["iptables", "--wait", *arguments], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
