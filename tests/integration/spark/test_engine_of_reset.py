"""After a reset a step's number is further ahead than Spark's batch: state, pins and checkpoints go by the step."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.integration.spark.conftest import RunScenario
from tests.integration.spark.stepper import Stepper
from tests.integration.spark.test_once_with_state import KEYED, WIDE, counts
from tests.replay.test_restore import lose_the_disk, workdir_of
from tests.support.restoring import restored_from


async def make(stepper: Stepper, step: int, value: int) -> None:
    """A step with one record of each of two keys."""
    stepper.produce("numbers", [(f"k{key}".encode(), str(value).encode()) for key in range(2)])
    work = await stepper.begin(step, stepper.division(stepper.ends()))
    result = await stepper.engine.run_step(work, None)
    await stepper.commit(work, result)
    await stepper.engine.finish_step(step)


def totals(stepper: Stepper) -> dict[int, list[tuple[int, int]]]:
    """By step, how many records and their sum, of each key."""
    found: dict[int, list[tuple[int, int]]] = {}
    for row in stepper.committed("out"):
        told: dict[str, Any] = json.loads(row.value or b"{}")
        found.setdefault(row.step, []).append((told["n"], told["total"]))
    return found


@pytest.mark.parametrize("plan_once", [True, False], ids=["planned once", "planned each step"])
def test_an_engine_goes_on_with_a_number_further_ahead(
    run_scenario: RunScenario, tmp_path: Path, plan_once: bool
) -> None:
    """Steps 3 and 4 are void, 5 is the reset to 2: what they read is read again in step 6."""
    location = (tmp_path / "durable").as_uri()

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        await make(stepper, 1, 1)
        await make(stepper, 2, 10)
        back = Counter(stepper.positions)
        await make(stepper, 3, 100)
        await make(stepper, 4, 1_000)
        await stepper.new_incarnation()
        await stepper.engine.open(2, create=False)
        stepper.positions = dict(back)
        await make(stepper, 6, 10_000)
        await make(stepper, 7, 100_000)
        await stepper.engine.pin(7)
        manifest = (await stepper.engine.save(7, 1, location)).manifest
        await stepper.new_incarnation()
        assert stepper.engine.openable() == (7, 6, 2, 1)
        await stepper.engine.open(6, create=False)
        await stepper.replay(7)
        await lose_the_disk(stepper)
        assert restored_from(workdir_of(stepper), location, manifest) == 7
        assert stepper.engine.openable() == (7,)
        await stepper.engine.open(7, create=False)
        await make(stepper, 8, 1_000_000)
        found = totals(stepper)
        assert {step: Counter(rows) for step, rows in found.items()} == {
            1: {(1, 1): 2},
            2: {(2, 11): 2},
            3: {(3, 111): 2},
            4: {(4, 1_111): 2},
            6: {(5, 11_111): 2},
            7: {(6, 111_111): 2},
            8: {(7, 1_111_111): 2},
        }
        assert not stepper.failures

    run_scenario([counts], scenario, {"numbers": (2, {})}, {"out": (3, KEYED)}, WIDE, plan_once=plan_once)
