"""Nothing is told to end that an agent has not started, though it has the number of what it has started once."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from kcontrol.apps.agent.processes import HostProcesses, identity_of
from kcontrol.core.cluster.model import Unit
from kcontrol.core.cluster.work import RunningUnit
from tests.support.patience import HANG_S
from tests.support.processes import until

UNIT: Unit = ("job", "nodes", 0)
LONG_AGO = "another boot/7"
Begun = subprocess.Popen[bytes]
Begin = Callable[..., Begun]


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Something in a group of its own, that writes down the process id of what sleeps in it."""
    begun: list[Begun] = []

    def make(*command: str) -> Begun:
        begun.append(subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE))
        return begun[-1]

    yield make
    for one in begun:
        one.kill()
        one.communicate()


def remembered(folder: Path, pid: int, identity: str) -> HostProcesses:
    """An agent in another life, which once had started this."""
    own = folder / "job-nodes-0-1"
    own.mkdir()
    facts = {"job": UNIT[0], "task": UNIT[1], "index": UNIT[2], "generation": 1, "pid": pid}
    (own / "process.json").write_text(json.dumps({**facts, "identity": identity, "began_s": 0.0}))
    return HostProcesses(folder, 1_000)


def ends(processes: HostProcesses, ask: str) -> None:
    """The agent sees that its own has ended, whether it was to end or not."""
    if ask == "it was to end":
        processes.stop(RunningUnit(UNIT, 1), 0)
    until(lambda: processes.tend(1_000) is not None and processes.is_free(UNIT), "it is known", HANG_S)


@pytest.mark.parametrize("ask", ["it was to end", "it was not"])
def test_whoever_has_the_number_after_a_start_of_the_host_is_left_alone(
    tmp_path: Path, begin: Begin, ask: str
) -> None:
    service = begin("sleep", "600")
    ends(remembered(tmp_path, service.pid, LONG_AGO), ask)
    assert service.poll() is None


def left_behind(begin: Begin) -> tuple[int, str, psutil.Process]:
    """A group without the process after which it is called: its number, who that was, and who is in it."""
    leader = begin("sh", "-c", "sleep 600 > /dev/null & echo $!; read line < /dev/null; exec sleep 600")
    assert leader.stdout is not None
    member = psutil.Process(int(leader.stdout.readline()))
    identity = identity_of(leader.pid)
    leader.kill()
    leader.wait()
    assert os.getpgid(member.pid) == leader.pid
    return leader.pid, identity, member


def lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_group_of_the_host_after_its_start_is_left_alone_as_well(tmp_path: Path, begin: Begin) -> None:
    number, _, member = left_behind(begin)
    ends(remembered(tmp_path, number, LONG_AGO), "it was not")
    assert lives(member)
    member.kill()


def test_what_is_left_of_ones_own_group_is_ended(tmp_path: Path, begin: Begin) -> None:
    number, identity, member = left_behind(begin)
    ends(remembered(tmp_path, number, identity), "it was not")
    until(lambda: not lives(member), "it has ended", HANG_S)


def test_who_may_not_end_its_own_says_so_and_goes_on(
    tmp_path: Path, begin: Begin, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    other = begin("sleep", "600")
    host = remembered(tmp_path, other.pid, identity_of(other.pid))

    def refused(*_: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(os, "killpg", refused)
        host.stop(RunningUnit(UNIT, 1), 0)
        assert host.tend(1_000) == []
    assert f"the processes of group {other.pid} can't be told to end" in caplog.text
    os.killpg(other.pid, signal.SIGKILL)
