"""What becomes of a node that has ended with a code: started again, given up here or everywhere, or left alone."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from kcontrol.adapters.clock import SystemClock
from kcontrol.apps.agent.disk import AgentDisk
from kcontrol.apps.agent.processes import HostProcesses
from kcontrol.apps.agent.session import AgentSession
from kcontrol.apps.agent.session_options import SessionOptions
from kcontrol.core.cluster.agent import AgentMachine
from kcontrol.core.cluster.agent_limits import AgentLimits
from kcontrol.core.cluster.duties import Identity
from kcontrol.core.cluster.entries import ClusterEntry, Drain, KillJob, Prepare, SubmitJob, TaskFailed
from kcontrol.core.cluster.model import ClusterJob, TaskSpec, Unit
from kcontrol.core.model import AgentPlacement
from kcontrol.errors import (
    AccessError,
    ConfigurationError,
    JavaError,
    KcontrolError,
    LeftOutError,
    NotFoundError,
    RegistryError,
    ReplacedError,
    SparkLostError,
    TopicError,
)
from tests.support.processes import until

LOG: list[ClusterEntry] = [Prepare("a", "a-1"), SubmitJob("job", "r", 0, "p", (TaskSpec("nodes", 1, 1),))]
AGAIN = Prepare("a", "a-2", previous="a-1")


NEVER = 1_000_000
"""What is read is not old, however long the machine takes from a read to what is done by it."""


class Ending:
    """The command of a node that says why, and ends with a code."""

    def __init__(self, code: int, gate: Path | None = None) -> None:
        self.code, self.gate, self.started = code, gate, 0

    def __call__(self, job: ClusterJob, unit: Unit, placement: AgentPlacement) -> Sequence[str]:
        self.started += 1
        waits = "" if self.gate is None else f"read line < {self.gate}; "
        return ("sh", "-c", f"{waits}echo kcontrol: so it is; exit {self.code}")

    def keep(self, packages: Collection[str]) -> None:
        pass


AT_ONCE = SessionOptions(restart_ms=0, spare_after_ms=0)


class Life:
    """One process of an agent on a host, without Kafka: what is in the log it is given."""

    def __init__(
        self,
        folder: Path,
        command: Ending,
        log: Sequence[ClusterEntry] = LOG,
        levels: tuple[int, int] = (1, 1),
        options: SessionOptions = AT_ONCE,
    ) -> None:
        self.clock, self.disk = SystemClock(), AgentDisk(folder)
        incarnation, earlier = ("a-1", ()) if log is LOG else ("a-2", ("a-1",))
        me = Identity("a", incarnation, 1, levels=levels, earlier=earlier)
        limits = AgentLimits(late_beats=NEVER, unfit_ms=NEVER)
        self.machine = AgentMachine(me, limits, self.clock.monotonic_ms(), left_out=self.disk.left_out())
        self.processes = HostProcesses(self.disk.units, 1_000)
        self.told: list[str] = []
        nobody = cast(Any, None)
        self.session = AgentSession(
            *(self.machine, self.disk, nobody, nobody, nobody, self.processes, *[nobody] * 5),
            *(command, self.told.append, options, limits),
        )
        self.log = log

    def read(self) -> None:
        for offset in range(self.machine.next_offset, len(self.log)):
            self.machine.read(offset, self.log[offset])

    def work(self) -> None:
        if self.machine.next_offset == len(self.log):
            self.machine.read_to_end(self.clock.monotonic_ms())
        asyncio.run(self.session._work())

    def sees(self, ends: int) -> bool:
        self.work()
        return sum(" end with code " in what for what in self.told) >= ends

    def says(self) -> ClusterEntry | None:
        self.work()
        return self.machine.entry(self.clock.monotonic_ms())


@pytest.mark.parametrize(
    ("error", "lives", "failed"),
    [
        (LeftOutError, 1, None),
        (ConfigurationError, 1, "anywhere"),
        (NotFoundError, 1, "anywhere"),
        (AccessError, 1, "anywhere"),
        (RegistryError, 1, "anywhere"),
        (JavaError, 1, "here"),
        (SparkLostError, 3, "here"),
        (TopicError, 3, "here"),
        (ReplacedError, 4, None),
    ],
)
@pytest.mark.parametrize("short_life_s", [0.0, 600.0])
def test_a_code_means_the_same_as_for_whoever_runs_a_pipeline_by_hand(
    tmp_path: Path, error: type[KcontrolError], lives: int, failed: str | None, short_life_s: float
) -> None:
    """However long it has lived; but what may go better is only counted when it was short."""
    command = Ending(error.exit_code)
    life = Life(tmp_path, command)
    life.session._options = SessionOptions(restart_ms=0, short_life_s=short_life_s)
    counts = error not in (SparkLostError, TopicError) or short_life_s > 0
    life.read()
    until(lambda: life.sees(lives), f"it has ended {lives} times")
    said = life.says()
    if failed is None or not counts:
        assert said is None
    else:
        why = f"ended with code {error.exit_code}: so it is"
        assert said == TaskFailed("job", "nodes", 0, 1, "a", "a-1", why, failed == "anywhere")
    for _ in range(3):
        life.work()
    assert (command.started > lives) == (error is ReplacedError or not counts), "nobody is to start it again"
    life.disk.close()


def test_what_was_left_out_stays_so_when_its_agent_is_started_again(tmp_path: Path) -> None:
    command = Ending(LeftOutError.exit_code)
    first = Life(tmp_path, command)
    first.read()
    until(lambda: first.sees(1), "it has ended")
    first.disk.close()
    second = Life(tmp_path, command, [*LOG, AGAIN])
    second.read()
    for _ in range(3):
        assert second.says() is None
    assert command.started == 1
    second.disk.close()


def test_what_was_left_out_while_no_agent_was_there(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    command = Ending(LeftOutError.exit_code, gate)
    first = Life(tmp_path / "agent", command)
    first.read()
    first.work()
    first.work()
    first.disk.close()
    second = Life(tmp_path / "agent", command, [*LOG, AGAIN])
    gate.write_text("go on\n")
    until(lambda: second.sees(1), "it is heard of before the log is read")
    second.read()
    for _ in range(3):
        assert second.says() is None
    assert command.started == 1
    second.disk.close()


@pytest.mark.parametrize(
    "log",
    [
        LOG[:1],
        [Prepare("a", "a-1", slots=0), *LOG[1:]],
        [*LOG, KillJob("job", "r2", 1)],
        [*LOG, Drain("a", True)],
        [LOG[0], SubmitJob("job", "r", 0, "p", (TaskSpec("nodes", 1, 1, ("packages",)),))],
    ],
    ids=["nothing was submitted", "no slot", "killed", "drained", "packages are not run here"],
)
def test_nothing_runs_that_the_log_has_not_placed_here(tmp_path: Path, log: list[ClusterEntry]) -> None:
    command = Ending(0)
    life = Life(tmp_path, command, log)
    life.machine.me = replace(life.machine.me, incarnation="a-1", earlier=())
    life.read()
    for _ in range(3):
        life.work()
    assert command.started == 0
    life.disk.close()
