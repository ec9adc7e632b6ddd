"""Threads that compute when nobody else wants to take short turns, and keep the weight and the policy that they have."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kcontrol.adapters.spark.session.turns import SHORT_US, take_short_turns

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="it is asked of Linux, by this number"
)
GETATTR = 315
SINCE = (6, 12)
"""Of Linux: before that it takes them for nothing."""
ATTRIBUTES = struct.Struct("=IIQiIQQQ")


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as started:
        yield started


def turn_us(thread: int) -> int:
    found = ctypes.create_string_buffer(ATTRIBUTES.size)
    assert ctypes.CDLL(None).syscall(GETATTR, thread, found, ATTRIBUTES.size, 0) == 0
    return int(ATTRIBUTES.unpack(found.raw)[5]) // 1000


@pytest.mark.parametrize("policy", [os.SCHED_OTHER, os.SCHED_BATCH])
def test_turns_are_short_and_weight_and_policy_are_kept(
    process: subprocess.Popen[bytes], policy: int
) -> None:
    os.sched_setscheduler(process.pid, policy, os.sched_param(0))
    assert take_short_turns(process.pid, 7)
    assert (os.getpriority(os.PRIO_PROCESS, process.pid), os.sched_getscheduler(process.pid)) == (7, policy)
    if tuple(map(int, platform.release().split(".")[:2])) >= SINCE:
        assert turn_us(process.pid) == SHORT_US


def test_where_nobody_takes_turns_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcontrol.adapters.spark.session.turns.sys.platform", "darwin")
    assert not take_short_turns(0, 0)


def test_a_thread_that_is_gone_is_nobody(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    assert not take_short_turns(process.pid, 0)
