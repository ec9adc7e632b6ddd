"""A process that stands by is told which node it is, and its agent knows it by that from then on."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from kcontrol.apps.agent.nodes import NodeCommands
from kcontrol.apps.agent.numbers import GivenNumber, given_number
from kcontrol.apps.agent.processes import HostProcesses
from kcontrol.cli.node import node
from kcontrol.core.cluster.entries import (
    Accept,
    ClusterEntry,
    DrainAgent,
    Leave,
    Notify,
    Prepare,
    RaiseLevel,
    SetStandbys,
    SubmitJob,
)
from kcontrol.core.cluster.model import STANDBY, STANDBY_LEVEL, ClusterJob, TaskSpec, Unit
from kcontrol.core.cluster.work import RunningUnit
from kcontrol.core.model import AgentPlacement
from kcontrol.errors import ConfigurationError
from tests.support.patience import HANG_S
from tests.support.processes import until
from tests.unit.agent.test_endings import Ending, Life

STANDS: Unit = ("job", STANDBY, 1)
NODE: Unit = ("job", "nodes", 2)
PLACED = AgentPlacement(9, 57)


def test_who_stood_by_is_the_node_over_all_lives_of_its_agent(tmp_path: Path) -> None:
    first = HostProcesses(tmp_path, 1_000)
    file = first.number_file(STANDS, 40)
    pid = first.start(STANDS, 40, ("sleep", "60"))
    assert given_number(file) is None
    assert first.give(RunningUnit(STANDS, 40), NODE, PLACED) == pid
    assert given_number(file) == GivenNumber(2, PLACED)
    assert (first.running(), first.is_free(STANDS)) == ([RunningUnit(NODE, 57)], True)
    second = HostProcesses(tmp_path, 1_000)
    assert second.running() == [RunningUnit(NODE, 57)]
    assert second.of_another_log(PLACED.founded_ms) == []
    assert second.of_another_log(PLACED.founded_ms + 1) == [RunningUnit(NODE, 57)]
    first.stop(RunningUnit(NODE, 57), 0)
    until(lambda: not first.tend(0) and not first.running(), "it has ended", HANG_S)
    assert list(tmp_path.iterdir()) == []


def test_one_that_was_given_a_number_and_ends_leaves_nothing_once_it_is_forgotten(tmp_path: Path) -> None:
    processes = HostProcesses(tmp_path, 1_000)
    processes.start(
        STANDS, 40, ("sh", "-c", f"while [ ! -e {tmp_path}/*/number ]; do sleep 0.01; done; exit 3")
    )
    processes.give(RunningUnit(STANDS, 40), NODE, PLACED)
    ended = []
    until(lambda: bool(ended.extend(processes.tend(0)) or ended), "it has ended", HANG_S)
    [one] = ended
    assert (one.unit, one.generation, one.code) == (NODE, 57, 3)
    processes.forget(one)
    assert list(tmp_path.iterdir()) == []


class Waits(Ending):
    """The command of a process that runs until it is told to end."""

    def __call__(self, job: ClusterJob, unit: Unit, placement: AgentPlacement) -> Sequence[str]:
        return ("sh", "-c", "while sleep 0.1; do :; done", "stands")


def standing_log(founded_ms: int = 0) -> list[ClusterEntry]:
    """The node is on b, and on a, whose first life is over, a process stands by for it."""
    levels = (1, STANDBY_LEVEL)
    log: list[ClusterEntry] = [
        Prepare("a", "a-1", levels=levels, began_ms=founded_ms),
        Prepare("a", "a-2", previous="a-1", levels=levels),
        Prepare("b", "b-1", levels=levels),
        Notify("b", "b-1"),
        Accept("b", "b-1", "a", "a-2"),
        *(RaiseLevel(level) for level in range(2, STANDBY_LEVEL + 1)),
    ]
    log.append(DrainAgent("a", True, len(log) - 1))
    log.append(SubmitJob("job", "r", len(log) - 1, "p", (TaskSpec("nodes", 1, 1),)))
    log.append(DrainAgent("a", False, len(log) - 1))
    return [*log, SetStandbys("job", "s", len(log) - 1, 1)]


def test_when_the_host_of_the_node_is_gone_who_stands_by_here_goes_on_as_the_node(tmp_path: Path) -> None:
    log = standing_log()
    life = Life(tmp_path, Waits(0), log, (1, STANDBY_LEVEL))
    life.read()
    life.work()
    [stands] = life.processes.running()
    assert stands.unit == ("job", STANDBY, 0)
    [pid] = life.processes.pids().values()
    file = life.processes.number_file(stands.unit, stands.generation)
    # While one program takes another's place there is no command line.
    until(lambda: str(file) in psutil.Process(pid).cmdline(), "it is told where its number will be", HANG_S)

    log.append(Leave("b", "b-1", "b", "b-1", "asked to"))
    life.read()
    life.work()
    [is_node] = life.processes.running()
    assert is_node == RunningUnit(("job", "nodes", 0), len(log) - 1)
    assert list(life.processes.pids().values()) == [pid]
    assert given_number(file) == GivenNumber(0, AgentPlacement(life.session.replica.founded_ms, len(log) - 1))
    assert life.told[-1] == f"has who stood by run job/nodes/0 of generation {len(log) - 1} (pid {pid})"
    life.processes.stop(is_node, 0)
    until(lambda: not life.processes.tend(0) and not life.processes.running(), "it has ended", HANG_S)
    life.disk.close()


def test_who_stands_by_of_a_deleted_log_is_given_no_number_in_the_next(tmp_path: Path) -> None:
    """Though its placement there has the same number."""
    old = Life(tmp_path, Waits(0), standing_log(1_000), (1, STANDBY_LEVEL))
    old.read()
    old.work()
    [stands] = old.processes.running()
    old.disk.close()

    next_log = standing_log(2_000)
    life = Life(tmp_path, Waits(0), next_log, (1, STANDBY_LEVEL))
    life.read()
    [place] = [place for unit, place in life.machine.replica.places().items() if unit == stands.unit]
    assert place.generation == stands.generation
    next_log.append(Leave("b", "b-1", "b", "b-1", "asked to"))
    life.read()
    life.work()
    assert given_number(life.processes.number_file(stands.unit, stands.generation)) is None
    assert not any("has who stood by run" in one for one in life.told)
    for one in life.processes.running():
        life.processes.stop(one, 0)
    until(lambda: not life.processes.tend(0) and not life.processes.running(), "they have ended", HANG_S)
    life.disk.close()


def test_its_command_has_no_number_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("")
    commands = NodeCommands(tmp_path, "broker:9092", tmp_path / "work")
    job = ClusterJob(
        "job", 0, 0, 0, "r", "file:job.py", (TaskSpec("nodes", 3, 3),), kept=2, most=3, standbys=2
    )
    found = list(commands(job, STANDS, PLACED) or ())
    assert found[:5] == [sys.executable, "-m", "kcontrol.cli", "node", str(tmp_path / "job.py")]
    assert found[5:10] == ["--node", "0", "--nodes", "3", "--standby"]
    assert "--new" not in found


@pytest.mark.parametrize("more", [(), ("--standby", "--metrics-port", "8123")])
def test_a_number_from_a_file_is_for_standbys_of_agents(tmp_path: Path, more: tuple[str, ...]) -> None:
    (tmp_path / "p.py").write_text(
        "import kcontrol\n"
        "pipeline = kcontrol.Pipeline('p', inputs=[kcontrol.KafkaInput('a', topic='a')],"
        " outputs=[kcontrol.KafkaOutput('b', topic='b')])\n"
        "@pipeline.query\ndef q(a):\n    return {'b': a}\n"
    )
    asked = (str(tmp_path / "p.py"), "--number-from", str(tmp_path / "number"), *more)
    done = CliRunner().invoke(node, [*asked, "--bootstrap-servers", "localhost:1"])
    assert isinstance(done.exception, ConfigurationError)
    assert "--number-from is for agents" in str(done.exception)
