"""What an agent remembers, what it may run, and the processes that outlive it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from kcontrol.apps.agent.disk import KEPT, AgentDisk
from kcontrol.apps.agent.nodes import NodeCommands, check_agent_name, check_file
from kcontrol.apps.agent.placements import placement_of
from kcontrol.apps.agent.processes import EndedProcess, HostProcesses, identity_of
from kcontrol.cli import agent
from kcontrol.core.cluster.model import ClusterJob, TaskSpec, Unit
from kcontrol.core.cluster.work import RunningUnit
from kcontrol.core.model import AgentPlacement
from kcontrol.errors import ConfigurationError
from tests.support.processes import until

UNIT: Unit = ("job", "nodes", 0)
PLACED = AgentPlacement(9, 57)


def job(package: str) -> ClusterJob:
    return ClusterJob("job", 0, 0, 0, "r", package, (TaskSpec("nodes", 3, 3),))


def ended(processes: HostProcesses, now_ms: int = 0) -> list[EndedProcess]:
    found: list[EndedProcess] = []

    def look() -> bool:
        found.extend(processes.tend(now_ms))
        return not processes.running()

    until(look, "all have ended")
    return found


def test_a_disk_remembers_incarnations_and_is_one_agents(tmp_path: Path) -> None:
    disk = AgentDisk(tmp_path)
    made = [disk.new_incarnation("a") for _ in range(KEPT + 2)]
    with pytest.raises(ConfigurationError, match="another agent works in"):
        AgentDisk(tmp_path)
    disk.close()
    again = AgentDisk(tmp_path)
    assert again.incarnations == tuple(made[2:])
    again.close()


def test_only_files_below_the_folder_are_run(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "flights.py").touch()
    (tmp_path / "secret.py").touch()
    (files / "link.py").symlink_to(tmp_path / "secret.py")
    commands = NodeCommands(files, "broker:9092", tmp_path / "work")
    command = commands(job("file:flights.py"), ("job", "nodes", 2), PLACED)
    assert [str(files / "flights.py"), "--node", "2", "--nodes", "3"] == list(command[4:9])
    assert "--placement 9/57" in " ".join(command)
    assert placement_of("9/57") == PLACED
    for package, why in (
        ("file:../secret.py", "not a path below"),
        ("file:/etc/passwd", "not a path below"),
        ("file:link.py", "below .* only"),
        ("flights.py", "below .* only"),
        ("file:orders.py", "there is no .*orders.py on this host"),
    ):
        with pytest.raises(ConfigurationError, match=why):
            commands(job(package), UNIT, PLACED)


@pytest.mark.parametrize("text", ["", "57", "9/-1", "9/57/1", "a/b"])
def test_a_placement_that_no_agent_has_written_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is not FOUNDED_MS/GENERATION"):
        placement_of(text)


@pytest.mark.parametrize("name", ["", "a b", "-a", "a/b", "a" * 64])
def test_bad_names_and_files_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="is not allowed"):
        check_agent_name("tag", name)
    with pytest.raises(ConfigurationError, match="below the folder"):
        check_file("")


def test_a_process_outlives_its_agent_and_the_next_life_hears_its_code(tmp_path: Path) -> None:
    first = HostProcesses(tmp_path, 1_000)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    pid = first.start(UNIT, 7, ("sh", "-c", f"echo kcontrol: no luck; read line < {gate}; exit 3"))
    second = HostProcesses(tmp_path, 1_000)
    assert second.running() == [RunningUnit(UNIT, 7)]
    assert second.pids() == {UNIT: pid}
    gate.write_text("go on\n")
    [found] = ended(second)
    assert (found.unit, found.generation, found.code, found.said) == (UNIT, 7, 3, "no luck")


def test_who_is_told_to_end_has_time_to_do_so(tmp_path: Path) -> None:
    processes, done, ready = HostProcesses(tmp_path, 60_000), tmp_path / "done", tmp_path / "ready"
    code = (
        f"import signal, time; signal.signal(15, lambda *_: (time.sleep(0.3), open('{done}', 'w'), exit(0)))"
    )
    code += f"; open('{ready}', 'w'); time.sleep(600)"
    processes.start(UNIT, 1, (sys.executable, "-c", code))
    until(ready.exists, "it has begun")
    processes.stop(RunningUnit(UNIT, 1), 0)
    assert ended(processes) == []
    assert done.exists()


def test_who_does_not_end_is_killed_with_all_its_group(tmp_path: Path) -> None:
    processes = HostProcesses(tmp_path, 1_000)
    ready = tmp_path / "ready"
    pid = processes.start(UNIT, 1, ("sh", "-c", f"trap '' TERM; touch {ready}; while :; do sleep 60; done"))
    until(ready.exists, "it has begun")
    children = psutil.Process(pid).children(recursive=True)
    processes.stop(RunningUnit(UNIT, 1), 0)
    assert processes.tend(999) == []
    assert not processes.is_free(UNIT)
    assert ended(processes, 1_000) == []
    assert processes.is_free(UNIT)
    until(
        lambda: not any(child.is_running() and child.status() != "zombie" for child in children),
        "its children have ended",
    )


def test_a_process_whose_keeper_was_killed_has_no_code(tmp_path: Path) -> None:
    processes = HostProcesses(tmp_path, 1_000)
    pid = processes.start(UNIT, 1, ("sleep", "600"))
    os.kill(pid, signal.SIGKILL)
    [found] = ended(processes)
    assert found.code is None


def test_another_process_under_an_old_number_is_not_adopted(tmp_path: Path) -> None:
    first = HostProcesses(tmp_path, 1_000)
    first.start(UNIT, 1, ("sleep", "600"))
    [file] = tmp_path.glob("*/process.json")
    text = file.read_text()
    identity = identity_of(first.pids()[UNIT])
    assert identity in text
    file.write_text(text.replace(identity, "another boot/7"))
    second = HostProcesses(tmp_path, 1_000)
    assert [one.unit for one in second.tend(0)] == [UNIT]
    assert first.tend(0) == [], "nor is it ended"
    first.stop(RunningUnit(UNIT, 1), 0)
    ended(first, 1_000)


@pytest.mark.parametrize("text", ["", '{"job": "job", "ta'])
def test_a_file_that_a_loss_of_power_has_cut_off_keeps_no_agent_from_starting(
    tmp_path: Path, text: str
) -> None:
    before = HostProcesses(tmp_path, 1_000)
    before.start(UNIT, 7, ["true"])
    ended(before)
    [file] = tmp_path.glob("*/process.json")
    file.write_text(text)
    after = HostProcesses(tmp_path, 1_000)
    assert after.running() == []
    assert not file.exists(), "the next start does not find it again"
    after.start(UNIT, 7, ["true"])
    assert [one.code for one in ended(after)] == [0]


def test_an_agent_without_its_folder_of_files_says_so_before_anything_else(tmp_path: Path) -> None:
    asked = ["--files", str(tmp_path / "missing"), "--bootstrap-servers", "127.0.0.1:1"]
    done = CliRunner().invoke(agent.agent, asked)
    assert isinstance(done.exception, ConfigurationError)
    assert f"--files {tmp_path / 'missing'}: there is no such folder on this host" in str(done.exception)
