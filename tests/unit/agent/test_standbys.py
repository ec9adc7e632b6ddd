"""A process that stands by is told which node it is, and its agent knows it by that from then on."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from kcontrol.apps.agent.nodes import NodeCommands
from kcontrol.apps.agent.numbers import GivenNumber, given_number
from kcontrol.apps.agent.processes import HostProcesses
from kcontrol.cli.node import node
from kcontrol.core.cluster.model import STANDBY, ClusterJob, TaskSpec, Unit
from kcontrol.core.cluster.work import RunningUnit
from kcontrol.core.model import AgentPlacement
from kcontrol.errors import ConfigurationError

STANDS: Unit = ("job", STANDBY, 1)
NODE: Unit = ("job", "nodes", 2)
PLACED = AgentPlacement(9, 57)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


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
    first.stop(RunningUnit(NODE, 57), 0)
    until(lambda: not first.tend(0) and not first.running())
    assert list(tmp_path.iterdir()) == []


def test_one_that_was_given_a_number_and_ends_leaves_nothing_once_it_is_forgotten(tmp_path: Path) -> None:
    processes = HostProcesses(tmp_path, 1_000)
    processes.start(
        STANDS, 40, ("sh", "-c", f"while [ ! -e {tmp_path}/*/number ]; do sleep 0.01; done; exit 3")
    )
    processes.give(RunningUnit(STANDS, 40), NODE, PLACED)
    ended = []
    until(lambda: bool(ended.extend(processes.tend(0)) or ended))
    [one] = ended
    assert (one.unit, one.generation, one.code) == (NODE, 57, 3)
    processes.forget(one)
    assert list(tmp_path.iterdir()) == []


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
