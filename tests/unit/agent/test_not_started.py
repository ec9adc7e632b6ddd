"""What can't be started on a host is the failure of that unit, and of nothing else that the agent does."""

from __future__ import annotations

import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from kcontrol.adapters.kafka.logs.cluster_packages import SignedPackage
from kcontrol.apps.agent.nodes import FILE, NodeCommands
from kcontrol.apps.agent.packages import HostPackages
from kcontrol.apps.agent.session_options import SessionOptions
from kcontrol.core.cluster.duties import Identity
from kcontrol.core.cluster.entries import ClusterEntry, Prepare, RaiseLevel, SubmitJob, TaskFailed
from kcontrol.core.cluster.model import COORDINATOR, COORDINATOR_LEVEL, ClusterJob, TaskSpec, Unit
from kcontrol.core.model import AgentPlacement
from kcontrol.errors import ConfigurationError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.packages import package_of
from tests.support.patience import HANG_S
from tests.support.processes import until
from tests.unit.agent.test_endings import AT_ONCE, LOG, NEVER, Ending, Life

OTHER: Unit = ("other", "nodes", 0)
TWO_JOBS: list[ClusterEntry] = [
    Prepare("a", "a-2", slots=2),
    LOG[1],
    SubmitJob("other", "r2", 1, "p", (TaskSpec("nodes", 1, 1),)),
]


class TooLong(Ending):
    """The command of a node that no host could start, beside that of another job, which sleeps."""

    def __call__(self, job: ClusterJob, unit: Unit, placement: AgentPlacement) -> Sequence[str]:
        self.started += 1
        return ("sleep", "600") if unit == OTHER else ("true", "x" * (1 << 20))


def says(life: Life) -> list[TaskFailed]:
    """What it says of failures, once it says anything of them."""
    found: list[TaskFailed] = []

    def look() -> bool:
        entry = life.says()
        found.extend([entry] if isinstance(entry, TaskFailed) else [])
        return bool(found)

    until(look, "it says so", HANG_S)
    return found


def killed(life: Life) -> None:
    for one in life.processes.running():
        life.processes.stop(one, 0)
    until(lambda: not life.processes.tend(NEVER) and not life.processes.running(), "all have ended", HANG_S)
    life.disk.close()


def test_a_unit_that_no_process_can_be_made_for_is_told_to_all_and_the_others_run(tmp_path: Path) -> None:
    life = Life(tmp_path, TooLong(0), TWO_JOBS)
    life.machine.me = Identity("a", "a-2", 2)
    life.read()
    [said] = says(life)
    assert (said.job, said.generation) == ("job", 1)
    assert "it can't be started here: [Errno 7] Argument list too long" in said.error
    assert any("can't start job/nodes/0" in one for one in life.told), "its operator hears of it"
    life.work()
    assert list(life.processes.pids()) == [OTHER]
    assert [folder.name for folder in life.disk.units.iterdir()] == ["other-nodes-0-2"], (
        "nothing is left of it"
    )
    killed(life)


def test_a_folder_in_the_way_is_the_failure_of_one_unit_too(tmp_path: Path) -> None:
    life = Life(tmp_path, Ending(0))
    (life.disk.units / "job-nodes-0-1").touch()
    life.read()
    [said] = says(life)
    assert "File exists" in said.error
    life.disk.close()


def test_a_coordinator_that_no_process_can_be_made_for_is_one_that_can_not_run_here(tmp_path: Path) -> None:
    levels = (1, COORDINATOR_LEVEL)
    options = SessionOptions(restart_ms=0, coordinator=("true", "x" * (1 << 20)))
    life = Life(tmp_path, Ending(0), [Prepare("a", "a-1", levels=levels)], levels, options)
    life.machine.me = Identity("a", "a-1", 1, levels=levels)
    life.read()
    until(lambda: isinstance(life.says(), RaiseLevel), "it says so", HANG_S)
    assert any("can't start /coordinator/0: [Errno 7]" in one for one in life.told)
    life.log = [*life.log, *(RaiseLevel(level) for level in range(2, COORDINATOR_LEVEL + 1))]
    life.read()
    life.machine.appended()
    [said] = says(life)
    assert (said.job, said.task, said.index) == COORDINATOR
    assert "Argument list too long" in said.error
    life.disk.close()


# --- packages -------------------------------------------------------------------------------------------------

CODE = package_of("p.py", {"a.csv": b"1", "p.py": b"#" * 8_192, "z.csv": b"2"})


@contextmanager
def full_after(size_bytes: int) -> Iterator[None]:
    """No file may become larger, as if there were no room left."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_package_that_does_not_fit_on_the_disk_leaves_nothing_there(tmp_path: Path) -> None:
    host = HostPackages(ClusterSettings(bootstrap_servers="nobody:1"), tmp_path / "packages")
    host._known[CODE.name] = SignedPackage(CODE)
    with full_after(4_096), pytest.raises(OSError, match="File too large"):
        host.entry(CODE)
    assert list((tmp_path / "packages").iterdir()) == []
    assert host.entry(CODE).read_bytes() == CODE.contents["p.py"], "and is unpacked once there is room"


# --- names ----------------------------------------------------------------------------------------------------


def submitted(job: str, task: str = "nodes", package: str = "p") -> list[ClusterEntry]:
    return [Prepare("a", "a-1"), SubmitJob(job, "r", 0, package, (TaskSpec(task, 1, 1),))]


@pytest.mark.parametrize(
    ("job", "task"),
    [("../../out", "nodes"), ("a/b", "nodes"), ("a\0b", "nodes"), ("a", "../../../out"), ("a", "b-nodes")],
)
def test_a_unit_whose_name_is_no_name_of_a_file_is_refused_with_the_reason(
    tmp_path: Path, job: str, task: str
) -> None:
    command = Ending(0)
    life = Life(tmp_path / "deep" / "agent", command, submitted(job, task))
    life.machine.me = Identity("a", "a-1", 1)
    before = sorted(tmp_path.rglob("*"))
    life.read()
    [said] = says(life)
    assert (said.job, said.task) == (job, task)
    assert "no process can be started for task" in said.error
    assert sorted(tmp_path.rglob("*")) == before, "nothing is written, there or elsewhere"
    life.disk.close()


def test_a_file_whose_name_none_can_have_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    commands = NodeCommands(tmp_path / "files", "b:1", tmp_path)
    life = Life(tmp_path / "agent", Ending(0), submitted("job", package=f"{FILE}a\0b"), options=AT_ONCE)
    life.machine.me = Identity("a", "a-1", 1)
    life.session._command = commands
    life.read()
    [said] = says(life)
    assert "is not a path below the folder" in said.error
    life.disk.close()


def test_what_has_such_names_has_no_file_for_its_number_either(tmp_path: Path) -> None:
    life = Life(tmp_path, Ending(0))
    with pytest.raises(ConfigurationError, match="can't be names of files"):
        life.processes.number_file(("../x", "standby", 0), 1)
    life.disk.close()
