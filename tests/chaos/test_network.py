"""What a run of chaos cuts is whole again after it, and a run that was killed is in nobody's way."""

from __future__ import annotations

import subprocess

import pytest

from tests.chaos.network import Network, can_cut
from tests.support.patience import HANG_S

NOBODYS_GROUP, NOBODYS_PORT = 64_321, 9

pytestmark = pytest.mark.skipif(not can_cut(), reason="needs root and iptables")


def rules() -> str:
    """Of this machine, for what it sends."""
    return subprocess.run(
        ["iptables", "--wait", "-S"], capture_output=True, text=True, timeout=HANG_S, check=True
    ).stdout


def test_a_run_that_was_killed_leaves_nothing_that_stops_the_next() -> None:
    before = rules()
    killed, following = Network(), Network()
    killed.cut([NOBODYS_GROUP], [NOBODYS_PORT])
    following.cut([NOBODYS_GROUP], [NOBODYS_PORT])
    assert rules().count(f"--gid-owner {NOBODYS_GROUP}") == 1
    following.heal()
    assert f"--gid-owner {NOBODYS_GROUP}" not in rules()
    following.close()
    assert rules() == before
