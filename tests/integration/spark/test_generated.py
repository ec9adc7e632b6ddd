"""Inputs without a producer, through a node's engine: every row once, the same when a step is run again."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import functions as F

from kcontrol import ClockInput, GeneratorInput
from kcontrol.adapters.generated.rows import read_rows
from kcontrol.core.model import FailureKind, StepBoundary
from kcontrol.errors import StepFailedError
from tests.integration.spark.conftest import RunScenario
from tests.integration.spark.stepper import START_MS, Stepper

SECOND = 1_700_000_000
"""START_MS, in ticks of the clock below."""


def both(load: Any, ticks: Any) -> Any:
    rows = load.select(F.lit("row").alias("what"), "value", F.unix_micros("timestamp").alias("us"), "draw")
    told = ticks.select(
        F.lit("tick").alias("what"),
        "value",
        F.unix_micros("timestamp").alias("us"),
        F.lit(None).cast("double").alias("draw"),
    )
    return {"out": rows.unionByName(told)}


def total(load: Any) -> Any:
    import kcontrol

    return {
        "out": kcontrol.output(load.agg(F.sum("value").alias("sum"), F.count("*").alias("n")), mode="update")
    }


GENERATED = [
    GeneratorInput("load", rows_per_second=100, partitions=2, seed=7, randoms=["draw"]),
    ClockInput("ticks", every="1 s"),
]


@pytest.mark.parametrize("plan_once", [True, False])
def test_each_row_is_in_one_step_with_what_follows_from_its_number(
    run_scenario: RunScenario, plan_once: bool
) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        clock = next(item for item in stepper.spec.inputs if item.name == "ticks")
        assert clock.start_offsets == (SECOND + 1,)
        first = await stepper.step({("load", 0): 3, ("load", 1): 2})
        second = await stepper.step({("load", 0): 5, ("load", 1): 5, ("ticks", 0): SECOND + 3})
        assert [item.records for item in first.inputs] == [3, 2, 0]
        assert [item.records for item in second.inputs] == [2, 3, 2]
        seen = [json.loads(row.value or b"") for row in stepper.committed("out")]
        rows = sorted((row["value"], row["us"], row["draw"]) for row in seen if row["what"] == "row")
        assert [(number, us) for number, us, _ in rows] == [
            (n, START_MS * 1000 + n * 10_000) for n in range(10)
        ]
        assert len({draw for _, _, draw in rows}) == 10
        assert all(0 <= draw < 1 for _, _, draw in rows)
        ticks = sorted((row["value"], row["us"]) for row in seen if row["what"] == "tick")
        assert ticks == [(SECOND + n, (SECOND + n) * 1_000_000) for n in (1, 2)]
        await _runs_again(stepper, second)

    run_scenario(
        [both], scenario, {}, {"out": (2, {"value_format": "json"})}, plan_once=plan_once, generated=GENERATED
    )


async def _runs_again(stepper: Stepper, boundary: StepBoundary) -> None:
    """With equal digests; and a log that says other rows is found out."""
    before = len(stepper.committed("out"))
    await stepper.new_incarnation()
    await stepper.engine.open(1, create=not stepper.engine.openable())
    again = await stepper.replay(2)
    assert again.inputs == boundary.inputs
    assert len(stepper.committed("out")) == before
    await stepper.new_incarnation()
    await stepper.engine.open(1, create=not stepper.engine.openable())
    wrong = tuple(replace(item, topic=item.topic.replace("seed=7", "seed=8")) for item in boundary.inputs)
    stepper.log[2] = replace(boundary, inputs=wrong)
    with pytest.raises(StepFailedError) as failed:
        await stepper.replay(2)
    assert failed.value.kind is FailureKind.DIGEST


def test_digests_are_of_the_rows_whatever_columns_a_query_looks_at(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        for to in (10, 25):
            boundary = await stepper.step({("load", 0): to, ("load", 1): to})
            assert sum(item.records for item in boundary.inputs) == 2 * (10 if to == 10 else 15)
            [piece] = [item for item in boundary.inputs if item.partition == 1]
            read = read_rows("load", piece.topic, piece.topic_id, [(1, piece.from_, piece.to)])
            for _ in read:
                pass
            assert read.digest.hex == piece.digest
        last = json.loads(stepper.committed("out")[-1].value or b"")
        assert last == {"sum": sum(range(50)), "n": 50}

    run_scenario([total], scenario, {}, {"out": (1, {"value_format": "json"})}, generated=GENERATED[:1])
