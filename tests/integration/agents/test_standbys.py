"""A process that stands by is the node as soon as the host of the node is dead, and another one stands by then."""

from __future__ import annotations

import json
from contextlib import ExitStack

import pytest

from tests.integration.agents.test_placed_pipeline import STEP_S, PlacedPipeline, placed
from tests.support.processes import until

__all__ = ["placed"]
AGENTS = ("x", "y", "z")


def _places(pipeline: PlacedPipeline) -> dict[str, str | None]:
    [job] = pipeline.ask("cluster", "jobs")
    found = job["places"]
    assert isinstance(found, dict)
    return found


def _pid(pipeline: PlacedPipeline, agent: str | None, task: str) -> int:
    """Of the one process that an agent runs for this task."""
    assert agent is not None
    found = [
        json.loads(file.read_text()) for file in (pipeline.folder / agent / "units").glob("*/process.json")
    ]
    [one] = [each for each in found if each["task"] == task]
    return int(one["pid"])


def _is_ready(pipeline: PlacedPipeline, agent: str | None) -> bool:
    logs = (pipeline.folder / str(agent) / "units").glob("*-standby-0-*/log")
    return any("for whichever node of the job" in log.read_text(errors="replace") for log in logs)


@pytest.mark.heavy
@pytest.mark.timeout(900)
def test_who_stands_by_is_the_node_when_its_host_dies(placed: PlacedPipeline) -> None:
    with ExitStack() as stack:
        agents = {
            name: stack.enter_context(placed.agent(name, "--files", "files", "--slots", "2"))
            for name in AGENTS
        }
        until(lambda: placed.members() == set(AGENTS), "all have joined", 90, placed.logs)
        placed.ask("place", "copies.py", "--job", placed.name, "--standby", "1")
        placed.produce()
        until(lambda: placed.steps() == 1, "a step is committed", STEP_S, placed.logs)
        before = _places(placed)
        until(lambda: _is_ready(placed, before["standby/0"]), "it stands by", STEP_S, placed.logs)
        stood = _pid(placed, before["standby/0"], "standby")

        gone = str(before["nodes/0"])
        placed.kill_host(gone, agents[gone])
        placed.produce()
        until(lambda: placed.steps() == 2, "the next step is committed", STEP_S, placed.logs)
        now = _places(placed)
        assert now["nodes/0"] == before["standby/0"]
        assert _pid(placed, now["nodes/0"], "nodes") == stood, "it is the process that stood by"
        assert now["standby/0"] not in (gone, now["nodes/0"], None)
        [killed] = placed.ask("kill", placed.name)
        assert f"job {placed.name}: active -> killed" in killed["changes"]  # type: ignore[operator]
