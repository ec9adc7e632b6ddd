"""Plans that are made for a layout before it is in force: its steps run them, and nothing is planned after the switch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kcontrol.adapters.spark.engine import state_plans
from kcontrol.adapters.spark.engine.plans_ahead import PlansAhead
from kcontrol.adapters.spark.internals import KeptPlan
from kcontrol.apps.warm_up import plan_once
from kcontrol.core.model import Checkpoint
from tests.integration.spark.conftest import RunScenario
from tests.integration.spark.stepper import Stepper
from tests.integration.spark.test_engine_of_assignment import (
    ALL_MINE,
    SHARED,
    by_assignment,
    saved,
    shards_run,
)
from tests.integration.spark.test_exchange_stages import (
    FORMATTED,
    ME,
    produced,
    run_two,
    stepped,
    totals,
    written,
)

USERS = [f"u{number}" for number in range(20)]


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[KeptPlan]:
    """Every plan that is made."""
    made: list[KeptPlan] = []

    class Watched(KeptPlan):
        def __init__(self, *where: Any, **more: Any) -> None:
            super().__init__(*where, **more)
            made.append(self)

    monkeypatch.setattr(state_plans, "KeptPlan", Watched)
    return made


async def begun(stepper: Stepper, steps: int = 2) -> None:
    """With all shards on this node."""
    by_assignment(stepper, 1, ALL_MINE)
    await stepper.new_incarnation()
    await stepper.engine.open(0, create=True)
    for step in range(1, steps + 1):
        await step_with(stepper, step)


async def step_with(stepper: Stepper, amount: int) -> None:
    produced(stepper, *[(user, amount) for user in USERS])
    await stepped(stepper, [("other", amount)])


def plan(stepper: Stepper, owners: Sequence[int], checkpoint: Checkpoint, tmp_path: Path) -> PlansAhead:
    """While the queries of the old layout run."""
    spec = replace(stepper.spec, assignment=2, owners=tuple(owners))
    where = ME, spec, checkpoint, stepper.log[checkpoint.step], tmp_path / "own"
    return plan_once(stepper.spark, stepper.bound, stepper.host, *where)


async def opened(stepper: Stepper, ahead: PlansAhead, checkpoint: Checkpoint) -> None:
    """By the new layout, in which this node has half of the shards."""
    by_assignment(stepper, 2, SHARED)
    await stepper.new_incarnation()
    stepper.engine.begin_with(ahead)
    await stepper.engine.open(checkpoint.step, create=False, checkpoint=checkpoint)


def test_the_first_step_of_a_new_layout_runs_plans_that_were_made_before_the_old_one_ended(
    run_scenario: RunScenario, tmp_path: Path, planned: list[KeptPlan]
) -> None:
    async def scenario(stepper: Stepper) -> None:
        await begun(stepper, 1)
        copied = await saved(stepper, 1, (tmp_path / "copied").as_uri())
        for state in (tmp_path / "copied").rglob("*.changelog"):
            state.unlink()  # Plans need none.
        ahead = plan(stepper, SHARED, copied, tmp_path)
        assert ahead.names == {"users.send", "out"}
        before = len(planned)
        await step_with(stepper, 2)
        assert len(planned) == before, "steps of the old layout go on with their own"
        last = await saved(stepper, 2, (tmp_path / "last").as_uri())
        await opened(stepper, ahead, last)
        await step_with(stepper, 3)
        assert len(planned) == before, "nothing was planned after the switch"
        assert shards_run(stepper, ME, stepper.incarnation) == {0, 2}
        assert [(row["n"], row["total"]) for row in written(stepper, "other")] == [(1, 1), (2, 3), (3, 6)]
        await step_with(stepper, 4)
        assert len(planned) == before
        await stepper.new_incarnation()
        await stepper.engine.open(2, create=False)
        for step in (3, 4):
            await stepper.replay(step)
        assert len(planned) > before, "who opens again plans again"

    run_two(run_scenario, totals, scenario, **FORMATTED)


def test_plans_of_another_division_are_not_run(
    run_scenario: RunScenario, tmp_path: Path, planned: list[KeptPlan]
) -> None:
    async def scenario(stepper: Stepper) -> None:
        await begun(stepper)
        checkpoint = await saved(stepper, 2, (tmp_path / "durable").as_uri())
        ahead = plan(stepper, (0, 1, 1, 1), checkpoint, tmp_path)
        before = len(planned)
        await opened(stepper, ahead, checkpoint)
        await step_with(stepper, 3)
        assert len(planned) == before + 1, "what reads is planned anew, what sends is the same"
        assert shards_run(stepper, ME, stepper.incarnation) == {0, 2}
        assert [(row["n"], row["total"]) for row in written(stepper, "other")] == [(1, 1), (2, 3), (3, 6)]

    run_two(run_scenario, totals, scenario, **FORMATTED)
