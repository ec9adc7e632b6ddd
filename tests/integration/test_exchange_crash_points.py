"""SIGKILL of a node, or of the coordinator, in each stage of a step whose rows meet across two nodes.

One pipeline lives through all of them; the other node is never touched. The points are those of `tests.support.crashing`.
The one that tells is in `test_reset_exchange`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kcontrol.settings.cluster import ClusterSettings
from tests.integration.recovery import until_dead
from tests.support.exchanged import FILE, Exchanged
from tests.support.processes import KcontrolProcess

pytestmark = [pytest.mark.timeout(3_600), pytest.mark.heavy]

PATIENCE_S = 600.0
"""For anything, of which there are three JVMs at once here; nothing is asserted about time."""
RECORDS = 90
"""More than a step holds."""
TELLING_POINT = "RunStage:3"
"""One step is in the log, and the state is replayed from what was sent in it; of the next, rows were sent and not read."""
NODE_POINTS = (
    "RunStep:1",
    "AttemptWritten:1",
    "+Publish.Written:1",
    "RunStage:1",
    "AttemptWritten:2",
    "Publish.Written:2",
    "RunStage:2",
    "AttemptWritten:3",
    "Publish.Written:3",
    "FinishStep:1",
    "StepFinished:1",
)
COORDINATOR_POINTS = (
    "+Publish.Command:1",
    "ControlSeen.Written:1",
    "ControlSeen.Written:2",
    "ControlSeen.Written:3",
    "ControlSeen.Written:5",
    "CommitStep:1",
    "StepCommitted:1",
)


@dataclass
class Nodes:
    """The processes of one pipeline on two nodes. env: what its file is told besides."""

    pipeline: Exchanged
    directory: Path
    stack: ExitStack
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def work(self) -> Path:
        """Where `kcontrol run --data-dir` with the directory `data` has its nodes work."""
        return self.directory / "data" / "nodes"

    def node(self, node: int, life: str = "", crash_at: str = "") -> KcontrolProcess:
        where = [
            "--node",
            str(node),
            "--work-dir",
            str(self.work),
            "--master",
            "local[1]",
        ]
        return self._start(f"node-{node}{life}", crash_at, "node", str(FILE), *where)

    def coordinator(self, life: str = "", crash_at: str = "") -> KcontrolProcess:
        return self._start(
            f"coordinator{life}", crash_at, "coordinator", "--instance", f"{self.pipeline.name}-it"
        )

    def node_dies_at(self, points: Sequence[str]) -> None:
        """One life of node 0 after the other, each killed at its point, and one that takes up what was left."""
        for number, point in enumerate(points):
            self.pipeline.produce(RECORDS)
            doomed = self.node(0, f"-{number}", crash_at=point)
            until_dead(doomed, point, PATIENCE_S)
            doomed.sweep()
        self.pipeline.produce(RECORDS)
        self.node(0, "-last")
        self.until_done("the last life of the node has taken up what was left")

    def until_done(self, what: str) -> None:
        self.pipeline.until_done(what, PATIENCE_S)

    def _start(self, name: str, crash_at: str, *arguments: str) -> KcontrolProcess:
        module = "tests.support.crashing" if crash_at else "kcontrol.cli"
        env = {
            **self.pipeline.env,
            **self.env,
            "CRASH_AT": crash_at,
            "XDG_DATA_HOME": str(self.directory / "xdg"),
        }
        process = KcontrolProcess(*arguments, log=self.directory / f"{name}.log", env=env, module=module)
        return self.stack.enter_context(process)


@pytest.fixture
def query() -> str:
    return "spent"


@pytest.fixture
def nodes(settings: ClusterSettings, tmp_path: Path, query: str) -> Iterator[Nodes]:
    with ExitStack() as stack:
        yield Nodes(Exchanged(settings, (query,)), tmp_path, stack)


@pytest.mark.parametrize("query", ["spent", "texts"])
def test_a_node_dies_at_each_stage_and_comes_back_alone(nodes: Nodes) -> None:
    nodes.coordinator()
    nodes.node(1)
    nodes.node_dies_at(NODE_POINTS)
    nodes.pipeline.check()


def test_the_coordinator_dies_between_stages(nodes: Nodes) -> None:
    for node in (0, 1):
        nodes.node(node).says("joins", PATIENCE_S)
    for number, point in enumerate(COORDINATOR_POINTS):
        nodes.pipeline.produce(RECORDS)
        until_dead(nodes.coordinator(f"-{number}", crash_at=point), point, PATIENCE_S)
    nodes.coordinator("-last")
    nodes.pipeline.produce(RECORDS)
    nodes.until_done("the last coordinator has taken up what was left")
    nodes.pipeline.check()
