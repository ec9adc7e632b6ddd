"""Nothing is told to end that an agent has not started, though it has the number of what it has started once."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

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
    """Something in a group of its own."""
    begun: list[Begun] = []

    def make(*command: str) -> Begun:
        begun.append(
            subprocess.Popen(command, start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        )
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
    service = begin("cat")
    ends(remembered(tmp_path, service.pid, LONG_AGO), ask)
    assert answers(service)


def answers(one: Begun) -> bool:
    """Whether what writes what it reads, in this group, was not told to end before."""
    assert one.stdin is not None
    assert one.stdout is not None
    try:
        one.stdin.write(b"there\n")
        one.stdin.flush()
    except BrokenPipeError:
        return False
    return one.stdout.readline() == b"there\n"


def left_behind(begin: Begin) -> tuple[Begun, str]:
    """A group without the process after which it is called, and who that was."""
    leader = begin("sh", "-c", "exec 3<&0; cat <&3 & echo begun; exec sleep 600")
    assert leader.stdout is not None
    assert leader.stdout.readline() == b"begun\n"
    identity = identity_of(leader.pid)
    os.kill(leader.pid, signal.SIGKILL)
    leader.wait()
    assert answers(leader)
    return leader, identity


def test_a_group_of_the_host_after_its_start_is_left_alone_as_well(tmp_path: Path, begin: Begin) -> None:
    group, _ = left_behind(begin)
    ends(remembered(tmp_path, group.pid, LONG_AGO), "it was not")
    assert answers(group)


def test_what_is_left_of_ones_own_group_is_ended(tmp_path: Path, begin: Begin) -> None:
    group, identity = left_behind(begin)
    ends(remembered(tmp_path, group.pid, identity), "it was not")
    assert not answers(group)


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
