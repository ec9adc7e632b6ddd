"""A definition that allows fewer tasks than an earlier one runs the earlier one's steps as they were cut."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from kcontrol.adapters.spark.query.once import ONCE
from kcontrol.definition.parts import TaskLayout
from tests.integration.spark.conftest import RunScenario
from tests.integration.spark.stepper import Stepper
from tests.replay import queries

JSON = {"value_format": "json"}
KEYED = {"value_format": "json", "key": "name"}
WIDE = TaskLayout(max_tasks=3, records_per_task=4, shuffle_partitions=2)
NARROW = TaskLayout(max_tasks=1, records_per_task=4, shuffle_partitions=2)

STAYING = (queries.stateless, ["events"], {"out": (2, JSON)})
SPREAD = (queries.stateless, ["events"], {"out": (3, KEYED)})
TWO = (queries.both, ["events", "others"], {"out": (2, JSON)})
CASES = [
    pytest.param(*STAYING, True, id="rows stay in their tasks, planned once"),
    pytest.param(*STAYING, False, marks=pytest.mark.heavy, id="rows stay in their tasks, planned each step"),
    pytest.param(*SPREAD, True, marks=pytest.mark.heavy, id="keyed, planned once"),
    pytest.param(*SPREAD, False, id="keyed, planned each step"),
    pytest.param(*TWO, True, id="two inputs, planned once"),
    pytest.param(*TWO, False, marks=pytest.mark.heavy, id="two inputs, planned each step"),
]
"""Each of a kind runs in one of the two ways always."""


@pytest.mark.parametrize(("query", "inputs", "outputs", "once"), CASES)
def test_steps_of_more_tasks_than_there_may_be_now_are_run_again(
    run_scenario: RunScenario,
    query: Callable[..., Any],
    inputs: list[str],
    outputs: dict[str, Any],
    once: bool,
) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        await step(stepper, inputs, 1)
        await step(stepper, ["events"], 20)
        await step(stepper, ["events"], 6)
        await step(stepper, inputs, 20)
        assert [tasks(stepper, number) for number in (1, 2, 3, 4)] == [1, 3, 2, 3]
        await stepper.redefine(layout=NARROW)
        assert (stepper.bound.planning == ONCE) is once
        await stepper.engine.open(0, create=True)
        for number in (1, 2, 3, 4):
            await stepper.replay(number)
        await step(stepper, inputs, 20)
        assert tasks(stepper, 5) == 1
        await stepper.engine.open(0, create=True)
        for number in (1, 2, 3, 4, 5):
            await stepper.replay(number)
        assert stepper.failures == []

    given = {name: (3, {}) for name in inputs}
    run_scenario([query], scenario, given, outputs, layout=WIDE, plan_once=once)


async def step(stepper: Stepper, inputs: list[str], records: int) -> None:
    """So many records of each of these inputs, and nothing of others."""
    for name in inputs:
        for partition in (0, 1, 2):
            rows = [{"name": f"n{each}", "at": each, "n": each} for each in range(partition, records, 3)]
            stepper.produce(name, [(None, json.dumps(row).encode()) for row in rows], partition)
    await stepper.step()


def tasks(stepper: Stepper, number: int) -> int:
    return len({split.task for split in stepper.log[number].layout.splits})
