"""Of the plans of a query with state only some are kept, those that were run last, and Spark gives back what it held for the
others."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kcontrol.adapters.spark.engine import state_plans
from kcontrol.adapters.spark.engine.ahead import WAIT_SETTING
from kcontrol.adapters.spark.internals import KeptPlan, jvm
from kcontrol.definition.parts import TaskLayout
from tests.integration.spark.conftest import RunScenario
from tests.integration.spark.stepper import Stepper
from tests.integration.spark.test_once_with_state import KEYED, of_both
from tests.integration.spark.test_small_steps import configured
from tests.support.processes import until

INPUTS = ("numbers", "others")
RECORDS = 4
"""Of a task."""
LAYOUT = TaskLayout(max_tasks=2, records_per_task=RECORDS, shuffle_partitions=2)
MOST = 2
Tasks = tuple[int, int]
"""Of the two inputs."""

STEPS: Sequence[tuple[Tasks, list[Tasks]]] = [
    ((1, 1), [(1, 1)]),
    ((1, 2), [(1, 1), (1, 2)]),
    ((2, 1), [(1, 2), (2, 1)]),
    ((2, 2), [(2, 1), (2, 2)]),
    ((1, 1), [(2, 2), (1, 1)]),
    ((2, 2), [(1, 1), (2, 2)]),
    ((1, 2), [(2, 2), (1, 2)]),
]
"""With what is kept after each."""


def kept(stepper: Stepper) -> dict[Tasks, KeptPlan]:
    [query] = stepper.engine._queries._once.values()
    assert isinstance(query._plans, state_plans.StatePlans)
    found: Any = {shape.partitions: plan for shape, plan in query._plans._plans.items()}
    return found


def test_plans_of_many_shapes_are_not_kept_for_ever(
    run_scenario: RunScenario, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_plans, "MOST_PLANS", MOST)
    monkeypatch.setattr(state_plans, "DROPPED", 1)
    held: list[Any] = []
    expected: Counter[str] = Counter()

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        for tasks, left in STEPS:
            for name, count in zip(INPUTS, tasks, strict=True):
                keys = [f"k{number % 3}" for number in range(RECORDS * count)]
                expected.update(keys)
                stepper.produce(name, [(key.encode(), b"") for key in keys])
            await stepper.step()
            assert list(kept(stepper)) == left
            held.append(jvm(spark).java.lang.ref.WeakReference(kept(stepper)[tasks]._frame.rdd))
        told = [json.loads(row.value or b"") for row in stepper.committed("out")]
        assert {row["name"]: row["n"] for row in told} == expected
        # Those of the first three plans, and of the first one made anew, which was dropped again.
        dropped = [*held[:3], held[4]]
        until(lambda: all_collected(spark, dropped), "Java has collected the plans that are not kept")
        assert held[-1].get() is not None

    given = {name: (1, {}) for name in INPUTS}
    with configured(spark, **{WAIT_SETTING: "0"}):
        run_scenario([of_both], scenario, given, {"out": (2, KEYED)}, LAYOUT)


def all_collected(spark: SparkSession, held: Sequence[Any]) -> bool:
    jvm(spark).java.lang.System.gc()
    return all(each.get() is None for each in held)
