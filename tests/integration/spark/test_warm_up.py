"""A process that stands by runs steps of a pipeline with state to be warm, on the endpoint and session that the node's engine
has afterwards."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kcontrol.adapters.spark.engine.engine import SparkEngine
from kcontrol.apps import warm_up
from kcontrol.apps.recorded import RecordedSteps
from kcontrol.apps.warming import Warming, Warmth
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import Checkpoint, StepBoundary, StepResult, StepWork
from kcontrol.replay.verify import Beginning
from tests.integration.spark.conftest import RunScenario
from tests.integration.spark.stepper import Stepper
from tests.integration.spark.test_engine_of_reset import make, totals
from tests.integration.spark.test_once_with_state import KEYED, WIDE, counts
from tests.unit.core.made import checkpoint

MANY = 60
"""More than are run again to be compared."""


async def two_steps(stepper: Stepper, location: str) -> Checkpoint:
    """With a checkpoint of the first."""
    await stepper.engine.open(0, create=True)
    await make(stepper, 1, 1)
    await stepper.engine.pin(1)
    manifest = (await stepper.engine.save(1, 1, location)).manifest
    await make(stepper, 2, 10)
    await stepper.engine.close()
    saved = checkpoint(1, 1)
    part = replace(saved.parts[0], manifest=manifest)
    return replace(saved, pipeline=stepper.pipeline.name, location=location, parts=(part,))


def log_of(
    stepper: Stepper, begin: Beginning, boundaries: Sequence[StepBoundary], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the log has of the steps since."""

    async def recorded(*_: Any) -> RecordedSteps:
        last = boundaries[-1].step
        return RecordedSteps(stepper.spec, boundaries, last, last, begin, StepsView(stepper.pipeline.name))

    monkeypatch.setattr(warm_up, "recorded_steps", recorded)


def many(stepper: Stepper) -> list[StepBoundary]:
    return [replace(stepper.log[2], step=step) for step in range(2, 2 + MANY)]


def warms_up(stepper: Stepper, own: Path) -> Any:
    settings = stepper.spark, stepper.bound, stepper.host, stepper.settings
    return partial(warm_up.warm_up, *settings, 0, own)


async def goes_on(stepper: Stepper) -> None:
    """By the real state, whatever was run on a copy."""
    written = totals(stepper)
    assert {step: Counter(rows) for step, rows in written.items()} == {1: {(1, 1): 2}, 2: {(2, 11): 2}}
    await stepper.engine.open(2, create=False)
    await make(stepper, 3, 100)
    assert Counter(totals(stepper)[3]) == {(3, 111): 2}
    assert not stepper.failures


@pytest.mark.parametrize("saved", [True, False], ids=["with a checkpoint", "without"])
def test_it_is_warm_behind_any_number_of_steps_and_compares_few(
    run_scenario: RunScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saved: bool
) -> None:
    ran: list[int] = []
    run_step = SparkEngine.run_step

    async def watched(engine: SparkEngine, work: StepWork, expected: StepBoundary | None) -> StepResult:
        result = await run_step(engine, work, expected)
        ran.append(work.step)
        assert sum(each.records for each in result.outputs) == 2, "it is the real input"
        return result

    async def scenario(stepper: Stepper) -> None:
        made = await two_steps(stepper, (tmp_path / "durable").as_uri())
        begin = Beginning(1, made) if saved else Beginning(0)
        warms = warms_up(stepper, tmp_path / "own")
        with monkeypatch.context() as patched:
            patched.setattr(SparkEngine, "run_step", watched)
            log_of(stepper, begin, many(stepper), patched)
            found = await warms(1 + MANY, Warmth.COLD)
            assert found.warmth is Warmth.WARM, found.said
            assert ran == [2 if saved else 1]
            log_of(stepper, begin, [stepper.log[step] for step in range(begin.step + 1, 3)], patched)
            found = await warms(2, Warmth.WARM)
            assert (found.warmth, found.said) == (Warmth.COMPARED, "warm: step 2 was run again and agrees")
        await stepper.new_incarnation()
        await goes_on(stepper)

    run_scenario([counts], scenario, {"numbers": (2, {})}, {"out": (3, KEYED)}, WIDE)


def test_it_can_be_left_while_it_runs_and_the_node_opens_when_it_is_over(
    run_scenario: RunScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_step, said = SparkEngine.run_step, list[str]()

    async def scenario(stepper: Stepper) -> None:
        made = await two_steps(stepper, (tmp_path / "durable").as_uri())
        runs = asyncio.Event()

        async def watched(engine: SparkEngine, work: StepWork, expected: StepBoundary | None) -> StepResult:
            runs.set()
            return await run_step(engine, work, expected)

        with monkeypatch.context() as patched:
            patched.setattr(SparkEngine, "run_step", watched)
            log_of(stepper, Beginning(1, made), many(stepper), patched)
            warming = Warming(warms_up(stepper, tmp_path / "own"), said.append)
            warming.look(1 + MANY, 1)
            await runs.wait()
            warming.give_up()
        await stepper.new_incarnation()
        stepper.engine.opens_after = warming.over
        await goes_on(stepper)
        assert (warming.warmth, said) == (Warmth.COLD, [])

    run_scenario([counts], scenario, {"numbers": (2, {})}, {"out": (3, KEYED)}, WIDE)
