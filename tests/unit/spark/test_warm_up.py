"""What a process runs to be warm: committed steps again, to be compared, or else the input of the last one alone; and that as a
step of another layout."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from errno import ENOSPC
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from kcontrol.adapters.spark.engine.replay_check import Replays
from kcontrol.apps import warm_up
from kcontrol.apps.recorded import RecordedSteps
from kcontrol.apps.warm_up import step_by
from kcontrol.apps.warming import Warmth, WarmUp
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import Checkpoint, PipelineSpec, Reset, StepBoundary, StepWork
from kcontrol.core.step.differences import Difference
from kcontrol.core.step.layout_change import assigned
from kcontrol.errors import RetriableError
from kcontrol.replay.verify import Beginning
from tests.unit.core.made import SPEC, boundary, checkpoint
from tests.unit.core.test_environments import ARM, HERE
from tests.unit.core.test_layout_change import given
from tests.unit.core.test_live_layout import WIDE


def test_a_node_more_warms_up_with_a_step_that_two_nodes_of_two_versions_have_made() -> None:
    last = replace(boundary(7, nodes=2), environments=(HERE, ARM))
    spec = assigned(replace(WIDE, nodes=3), given(nodes=3, owners=(0, 1, 2, 0)))
    step = step_by(spec, last, 6)
    assert (step.step, step.nodes, step.inputs) == (6, 3, last.inputs)
    assert Replays(spec, 2, HERE, compares=False).check(step).made_otherwise == ""


class Engine:
    """What is asked of an engine: each call, with the step."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []
        self.fails: Exception | None = None

    async def open(self, step: int, create: bool, checkpoint: Checkpoint | None = None) -> None:
        assert create == (checkpoint is None)
        self.calls.append(("open", step))

    async def run_step(self, work: StepWork, expected: StepBoundary | None) -> None:
        if self.fails is not None:
            raise self.fails
        self.calls.append(("run", work.step))

    async def finish_step(self, step: int, _watermarks: object) -> None:
        self.calls.append(("finish", step))

    async def close(self) -> None:
        self.calls.append(("close", 0))

    def shut_down(self) -> None:
        """It has no thread."""


@dataclass
class Scene:
    """A process that warms up by a log with these steps. compared: the last step of each comparison."""

    spec: PipelineSpec = SPEC
    begin: Beginning = field(default_factory=lambda: Beginning(0))
    boundaries: Sequence[StepBoundary] = ()
    away: Exception | None = None
    engine: Engine = field(default_factory=Engine)
    compared: list[int] = field(default_factory=list)

    async def recorded(
        self, _cluster: object, _pipeline: str, first: int, last: int, _own: Path
    ) -> RecordedSteps:
        if self.away is not None:
            raise self.away
        return RecordedSteps(self.spec, self.boundaries, first, last, self.begin, StepsView("p"))

    async def compare(
        self, _engine: object, _node: int, recorded: RecordedSteps, *_: object
    ) -> list[Difference]:
        self.compared.append(recorded.last)
        return []

    def warm_up(self, warmth: Warmth = Warmth.COLD, node: int = 0) -> WarmUp:
        fakes = {
            "recorded_steps": self.recorded,
            "run_node": self.compare,
            "scratch_engine": lambda *_, **__: self.engine,
            "environment_of": lambda _spark: HERE,
        }
        unused: Any = SimpleNamespace(pipeline="p")
        with ExitStack() as stack:
            for name, fake in fakes.items():
                stack.enter_context(patch.object(warm_up, name, fake))
            step = self.boundaries[-1].step if self.boundaries else 1
            where = unused, unused, unused, unused, node, Path("own"), step
            return asyncio.run(warm_up.warm_up(*where, warmth))


def steps(number: int, after: int = 0) -> list[StepBoundary]:
    """One after the other."""
    at = ((5 + step, step) for step in range(after, after + number))
    return [boundary(after + 1 + index, (a, b), (a + 1, b + 1)) for index, (a, b) in enumerate(at)]


def test_few_steps_are_run_again_and_compared() -> None:
    scene = Scene(boundaries=steps(50))
    assert scene.warm_up() == WarmUp(Warmth.COMPARED, "warm: step 50 was run again and agrees")
    assert (scene.compared, scene.engine.calls) == ([50], [])


