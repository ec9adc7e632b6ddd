"""Spark has planned the next step before anybody has decided what it reads: the query waits, holds nothing, and ends
when it is not needed."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import kcontrol
from kcontrol.core.model import FailureKind, SavedPart
from kcontrol.definition.parts import TaskLayout
from kcontrol.errors import StepFailedError
from tests.integration.spark.conftest import RunScenario
from tests.integration.spark.stepper import Stepper
from tests.support.processes import until
from tests.unit.core.made import checkpoint

PATIENCE_S = 60.0
SPREAD = TaskLayout(max_tasks=2, records_per_task=4, shuffle_partitions=2)
INPUT: dict[str, tuple[int, dict[str, Any]]] = {"events": (2, {})}


def counted(events: DataFrame) -> Any:
    totals = events.groupBy(F.col("value").cast("string").alias("name")).agg(F.count("*").alias("c"))
    return {"out": kcontrol.output(totals, mode="update")}


def unique(events: DataFrame) -> Any:
    return {"other": events.select(F.col("value").cast("string").alias("name")).dropDuplicates(["name"])}


OUTPUT: dict[str, tuple[int, dict[str, Any]]] = {"out": (2, {"value_format": "json", "key": "name"})}
BOTH = {**OUTPUT, "other": (1, {"value_format": "json"})}


def planned(stepper: Stepper, step: int, query: str = "out") -> bool:
    """Whether Spark has written down that a batch ends at this step."""
    return any(path.name == str(step - 1) for path in stepper.work_root.glob(f"**/{query}/offsets/*"))


async def write(stepper: Stepper, *names: str) -> None:
    """A step of a record for each name, in both partitions if there are several."""
    for partition in (0, 1):
        stepper.produce("events", [(None, name.encode()) for name in names[partition::2]], partition)
    await stepper.step()


def counts(stepper: Stepper) -> list[tuple[int, str, int]]:
    """Step, name and count of every record that was committed."""
    told = [(row.step, json.loads(row.value or b"")) for row in stepper.committed("out")]
    return sorted((step, value["name"], value["c"]) for step, value in told)


def test_the_next_step_is_planned_while_nothing_is_known_of_it_and_nothing_runs(
    spark: SparkSession, run_scenario: RunScenario
) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        assert planned(stepper, 1)
        for step, name in enumerate("aba", 1):
            assert not spark.sparkContext.statusTracker().getActiveJobsIds()
            await write(stepper, name)
            until(
                lambda step=step: planned(stepper, step + 1) and planned(stepper, step + 1, "other"),
                f"the step after {step} is planned",
                PATIENCE_S,
            )
        assert counts(stepper) == [(1, "a", 1), (2, "b", 1), (3, "a", 2)]
        assert stepper.failures == []

    run_scenario([counted, unique], scenario, INPUT, BOTH)


def test_when_it_is_switched_off_a_step_is_planned_when_it_is_known(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.plan(once=True, ahead=False)
        await stepper.engine.open(0, create=True)
        await write(stepper, "a")
        await stepper.engine.pin(1)  # Spark has recorded it.
        assert not planned(stepper, 2)

    run_scenario([counted], scenario, INPUT, OUTPUT)


def test_a_query_that_waits_is_stopped_and_no_failure_is_told(
    spark: SparkSession, run_scenario: RunScenario
) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        await write(stepper, "a")
        queries = [query for query in spark.streams.active if stepper.pipeline.name in (query.name or "")]
        await stepper.new_incarnation()
        assert [query.exception() for query in queries] == [None]
        assert stepper.engine.openable() == (1,), "what was planned is not recorded"
        await stepper.engine.open(1, create=False)
        await write(stepper, "a")
        await stepper.engine.open(1, create=False)
        await stepper.replay(2)
        await write(stepper, "a")
        assert counts(stepper) == [(1, "a", 1), (2, "a", 2), (3, "a", 3)]
        assert stepper.failures == []

    run_scenario([counted], scenario, INPUT, OUTPUT)


def test_a_step_of_more_tasks_than_the_one_before_and_one_of_less(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        for number, size in enumerate((1, 9, 1, 9), 1):
            await write(stepper, *(f"n{each}" for each in range(size)))
            tasks = {split.task for split in stepper.log[number].layout.splits}
            assert len(tasks) == (1 if size == 1 else 2)
        assert [row for row in counts(stepper) if row[1] == "n0"] == [
            (step, "n0", step) for step in (1, 2, 3, 4)
        ]
        await stepper.engine.open(0, create=True)
        for step in (1, 2, 3, 4):
            await stepper.replay(step)

    run_scenario([counted], scenario, INPUT, OUTPUT, layout=SPREAD)


def test_a_step_that_an_older_definition_has_cut_into_more_tasks_is_run_after_another_opening(
    run_scenario: RunScenario,
) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        await write(stepper, *"abcdefghi")
        stepper.spec = replace(stepper.spec, layout=replace(stepper.spec.layout, max_tasks=1))
        await stepper.new_incarnation()
        await stepper.engine.open(0, create=True)
        with pytest.raises(StepFailedError, match="has 2 source tasks") as failed:
            await stepper.replay(1)
        assert failed.value.kind is FailureKind.LOST
        await stepper.engine.open(0, create=True)
        await stepper.replay(1)

    run_scenario([counted], scenario, INPUT, OUTPUT, layout=SPREAD)


def test_what_is_pinned_while_the_next_step_is_planned_is_the_step_itself(
    run_scenario: RunScenario, tmp_path: Path
) -> None:
    where = (tmp_path / "saved").as_uri()

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        await write(stepper, "a")
        await write(stepper, "a")
        await stepper.engine.pin(2)
        assert planned(stepper, 3)
        saved = await stepper.engine.save(2, 1, where)
        part = SavedPart(0, stepper.incarnation, saved.manifest, saved.files, saved.size_bytes)
        made = replace(checkpoint(2, nodes=1), location=where, parts=(part,))
        await write(stepper, "a")
        await stepper.engine.open(0, create=True)  # Forgets all that the directory held.
        assert await stepper.engine.restorable([made]) == (2,)
        await stepper.engine.open(2, create=False, checkpoint=made)
        await stepper.replay(3)
        await write(stepper, "a")
        assert [row[2] for row in counts(stepper)] == [1, 2, 3, 4]

    run_scenario([counted], scenario, INPUT, OUTPUT)


def test_an_attempt_that_is_cancelled_before_its_query_is_planned_or_while_it_runs(
    run_scenario: RunScenario,
) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        await write(stepper, "a")
        for wait_s in (0.0, 0.05, 0.2):
            stepper.produce("events", [(None, b"a")])
            work = await stepper.begin(len(stepper.log) + 1, stepper.division(stepper.ends()))
            running = asyncio.create_task(stepper.engine.run_step(work, None))
            await asyncio.wait([running], timeout=wait_s)
            stepper.engine.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await stepper.abort()
            await stepper.engine.open(len(stepper.log), create=False)
            await stepper.step()
        assert [row[2] for row in counts(stepper)] == [1, 2, 3, 4]

    run_scenario([counted], scenario, INPUT, OUTPUT)
