"""Several nodes on the command line: how many there are, what they share, and what is told of each."""

from __future__ import annotations

import json
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
from kcontrol.views.node_facts import NodeFacts, nodes_of
from kcontrol.views.pipeline_projection import PipelineProjection
from tests.unit.core.made import LIMITS, SPEC, boundary


def pipeline(nodes: int = 1) -> Pipeline:
    made = Pipeline(
        "p", nodes=nodes, inputs=[KafkaInput("a", topic="a")], outputs=[KafkaOutput("b", topic="b")]
    )

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
    ("nodes", "processors", "master"),
    [(1, 8, None), (2, 8, "local[4]"), (3, 8, "local[2]"), (4, 2, "local[1]")],
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


def told(node: int, doing: str, step: int, error: str = "") -> NodeFacts:
    """What is known of a node that does something."""
    runs = step + 1 if doing in ("running", "replaying") else None
    return NodeFacts(
        **{
            "node": node,
            "incarnation": 1,
            "host": "host",
            "process_id": 2,
            "listens": "",
            "planning": "",
            "made_otherwise": "",
        },
        **{
            "phase": "running" if runs else doing,
            "step": step,
            "running": runs,
            "silent_ms": 0,
            "error": error,
        },
        replaying=runs if doing == "replaying" else None,
    )


@pytest.mark.parametrize(
    ("records", "doing", "text"),
    [
        ([], "absent", "absent, step 0"),
        ([JOIN, state(NodePhase.CLOSED, 0, "no")], "closed", "closed, step 0"),
        ([JOIN, state(NodePhase.RUNNING, 2)], "running", "running step 3"),
        ([JOIN, state(NodePhase.RUNNING, 1)], "replaying", "replaying step 2"),
        ([JOIN, state(NodePhase.OPEN, 1), Replaying("p", 0, 1, 2)], "open", "open, step 1"),
        ([JOIN, replace(state(NodePhase.RUNNING, 1), attempt=TOKEN)], "running", "running step 2"),
        ([JOIN, state(NodePhase.RUNNING, 2), Replaying("p", 0, 1, 2)], "running", "running step 3"),
    ],
)
def test_what_a_node_does(records: list[ControlRecord], doing: str, text: str) -> None:
    (found,) = nodes_of(projection(records, STEPS), LIMITS.heartbeat_timeout_ms)
    assert (found.doing, found.doing_text) == (doing, text)


def test_a_node_that_said_nothing_for_long_is_silent_and_runs_nothing_that_is_known_of() -> None:
    found = projection([JOIN, state(NodePhase.RUNNING, 1)], STEPS)
    assert nodes_of(found, LIMITS.heartbeat_timeout_ms)[0].replaying == 2
    (silent,) = nodes_of(found, LIMITS.heartbeat_timeout_ms + 1)
    assert (silent.doing, silent.doing_text) == ("silent", "silent, step 1")
    assert (silent.phase, silent.running, silent.replaying) == ("silent", None, None)


def test_a_step_more_is_no_change() -> None:
    def of(*nodes: NodeFacts) -> list[tuple[int, str, int, str]]:
        return [(each.node, each.doing, each.step, each.error) for each in changes.of(nodes)]

    changes = Changes()
    assert of(told(0, "open", 1), told(1, "absent", 0)) != []
    assert of(told(0, "open", 2), told(1, "absent", 0)) == []
    assert of(told(0, "open", 3), told(1, "closed", 0)) == [(1, "closed", 0, "")]
    assert of(told(0, "open", 3), told(1, "closed", 0, "x")) == [(1, "closed", 0, "x")]
    assert of(told(0, "running", 3), told(1, "closed", 0, "x")) == []
    assert of(told(0, "replaying", 1), told(1, "running", 4)) == [(0, "replaying", 1, ""), (1, "open", 4, "")]
    assert of(told(0, "running", 4), told(1, "open", 5)) == [(0, "open", 4, "")]


def test_every_node_is_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    now = [told(0, "replaying", 7), told(1, "closed", 0, "no disk")]
    PlainReporter().nodes(now)
    assert capsys.readouterr().out == "node 0: replaying step 8\nnode 1: closed, step 0: no disk\n"
    JsonReporter().nodes(now[1:])
    assert json.loads(capsys.readouterr().out) == {
        **{"event": "node", "text": "node 1: closed, step 0: no disk"},
        **{"node": 1, "doing": "closed", "step": 0, "error": "no disk"},
    }