def test_behind_too_many_steps_the_input_of_the_last_one_is_run_alone() -> None:
    """As in a pipeline with state that makes fifteen steps a second, and a checkpoint a minute."""
    scene = Scene(boundaries=steps(60))
    found = scene.warm_up()
    assert found.warmth is Warmth.WARM
    assert found.said.startswith(
        "warm: step 60 was run alone, and not compared with the log: 60 steps of 120 records"
    )
    assert scene.engine.calls == [("open", 0), ("run", 1), ("finish", 1), ("close", 0)]
    assert scene.warm_up(Warmth.WARM) == WarmUp(Warmth.WARM, "")
    assert len(scene.engine.calls) == 4, "it need not be warm twice"


def test_it_is_run_on_the_state_of_the_nearest_checkpoint_unless_that_is_too_much() -> None:
    saved = checkpoint(100, 1)
    scene = Scene(boundaries=steps(60, 100), begin=Beginning(100, saved))
    assert scene.warm_up().warmth is Warmth.WARM
    assert scene.engine.calls[:2] == [("open", 100), ("run", 101)]
    large = replace(saved, parts=(replace(saved.parts[0], size_bytes=warm_up.MAX_BYTES + 1),))
    scene = Scene(boundaries=steps(1, 100), begin=Beginning(100, large))
    assert "its checkpoint holds more than" in scene.warm_up().said
    assert scene.engine.calls[:2] == [("open", 0), ("run", 1)]


def test_a_reset_is_passed_over_and_what_it_took_back_is_not_run() -> None:
    reset = replace(boundary(4), inputs=(), reset=Reset(2, "", "", "", ()))
    scene = Scene(boundaries=[*steps(3), reset])
    assert scene.warm_up().said.startswith(
        "warm: step 2 was run alone, and not compared with the log: the last step is a reset"
    )
    assert Scene(boundaries=[reset]).warm_up() == WarmUp(Warmth.COLD, "not warm: the last step is a reset")


def test_steps_of_another_number_of_nodes_can_not_be_compared() -> None:
    scene = Scene(boundaries=[boundary(1, nodes=2)])
    assert scene.warm_up().warmth is Warmth.WARM
    assert scene.warm_up(node=1).said == "not warm: the last step was made by another number of nodes"


def test_one_step_that_is_too_large_is_not_run() -> None:
    [large] = steps(1)
    large = replace(large, inputs=(replace(large.inputs[0], records=warm_up.MAX_RECORDS + 1),))
    scene = Scene(boundaries=[large])
    assert scene.warm_up().said.startswith("not warm: 1 steps of 2,000,001 records")
    assert scene.engine.calls == []


@pytest.mark.parametrize(
    "error", [OSError(ENOSPC, "No space left on device"), RetriableError("Kafka is away")]
)
def test_what_can_not_be_run_is_no_error(error: Exception) -> None:
    assert Scene(away=error).warm_up() == WarmUp(Warmth.COLD, f"not warm: {error}")
    scene = Scene(boundaries=steps(60))
    scene.engine.fails = error
    assert scene.warm_up() == WarmUp(Warmth.COLD, f"not warm: {error}")
    assert scene.engine.calls[-1] == ("close", 0)


def opened_once(tmp_path: Path, more: int) -> list[tuple[str, int]]:
    """What is asked of the engine of a process that is to be a node."""
    engine, unused = Engine(), None
    with (
        patch.object(warm_up, "scratch_engine", lambda *_, **__: engine),
        patch.object(warm_up, "environment_of", lambda _spark: HERE),
    ):
        where = unused, unused, unused, 0, SPEC, None, boundary(7), tmp_path / "own", tmp_path / "p" / "ahead"
        call: Any = partial(warm_up.open_once, *where)
        asyncio.run(call(more=more))
    return engine.calls


def test_a_process_with_nothing_else_to_do_rehearses_more_steps(tmp_path: Path) -> None:
    def ran(steps: int) -> list[tuple[str, int]]:
        each = [call for step in range(1, steps + 1) for call in (("run", step), ("finish", step))]
        return [("open", 0), *each, ("close", 0)]

    assert opened_once(tmp_path, 0) == ran(1)
    assert opened_once(tmp_path, 3) == ran(4)


def test_it_begins_no_more_of_them_once_they_have_taken_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_up, "MORE_S", -1.0)
    assert opened_once(tmp_path, 3)[-3:] == [("run", 2), ("finish", 2), ("close", 0)]
