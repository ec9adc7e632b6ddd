"""A process whose placement is of a log of agents that was deleted is not taken for one of the next log, though unit and
generation are the same."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from kcontrol.core.cluster.entries import ClusterEntry, Prepare
from kcontrol.core.cluster.model import ClusterJob, Unit
from kcontrol.core.model import AgentPlacement
from kcontrol.errors import ConfigurationError, LeftOutError
from tests.support.patience import HANG_S
from tests.support.processes import until
from tests.unit.agent.test_endings import AGAIN, LOG, Ending, Life

NEXT_LOG: list[ClusterEntry] = [Prepare("a", "a-2", began_ms=2_000), LOG[1]]
SAME_LOG: list[ClusterEntry] = [*LOG, AGAIN]
UNIT: Unit = ("job", "nodes", 0)
Starts = Callable[[Life], int]


def goes(life: Life) -> bool:
    life.work()
    return False


class Stays(Ending):
    """The command of a node that runs until it is ended."""

    def __call__(self, job: ClusterJob, unit: Unit, placement: AgentPlacement) -> Sequence[str]:
        self.started += 1
        return ("sleep", "600")


@pytest.fixture
def starts() -> Iterator[Starts]:
    """Have a life start what is placed on it: its process id. What still runs at the end is ended."""
    begun: list[psutil.Process] = []

    def start(life: Life) -> int:
        life.read()
        until(lambda: goes(life) or UNIT in life.processes.pids(), "it was started", HANG_S)
        begun.append(psutil.Process(life.processes.pids()[UNIT]))
        life.disk.close()
        return begun[-1].pid

    yield start
    for one in begun:
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            if one.is_running():
                os.killpg(one.pid, 9)


def test_what_runs_for_a_deleted_log_is_ended_and_the_next_log_s_is_started(
    tmp_path: Path, starts: Starts
) -> None:
    command = Stays(0)
    old = starts(Life(tmp_path, command))
    life = Life(tmp_path, command, NEXT_LOG)
    life.work()
    assert life.processes.pids() == {UNIT: old}, "nothing is ended before the log was read"
    life.read()
    assert life.machine.replica.places()[UNIT].generation == 1, "so by chance the placements are the same"
    until(lambda: goes(life) or life.processes.pids().get(UNIT, old) != old, "the next one runs", HANG_S)
    assert command.started == 2
    assert not psutil.pid_exists(old)
    starts(life)


def test_what_a_process_of_a_deleted_log_ended_with_is_no_failure_in_the_next(
    tmp_path: Path, starts: Starts
) -> None:
    os.mkfifo(tmp_path / "gate")
    command = Ending(ConfigurationError.exit_code, tmp_path / "gate")
    pid = starts(Life(tmp_path, command))
    (tmp_path / "gate").write_text("go\n")
    until(lambda: next(tmp_path.glob("units/*/exit"), None), f"{pid} has ended", HANG_S)
    life = Life(tmp_path, command, NEXT_LOG)
    until(lambda: life.sees(1), "it is heard of before the log is read", HANG_S)
    life.read()
    assert life.says() is None
    assert any("see" in one and "end with code" in one for one in life.told), "but its operator hears of it"
    starts(life)


def left_out(folder: Path, command: Ending, log: list[ClusterEntry]) -> None:
    """A life in which the node says that nobody is to start it again."""
    life = Life(folder, command, log)
    life.read()
    until(lambda: life.sees(1), "it has ended", HANG_S)
    life.disk.close()


def test_a_node_that_was_left_out_in_a_deleted_log_is_started_in_the_next(tmp_path: Path) -> None:
    command = Ending(LeftOutError.exit_code)
    left_out(tmp_path, command, [Prepare("a", "a-2", began_ms=1_000), LOG[1]])
    left_out(tmp_path, command, NEXT_LOG)
    assert command.started == 2
    again = Life(tmp_path, command, NEXT_LOG)
    again.read()
    for _ in range(3):
        assert again.says() is None
    assert command.started == 2, "in the same log it stays so"
    again.disk.close()


def test_what_an_older_version_wrote_down_of_nodes_that_were_left_out_still_counts(tmp_path: Path) -> None:
    command = Ending(LeftOutError.exit_code)
    (tmp_path / "left-out.json").write_text(json.dumps([[*UNIT, 1]]))
    life = Life(tmp_path, command, NEXT_LOG)
    life.read()
    for _ in range(3):
        assert life.says() is None
    assert command.started == 0
    life.disk.close()


@pytest.mark.parametrize("older_version", [False, True])
def test_what_runs_for_the_same_log_is_adopted(tmp_path: Path, starts: Starts, older_version: bool) -> None:
    command = Stays(0)
    pid = starts(Life(tmp_path, command))
    if older_version:
        (file,) = tmp_path.glob("units/*/process.json")
        found = json.loads(file.read_text())
        del found["founded_ms"]
        file.write_text(json.dumps(found))
    life = Life(tmp_path, command, SAME_LOG)
    life.read()
    for _ in range(3):
        life.work()
    assert life.processes.pids() == {UNIT: pid}
    assert command.started == 1
    life.disk.close()
