"""A step that is told while the one before it is being committed is read and computed meanwhile, and nothing of it is written
before; if it is not to be, nothing is left of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import kcontrol
from examples.topic_reading import partition_ends
from kcontrol.adapters.spark.channel.attempt import AttemptLedger
from kcontrol.adapters.spark.engine.ahead import WAIT_SETTING
from kcontrol.core.model import FailureKind, StepResult, StepWork
from kcontrol.errors import StepFailedError
from tests.integration.spark.conftest import RunScenario, Scenario
from tests.integration.spark.stepper import Stepper
from tests.support.patience import HANG_S
from tests.support.processes import until

LONG_MS = "60000"
BEFORE = 3
"""So many steps are made before: then the job of the next one is begun ahead."""


def upper(numbers: Any) -> Any:
    return {"out": numbers.select(F.upper(F.col("value").cast("string")).alias("value"))}


def totals(numbers: Any) -> Any:
    grouped = numbers.groupBy(F.col("key").cast("string").alias("name")).agg(F.count("*").alias("n"))
    value = F.concat_ws("=", F.col("name"), F.col("n").cast("string"))
    return {"out": kcontrol.output(grouped.select(value.alias("value")), mode="update")}


QUERIES = pytest.mark.parametrize("query", [upper, totals])


class Writers:
    """Those that have asked for leave, by what their attempt is to do."""

    def __init__(self, stepper: Stepper) -> None:
        self._answer = stepper.host.own_partitions
        self.came: list[StepWork] = []
        stepper.host.own_partitions = self

    def __call__(self, attempt: AttemptLedger, query: str) -> dict[str, tuple[int, ...]]:
        self.came.append(attempt.work)
        return self._answer(attempt, query)

    def await_those_of(self, work: StepWork) -> None:
        until(lambda: work in self.came, f"a writer of step {work.step}", HANG_S)


def records(step: int) -> list[tuple[bytes | None, bytes | None]]:
    return [(b"k%d" % (number % 3), b"s%d-%d" % (step, number)) for number in range(2 + step)]


async def begun(stepper: Stepper) -> tuple[StepWork, StepResult, StepWork]:
    """Some steps are made; the next one is written, and its work and result are given; and the work after that, of which the
    engine is told. Its records are there."""
    await stepper.engine.open(0, create=True)
    epochs = []
    for step in range(1, BEFORE + 1):
        stepper.produce("numbers", records(step))
        epochs.append((await stepper.step()).token.producer_epoch)
    stepper.produce("numbers", records(BEFORE + 1))
    work = await stepper.begin(BEFORE + 1, stepper.division(stepper.ends()))
    result = await stepper.engine.run_step(work, None)
    stepper.produce("numbers", records(BEFORE + 2))
    begins = {(part.input, part.partition): part.to for part in work.division}
    ends = stepper.ends()
    division = tuple(
        replace(part, from_=begins[part.input, part.partition], to=ends[part.input, part.partition])
        for part in work.division
    )
    ahead = stepper.foreseen(work, division, epochs[-1] - epochs[-2])
    stepper.engine.make_ready(ahead)
    return work, result, ahead


async def computed(stepper: Stepper) -> tuple[StepWork, StepResult, StepWork]:
    """As `begun`, and tasks have read and computed for the work after that: a writer of it asks for leave."""
    writers = Writers(stepper)
    work, result, ahead = await begun(stepper)
    writers.await_those_of(ahead)
    return work, result, ahead


def uncommitted_ends(stepper: Stepper) -> dict[tuple[str, int], int]:
    topics = {output.topic for output in stepper.spec.outputs}
    return partition_ends(stepper.settings.bootstrap_servers, topics, "read_uncommitted")


async def commit_and_begin(stepper: Stepper, work: StepWork, result: StepResult, ahead: StepWork) -> None:
    """The step is committed, the transaction of the next one is open, and the node has read the boundary."""
    await stepper.commit(work, result)
    assert await stepper.begin(ahead.step, ahead.division) == ahead
    await stepper.engine.finish_step(work.step)


def expected(query: Callable[[Any], Any], steps: list[int]) -> list[tuple[int, str]]:
    """By step, what the query writes where it has read the records of these steps, one after another."""
    counts: dict[str, int] = {}
    found = []
    for place, step in enumerate(steps, 1):
        if query is upper:
            found += [(place, (value or b"").decode().upper()) for _, value in records(step)]
            continue
        keys = [(key or b"").decode() for key, _ in records(step)]
        counts |= {key: counts.get(key, 0) + keys.count(key) for key in set(keys)}
        found += [(place, f"{key}={counts[key]}") for key in sorted(set(keys))]
    return sorted(found)


def written(stepper: Stepper) -> list[tuple[int, str]]:
    return sorted((row.step, (row.value or b"").decode()) for row in stepper.committed("out"))


@contextmanager
def patience(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(WAIT_SETTING, LONG_MS)
    try:
        yield
    finally:
        spark.conf.unset(WAIT_SETTING)


def run(spark: SparkSession, run_scenario: RunScenario, query: Any, scenario: Scenario) -> None:
    with patience(spark):
        run_scenario([query], scenario, {"numbers": (1, {})}, {"out": (2, {})})


@QUERIES
def test_it_is_computed_meanwhile_and_written_after(
    spark: SparkSession, run_scenario: RunScenario, query: Any
) -> None:
    async def scenario(stepper: Stepper) -> None:
        writers = Writers(stepper)
        work, result, ahead = await begun(stepper)
        before = uncommitted_ends(stepper)
        writers.await_those_of(ahead)
        assert uncommitted_ends(stepper) == before
        await commit_and_begin(stepper, work, result, ahead)
        told = await stepper.engine.run_step(ahead, None)
        assert sum(item.records for item in told.inputs) == len(records(ahead.step))
        await stepper.commit(ahead, told)
        await stepper.engine.finish_step(ahead.step)
        stepper.produce("numbers", records(ahead.step + 1))
        await stepper.step()
        assert written(stepper) == expected(query, [*range(1, BEFORE + 4)])
        assert writers.came.count(ahead) == 1
        await stepper.engine.open(ahead.step, create=False)
        assert stepper.failures == []

    run(spark, run_scenario, query, scenario)


@QUERIES
def test_nothing_is_left_of_it_if_the_step_before_is_aborted(
    spark: SparkSession, run_scenario: RunScenario, query: Any
) -> None:
    """And both are made anew, as one."""

    async def scenario(stepper: Stepper) -> None:
        await computed(stepper)
        stepper.engine.cancel()
        await stepper.abort()
        await stepper.engine.open(BEFORE, create=False)
        boundary = await stepper.step()
        assert boundary.step == BEFORE + 1
        found = [row for row in written(stepper) if row[0] <= BEFORE]
        assert found == expected(query, [*range(1, BEFORE + 1)])
        both = sum(len(records(step)) for step in (BEFORE + 1, BEFORE + 2))
        assert sum(item.records for item in boundary.inputs) == both
        last = sorted(text for step, text in written(stepper) if step == BEFORE + 1)
        assert last == _of_both(query)
        stepper.produce("numbers", records(9))
        await stepper.step()

    run(spark, run_scenario, query, scenario)


def _of_both(query: Any) -> list[str]:
    rows = [row for step in (BEFORE + 1, BEFORE + 2) for row in records(step)]
    if query is upper:
        return sorted((value or b"").decode().upper() for _, value in rows)
    all_rows = [row for step in range(1, BEFORE + 3) for row in records(step)]
    keys = [(key or b"").decode() for key, _ in all_rows]
    return sorted(f"{key}={keys.count(key)}" for key in set(keys))


@QUERIES
def test_nothing_is_left_of_it_if_something_else_is_to_be_made(
    spark: SparkSession, run_scenario: RunScenario, query: Any
) -> None:
    async def scenario(stepper: Stepper) -> None:
        work, result, ahead = await computed(stepper)
        await commit_and_begin(stepper, work, result, ahead)
        await stepper.engine.open(work.step, create=False)
        other = await stepper.begin(ahead.step, ahead.division)
        await stepper.commit(other, await stepper.engine.run_step(other, None))
        await stepper.engine.finish_step(other.step)
        assert written(stepper) == expected(query, [*range(1, BEFORE + 3)])

    run(spark, run_scenario, query, scenario)


def test_an_engine_that_is_asked_for_something_else_says_so(
    spark: SparkSession, run_scenario: RunScenario
) -> None:
    async def scenario(stepper: Stepper) -> None:
        work, result, ahead = await computed(stepper)
        await commit_and_begin(stepper, work, result, ahead)
        other = await stepper.begin(ahead.step, ahead.division)
        with pytest.raises(StepFailedError, match="another attempt was begun ahead"):
            await stepper.engine.run_step(other, None)
        await stepper.abort()
        await stepper.engine.open(work.step, create=False)
        await stepper.step()
        assert written(stepper) == expected(totals, [*range(1, BEFORE + 3)])

    run(spark, run_scenario, totals, scenario)


def test_that_it_fails_is_said_where_it_is_asked_for(spark: SparkSession, run_scenario: RunScenario) -> None:
    """And the step before is finished as ever."""

    def fragile(numbers: Any) -> Any:
        text = F.col("value").cast("string")
        wrong = F.when(text == "s5-0", F.raise_error(F.lit("this one is wrong"))).otherwise(F.upper(text))
        return {"out": numbers.select(wrong.alias("value"))}

    async def scenario(stepper: Stepper) -> None:
        work, result, ahead = await begun(stepper)
        until(lambda: stepper.host.gate.has_ended, "the query has failed", HANG_S)
        await commit_and_begin(stepper, work, result, ahead)
        assert stepper.failures == []
        with pytest.raises(StepFailedError, match="this one is wrong") as failed:
            await stepper.engine.run_step(ahead, None)
        assert failed.value.kind is FailureKind.QUERY
        await stepper.abort()
        assert written(stepper) == expected(upper, [*range(1, BEFORE + 2)])

    run(spark, run_scenario, fragile, scenario)
