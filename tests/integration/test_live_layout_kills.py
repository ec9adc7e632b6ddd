"""SIGKILL of each process of a change of the layout that is made while the pipeline runs, at each of its stages: it ends in
the old layout or in the new one, asked for again it is made, and nothing is lost or there twice.

A pipeline goes from one node to two and back, and in both changes a process dies. The points are those of
`tests.support.crashing`, counted from when the change is asked for; a process that waits for a place has none, and is killed
when it says so.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kcontrol.core.model import StepBoundary
from kcontrol.errors import LeftOutError
from kcontrol.settings.cluster import ClusterSettings
from tests.integration.recovery import until_dead
from tests.support.exchanged import FILE, Exchanged
from tests.support.following import until_step
from tests.support.processes import KcontrolProcess, run_kcontrol, until

pytestmark = [pytest.mark.timeout(3_600), pytest.mark.heavy]

PATIENCE_S = 240.0
"""For anything, of which there are three JVMs at once here; nothing is asserted about time."""
_EACH, _EVERY_S = 6, 0.5
_WAITS, _MAKES_READY = "waits for a place", "makes ready to be a node"
COORDINATOR, STAYS, COMES = "coordinator", "node-0", "node-1"
"""Who may die. COMES is the node that is added, and left out again."""
Death = tuple[str, str]
"""Who, and where."""

DEATHS: dict[str, tuple[Death, Death]] = {
    "asked for": ((STAYS, "ControlSeen.LayoutRequest:1"), (COMES, "PinStep:1")),
    "makes ready": ((COMES, _MAKES_READY), (STAYS, "ControlSeen.LayoutRequest:1")),
    "pinned": ((STAYS, "PinStep:1"), (STAYS, "PinStep:2")),
    "copied": ((COORDINATOR, "ControlSeen.LayoutReady.copied:2"), (COMES, "PartSaved:2")),
    "last step pinned": ((STAYS, "PinStep:2"), (COMES, "Exit:1")),
    "last step saved": ((STAYS, "PartSaved:2"), (COMES, "PinStep:2")),
    "recorded": (
        (COORDINATOR, "CommitCheckpoint.Assignment:1"),
        (COORDINATOR, "+CommitCheckpoint.Assignment:1"),
    ),
    "just recorded": (
        (COORDINATOR, "+CommitCheckpoint.Assignment:1"),
        (COORDINATOR, "CommitCheckpoint.Assignment:1"),
    ),
    "read": ((STAYS, "StepSeen.Assignment:1"), (COMES, "StepSeen.Assignment:1")),
    "ended": ((STAYS, "Exit:1"), (STAYS, "Joined:1")),
    "joined": ((COMES, "Joined:1"), (STAYS, "Exit:1")),
    "opened": ((COMES, "EngineOpened:1"), (COORDINATOR, "ControlSeen.LayoutReady.copied:1")),
}
"""By how far a change is that adds the node: a death in it, and one in the change after it, which leaves the node out."""


@dataclass
class _Processes:
    """Of one pipeline that begins on one node."""

    pipeline: Exchanged
    directory: Path
    stack: ExitStack
    living: dict[str, KcontrolProcess] = field(default_factory=dict)
    lives: int = 0
    seen: int = 0
    """The last step that was waited for."""

    @property
    def env(self) -> dict[str, str]:
        return {**self.pipeline.env, "XDG_DATA_HOME": str(self.directory / "home")}

    def start(self, who: str) -> KcontrolProcess:
        """One of them, in place of one that has died."""
        self.lives += 1
        how = {COORDINATOR: (), STAYS: ("--node", "0"), COMES: ("--node", "1", "--new")}[who]
        what = ("coordinator", "--instance", f"{self.pipeline.name}-it")
        if who != COORDINATOR:
            what = ("node", str(FILE), *how, "--no-archive", "--master", "local[1]")
        self.living[who] = self.stack.enter_context(
            KcontrolProcess(
                *what,
                log=self.directory / f"{self.lives}-{who}.log",
                env={**self.env, "CRASH_FILE": str(self._crash_file(who))},
                module="tests.support.crashing",
                cwd=self.directory,
            )
        )
        return self.living[who]

    def _crash_file(self, who: str) -> Path:
        return self.directory / f"{who}.crash"

    def waits(self) -> None:
        """Have a process wait to be the second node."""
        before = self.living.get(COMES)
        if before is not None:
            process = before.process
            assert process is not None
            until(
                lambda: process.poll() is not None or _WAITS in before.text(),
                "node 1 is left out, or waits to be added",
                PATIENCE_S,
                before.text,
            )
            if process.poll() is None:
                return
            assert process.returncode == LeftOutError.exit_code, before.text()
            before.sweep()
        self.start(COMES).says(_WAITS, PATIENCE_S)

    def change(self, nodes: int, death: Death) -> None:
        """Ask for so many nodes; somebody dies, comes back, and it is asked for until it is made."""
        who, point = death
        doomed = self.living[who]
        if point != _MAKES_READY:
            aimed = self._crash_file(who).with_suffix(".new")
            aimed.write_text(point)
            aimed.rename(self._crash_file(who))
        with self._asking(nodes):
            if point == _MAKES_READY:
                doomed.says(_MAKES_READY, PATIENCE_S)
                doomed.kill()
            until_dead(doomed, f"{point} of {who}, for {nodes} nodes", PATIENCE_S)
            doomed.sweep()
            self.start(who)
        self._ask_until_made(nodes)
        self.until_made_by(nodes)
        at = time.strftime("%H:%M:%S")
        print(f"{at} {point} of {who}, for {nodes} nodes: step {self.seen}")  # noqa: T201 - shown when a test fails

    def until_made_by(self, nodes: int) -> None:
        """A step after the last one that was waited for."""

        def made(step: StepBoundary) -> bool:
            if step.step <= self.seen or step.nodes != nodes:
                return False
            self.seen = step.step
            return True

        until_step(
            *(self.pipeline.settings, self.pipeline.name, made),
            *(f"a step is made by {nodes} nodes", PATIENCE_S),
            lambda: run_kcontrol("status", self.pipeline.name, env=self.env).stdout,
        )

    def _ask(self, nodes: int) -> str:
        """Once; '' when there is such a layout, or why not."""
        try:
            done = run_kcontrol(
                *("layout", self.pipeline.name, "--nodes", str(nodes), "--timeout", "120 s"),
                env=self.env,
                cwd=self.directory,
                timeout_s=PATIENCE_S,
            )
        except subprocess.TimeoutExpired as error:
            return str(error)
        there = done.returncode == 0 or f"has nodes = {nodes} already" in done.stderr
        return "" if there else done.stderr

    def _ask_until_made(self, nodes: int) -> None:
        why = ""
        for _ in range(10):
            why = self._ask(nodes)
            if not why:
                return
            print(why)  # noqa: T201 - shown when a test fails
        raise AssertionError(why)

    @contextmanager
    def _asking(self, nodes: int) -> Iterator[None]:
        """Ask for a layout, and do meanwhile what is done in here; what becomes of it is nobody's concern."""
        asker = threading.Thread(target=self._ask, args=(nodes,), daemon=True)
        asker.start()
        yield
        asker.join()

    @contextmanager
    def under_load(self) -> Iterator[None]:
        over = threading.Event()

        def produce() -> None:
            while not over.wait(_EVERY_S):
                self.pipeline.produce(_EACH)

        producer = threading.Thread(target=produce, daemon=True)
        producer.start()
        try:
            yield
        finally:
            over.set()
            producer.join()


@pytest.fixture
def processes(settings: ClusterSettings, tmp_path: Path) -> Iterator[_Processes]:
    with ExitStack() as stack:
        yield _Processes(Exchanged(settings, ("spent",), 1, shards=4), tmp_path, stack)


@pytest.mark.parametrize(("when_added", "when_left_out"), DEATHS.values(), ids=DEATHS)
def test_a_process_dies_at_each_stage_of_a_change(
    processes: _Processes, when_added: Death, when_left_out: Death
) -> None:
    pipeline = processes.pipeline
    processes.start(COORDINATOR)
    processes.start(STAYS)
    pipeline.produce(_EACH)
    processes.until_made_by(1)
    processes.waits()
    with processes.under_load():
        processes.change(2, when_added)
        processes.change(1, when_left_out)
    pipeline.until_done("all is committed", PATIENCE_S)
    assert {step["nodes"] for step in pipeline.check()} == {1, 2}
