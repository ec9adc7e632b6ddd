"""Several nodes on the command line: how many there are, what they share, and what is told of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from kcontrol import KafkaInput, KafkaOutput, Pipeline
from kcontrol.apps.supervisor.progress import Changes, JsonReporter, PlainReporter
from kcontrol.apps.supervisor.running import shared_master
from kcontrol.cli.source import check_number, sized
from kcontrol.core.model import (
    ControlRecord,
    Logged,
    LoggedStep,
    NodeJoin,
    NodePhase,
    NodeState,
    Replaying,
    StepBoundary,
    Token,
)
from kcontrol.errors import ConfigurationError
from kcontrol.views.nodes_now import NodeNow, nodes_now
from kcontrol.views.pipeline_projection import PipelineProjection
from tests.unit.core.made import LIMITS, SPEC, boundary


def pipeline(nodes: int = 1) -> Pipeline:
    made = Pipeline("p", nodes=nodes, inputs=[KafkaInput("a", topic="a")], outputs=[KafkaOutput("b", topic="b")])

    @made.query
    def b(a: Any) -> Any:
        return a

    return made


def test_the_command_line_wins_over_the_file() -> None:
    file = pipeline(nodes=1)
    assert sized(file, None) is file
    wider = sized(file, 3)
    assert wider.nodes == 3
    assert wider.queries == file.queries
    assert file.nodes == 1


def test_a_size_that_no_pipeline_can_have() -> None:
    with pytest.raises(ConfigurationError, match=r"nodes = 100000"):
        pipeline().with_nodes(100_000)


def test_a_node_that_there_is_not() -> None:
    check_number(pipeline(3), 2)
    with pytest.raises(ConfigurationError, match=r"--node 3: pipeline 'p' has the nodes 0 to 2"):
        check_number(pipeline(3), 3)


@pytest.mark.parametrize(
    ("nodes", "processors", "master"), [(1, 8, None), (2, 8, "local[4]"), (3, 8, "local[2]"), (4, 2, "local[1]")]
)
def test_nodes_on_one_machine_share_it_out(nodes: int, processors: int, master: str | None) -> None:
    assert shared_master(nodes, processors) == master


def projection(records: Sequence[ControlRecord], steps: Sequence[StepBoundary]) -> PipelineProjection:
    """Of logs that hold what a test says."""
    found = PipelineProjection("p")
    found.see_control(Logged(offset, 0, record) for offset, record in enumerate((SPEC, *records)))
    found.see_steps(LoggedStep(offset, step) for offset, step in enumerate(steps))
    return found


def state(phase: NodePhase, step: int, error: str = "") -> NodeState:
    return NodeState("p", 0, 1, phase, step, None, -1, -1, -1, (), error, 1, 0)


JOIN = NodeJoin("p", 0, "u", "host", 2)
TOKEN = Token(0, 1, 7, 0, (1,))
STEPS = [boundary(1), boundary(2, (6, 1), (7, 2))]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([], NodeNow(0, "missing", 0, "")),
        ([JOIN, state(NodePhase.CLOSED, 0, "no")], NodeNow(0, "closed", 0, "no")),
        ([JOIN, state(NodePhase.RUNNING, 2)], NodeNow(0, "running", 2, "")),
        ([JOIN, state(NodePhase.RUNNING, 1)], NodeNow(0, "replaying", 1, "")),
        ([JOIN, state(NodePhase.OPEN, 1), Replaying("p", 0, 1, 2)], NodeNow(0, "open", 1, "")),
        ([JOIN, replace(state(NodePhase.RUNNING, 1), attempt=TOKEN)], NodeNow(0, "running", 1, "")),
        ([JOIN, state(NodePhase.RUNNING, 2), Replaying("p", 0, 1, 2)], NodeNow(0, "running", 2, "")),
    ],
)
def test_what_a_node_does(records: list[ControlRecord], expected: NodeNow) -> None:
    assert nodes_now(projection(records, STEPS), LIMITS.heartbeat_timeout_ms) == [expected]


def test_a_node_that_said_nothing_for_long_is_silent() -> None:
    found = projection([JOIN, state(NodePhase.RUNNING, 2)], STEPS)
    assert nodes_now(found, LIMITS.heartbeat_timeout_ms + 1) == [NodeNow(0, "silent", 2, "")]


def test_a_step_more_is_no_change() -> None:
    changes = Changes()
    assert changes.of([NodeNow(0, "open", 1, ""), NodeNow(1, "missing", 0, "")]) != []
    assert changes.of([NodeNow(0, "open", 2, ""), NodeNow(1, "missing", 0, "")]) == []
    assert changes.of([NodeNow(0, "open", 3, ""), NodeNow(1, "closed", 0, "")]) == [NodeNow(1, "closed", 0, "")]
    assert changes.of([NodeNow(0, "open", 3, ""), NodeNow(1, "closed", 0, "x")]) == [NodeNow(1, "closed", 0, "x")]
    assert changes.of([NodeNow(0, "running", 3, ""), NodeNow(1, "closed", 0, "x")]) == []
    assert changes.of([NodeNow(0, "replaying", 1, ""), NodeNow(1, "running", 4, "")]) == [
        NodeNow(0, "replaying", 1, ""),
        NodeNow(1, "open", 4, ""),
    ]
    assert changes.of([NodeNow(0, "running", 4, ""), NodeNow(1, "open", 5, "")]) == [NodeNow(0, "open", 4, "")]


def test_every_node_is_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    now = [NodeNow(0, "replaying", 7, ""), NodeNow(1, "closed", 0, "no disk")]
    PlainReporter().nodes(now)
    assert capsys.readouterr().out == "node 0: replaying step 8\nnode 1: closed, step 0: no disk\n"
    JsonReporter().nodes(now[1:])
    assert '"event": "node"' in (out := capsys.readouterr().out)
    assert '"doing": "closed"' in out
