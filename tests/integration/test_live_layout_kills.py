"""SIGKILL of each process of a change of the layout that is made while the pipeline runs, at each of its stages: it ends in
the old layout or in the new one, asked for again it is made, and nothing is lost or there twice.

The points are those of `tests.support.crashing`; a process that waits for a place has none, and is killed when it says so.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kcontrol.core.model import StepBoundary
from kcontrol.settings.cluster import ClusterSettings
from tests.integration.recovery import until_dead
from tests.integration.test_exchange_nodes import PATIENCE_S
from tests.support.exchanged import FILE, Exchanged
from tests.support.following import until_step
from tests.support.processes import KcontrolProcess, run_kcontrol

pytestmark = [pytest.mark.timeout(3_600), pytest.mark.heavy]

_EACH, _EVERY_S = 6, 0.3
_WAITS, _MAKES_READY = "waits for a place", "makes ready to be a node"


@dataclass
class _Processes:
    """Of one pipeline that begins on one node."""

    pipeline: Exchanged
    directory: Path
    stack: ExitStack
    lives: int = 0

    @property
    def env(self) -> dict[str, str]:
        return {**self.pipeline.env, "XDG_DATA_HOME": str(self.directory / "home")}

    def node(self, node: int, *how: str, crash_at: str = "") -> KcontrolProcess:
        return self._start(
            crash_at, "node", str(FILE), "--node", str(node), *how, "--no-archive", "--master", "local[1]"
        )

    def coordinator(self, crash_at: str = "") -> KcontrolProcess:
        return self._start(crash_at, "coordinator", "--instance", f"{self.pipeline.name}-it")

    def _start(self, crash_at: str, *arguments: str) -> KcontrolProcess:
        self.lives += 1
        log = self.directory / f"{self.lives}-{arguments[0]}.log"
        module = "tests.support.crashing" if crash_at else "kcontrol.cli"
        env = {**self.env, "CRASH_AT": crash_at}
        return self.stack.enter_context(
            KcontrolProcess(*arguments, log=log, env=env, module=module, cwd=self.directory)
        )

    def until_made_by(self, nodes: int, after: int = 0) -> None:
        """after: so many nodes made one before."""
        seen = {0}

        def made(step: StepBoundary) -> bool:
            seen.add(step.nodes)
            return step.nodes == nodes and after in seen

        until_step(
            *(self.pipeline.settings, self.pipeline.name, made),
            *(f"a step is made by {nodes} nodes", PATIENCE_S),
            lambda: run_kcontrol("status", self.pipeline.name, env=self.env).stdout,
        )

    def ask(self, nodes: int) -> str:
        """Ask for a layout, once; '' when there is such a one, or why not."""
        done = run_kcontrol(
            *("layout", self.pipeline.name, "--nodes", str(nodes), "--timeout", "120 s"),
            env=self.env,
            cwd=self.directory,
            timeout_s=PATIENCE_S,
        )
        there = done.returncode == 0 or f"has nodes = {nodes} already" in done.stderr
        return "" if there else done.stderr

    def ask_until_made(self, nodes: int) -> None:
        for _ in range(10):
            why = self.ask(nodes)
            if not why:
                return
        raise AssertionError(why)

    @contextmanager
    def asking(self, nodes: int) -> Iterator[None]:
        """Ask for a layout, and do meanwhile what is done in here; what becomes of it is nobody's concern."""
        asker = threading.Thread(target=self.ask, args=(nodes,), daemon=True)
        asker.start()
        try:
            yield
        finally:
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

    def check(self, nodes: int) -> None:
        """All that was sent is committed, and is what one node gives."""
        self.pipeline.until_done("all is committed", PATIENCE_S)
        made = {step["nodes"] for step in self.pipeline.check()}
        assert made == {1, 2} | {nodes}


@pytest.fixture
def processes(settings: ClusterSettings, tmp_path: Path) -> Iterator[_Processes]:
    with ExitStack() as stack:
        yield _Processes(Exchanged(settings, ("spent",), 1, shards=4), tmp_path, stack)


@pytest.mark.parametrize(
    ("victim", "point"),
    [
        ("staying node", "ControlSeen.LayoutRequest:1"),
        ("staying node", "PinStep:2"),
        ("staying node", "PartSaved:2"),
        ("staying node", "Exit:1"),
        ("coordinator", "ControlSeen.LayoutReady:2"),
        ("coordinator", "CommitCheckpoint:2"),
        ("coordinator", "+CommitCheckpoint:2"),
        ("new node", _MAKES_READY),
        ("new node", "Joined:1"),
        ("new node", "EngineOpened:1"),
    ],
)
def test_a_process_dies_while_a_node_is_added(processes: _Processes, victim: str, point: str) -> None:
    at = {victim: point} if point != _MAKES_READY else {}
    coordinator = processes.coordinator(at.get("coordinator", ""))
    staying = processes.node(0, crash_at=at.get("staying node", ""))
    processes.pipeline.produce(_EACH)
    processes.until_made_by(1)
    new = processes.node(1, "--new", crash_at=at.get("new node", ""))
    new.says(_WAITS, PATIENCE_S)
    with processes.under_load():
        with processes.asking(2):
            if point == _MAKES_READY:
                new.says(_MAKES_READY, PATIENCE_S)
                new.kill()
            doomed = {"staying node": staying, "coordinator": coordinator, "new node": new}[victim]
            until_dead(doomed, point, PATIENCE_S)
            doomed.sweep()
            match victim:
                case "staying node":
                    processes.node(0)
                case "coordinator":
                    processes.coordinator()
                case _:
                    processes.node(1, "--new")
        processes.ask_until_made(2)
        processes.until_made_by(2)
    processes.check(2)


@pytest.mark.parametrize("point", ["PinStep:1", "PinStep:2", "Exit:1"])
def test_a_node_dies_while_it_is_left_out(processes: _Processes, point: str) -> None:
    processes.coordinator()
    processes.node(0)
    processes.pipeline.produce(_EACH)
    processes.until_made_by(1)
    leaving = processes.node(1, "--new", crash_at=point)
    leaving.says(_WAITS, PATIENCE_S)
    with processes.under_load():
        processes.ask_until_made(2)
        processes.until_made_by(2)
        with processes.asking(1):
            until_dead(leaving, point, PATIENCE_S)
            leaving.sweep()
            processes.node(1, "--new")
        processes.ask_until_made(1)
        processes.until_made_by(1, after=2)
    processes.check(1)
