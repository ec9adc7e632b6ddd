"""The job of the next step is begun while the step before is being committed: what it writes is what it would
write if it were begun later, and where it is not needed nothing comes of it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from examples.processes import command_of
from kcontrol.adapters.spark.channel.messages import Job
from kcontrol.adapters.spark.engine.ahead import WAIT_SETTING, ahead_wait_s
from kcontrol.core.model import FailureKind
from kcontrol.definition.parts import TaskLayout
from kcontrol.errors import SparkSettingError, StepFailedError
from tests.integration.spark.conftest import RunScenario, Scenario
from tests.integration.spark.stepper import Stepper
from tests.support.patience import HANG_S
from tests.support.processes import until

LONG_MS = "60000"
SHORT_MS = "3000"
PATIENCE_S = HANG_S
DAEMONS = {"kcontrol.adapters.spark.session.warm_daemon", "pyspark.daemon"}
ASKS = 2
"""Of a job with one task: its reader's and its writer's."""
FIRST = 2
"""The job that waits after `begin`: the one before it has run the third step."""


def upper(numbers: Any) -> Any:
    return {"out": numbers.select(F.upper(F.col("value").cast("string")).alias("value"))}


class Waiting:
    """The tasks that wait for their step: `asked` counts their questions by the number of their job, `needed`
    says what they were told."""

    def __init__(self, stepper: Stepper) -> None:
        self._ask = stepper.host.job_ahead
        self.asked: Counter[int] = Counter()
        self.needed: dict[int, bool] = {}
        stepper.host.job_ahead = self

    def __call__(self, query: str, number: int) -> Job:
        self.asked[number] += 1
        job = self._ask(query, number)
        self.needed[number] = job.json is not None
        return job

    def begun(self, number: int) -> None:
        """Wait until the reader and the writer of this job wait."""
        until(
            lambda: self.asked[number] == ASKS,
            f"job {number}, begun ahead",
            PATIENCE_S,
            lambda: str(self.asked),
        )

    def ended(self, number: int) -> bool:
        """Whether this job was needed, once its tasks know."""
        until(lambda: number in self.needed, f"job {number} has an answer", PATIENCE_S)
        return self.needed[number]


async def write(stepper: Stepper, texts: list[str], partition: int = 0) -> None:
    stepper.produce("numbers", [(None, text.encode()) for text in texts], partition)
    boundary = await stepper.step()
    assert sum(item.records for item in boundary.outputs) == len(texts)


async def begin(stepper: Stepper) -> tuple[Waiting, list[str]]:
    """Three steps that follow each other, of which the last is the first that was begun ahead; and what they
    have written."""
    waiting = Waiting(stepper)
    await stepper.engine.open(0, create=True)
    for text in "abc":
        await write(stepper, [text])
    return waiting, ["A", "B", "C"]


def written(stepper: Stepper) -> list[str]:
    return sorted((row.value or b"").decode() for row in stepper.committed("out"))


@contextmanager
def patience(spark: SparkSession, milliseconds: str) -> Iterator[None]:
    spark.conf.set(WAIT_SETTING, milliseconds)
    try:
        yield
    finally:
        spark.conf.unset(WAIT_SETTING)


def run_upper(
    spark: SparkSession, run_scenario: RunScenario, scenario: Scenario, milliseconds: str, **settings: Any
) -> None:
    """One query, whose jobs wait so long."""
    with patience(spark, milliseconds):
        run_scenario([upper], scenario, {"numbers": (2, {})}, {"out": (2, {})}, **settings)


def kill_workers() -> None:
    """Kill the Python processes that Spark's tasks run in: what daemons have forked, whoever has started those.
    One that has idled for long may end by itself meanwhile."""
    family = psutil.Process().children(recursive=True)
    daemons = set()
    for process in family:
        with suppress(psutil.NoSuchProcess):  # A zombie is one too.
            if DAEMONS & set(command_of(process)):
                daemons.add(process.pid)
    for process in family:
        with suppress(psutil.NoSuchProcess):
            if process.ppid() in daemons:
                process.kill()


def test_the_next_step_is_run_by_the_job_that_waits_for_it(
    spark: SparkSession, run_scenario: RunScenario
) -> None:
    async def scenario(stepper: Stepper) -> None:
        waiting, expected = await begin(stepper)
        for number, text in enumerate("de", FIRST):
            waiting.begun(number)
            await write(stepper, [text])
            expected.append(text.upper())
            assert waiting.needed[number], "the step had a job of its own"
        assert written(stepper) == expected

    run_upper(spark, run_scenario, scenario, LONG_MS)


def test_a_step_of_another_shape_has_a_job_of_its_own(spark: SparkSession, run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        waiting, expected = await begin(stepper)
        waiting.begun(FIRST)
        many = [f"x{number}" for number in range(8)]
        await write(stepper, many, partition=1)
        assert not waiting.needed[FIRST]
        assert written(stepper) == sorted([*expected, *(text.upper() for text in many)])

    run_upper(spark, run_scenario, scenario, LONG_MS, layout=TaskLayout(records_per_task=4))


def test_a_job_that_no_step_comes_for_ends_by_itself(spark: SparkSession, run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        waiting, expected = await begin(stepper)
        # One before it may have, if a step took longer to come.
        until(lambda: False in [*waiting.needed.values()], "a job was begun in vain", PATIENCE_S)
        await write(stepper, ["d"])
        assert written(stepper) == [*expected, "D"]

    run_upper(spark, run_scenario, scenario, SHORT_MS)


def test_an_engine_that_is_closed_leaves_no_job_behind(
    spark: SparkSession, run_scenario: RunScenario
) -> None:
    async def scenario(stepper: Stepper) -> None:
        waiting, expected = await begin(stepper)
        waiting.begun(FIRST)
        await stepper.new_incarnation()
        until(lambda: not spark.sparkContext.statusTracker().getActiveJobsIds(), "no job", PATIENCE_S)
        await stepper.engine.open(3, create=False)
        await write(stepper, ["d"])
        assert not waiting.ended(FIRST)
        assert written(stepper) == [*expected, "D"]

    run_upper(spark, run_scenario, scenario, LONG_MS)


def test_an_attempt_that_is_given_up_takes_the_waiting_job_along(
    spark: SparkSession, run_scenario: RunScenario
) -> None:
    """The step was written, and the next one's job waits; then the step is not committed but aborted."""

    async def scenario(stepper: Stepper) -> None:
        waiting, expected = await begin(stepper)
        stepper.produce("numbers", [(None, b"d")])
        work = await stepper.begin(4, stepper.division(stepper.ends()))
        await stepper.engine.run_step(work, None)
        waiting.begun(FIRST + 1)
        stepper.engine.cancel()
        await stepper.abort()
        await stepper.engine.open(3, create=False)
        assert not waiting.ended(FIRST + 1)
        await stepper.step()
        assert written(stepper) == [*expected, "D"]

    run_upper(spark, run_scenario, scenario, LONG_MS)


def test_workers_that_are_killed_while_they_wait_harm_no_step(
    spark: SparkSession, run_scenario: RunScenario, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(stepper: Stepper) -> None:
        waiting, expected = await begin(stepper)
        waiting.begun(FIRST)
        kill_workers()
        until(lambda: "begun ahead for step 4 has failed" in caplog.text, "the job has failed", PATIENCE_S)
        await write(stepper, ["d"])
        assert stepper.failures == []
        assert written(stepper) == [*expected, "D"]

    caplog.set_level(logging.DEBUG, logger="kcontrol")
    run_upper(spark, run_scenario, scenario, LONG_MS)


def test_a_job_that_was_begun_ahead_and_fails_ends_its_attempt(
    spark: SparkSession, run_scenario: RunScenario
) -> None:
    async def scenario(stepper: Stepper) -> None:
        waiting, expected = await begin(stepper)
        waiting.begun(FIRST)
        stepper.produce("numbers", [(None, b"d")])
        division = stepper.division(stepper.ends())
        stepper.delete_records("numbers", 0, 4)
        work = await stepper.begin(4, division)
        with pytest.raises(StepFailedError) as failed:
            await stepper.engine.run_step(work, None)
        assert failed.value.kind is FailureKind.INPUT_GONE
        assert waiting.needed[FIRST]
        await stepper.abort()
        assert written(stepper) == expected

    run_upper(spark, run_scenario, scenario, LONG_MS)


def test_replays_are_begun_ahead_too_and_write_nothing(
    spark: SparkSession, run_scenario: RunScenario
) -> None:
    async def scenario(stepper: Stepper) -> None:
        _, expected = await begin(stepper)
        await stepper.new_incarnation()
        waiting = Waiting(stepper)
        await stepper.engine.open(0, create=True)
        for step in (1, 2, 3):
            result = await stepper.replay(step)
            recorded = stepper.log[step].outputs
            assert [item.digest for item in result.outputs] == [item.digest for item in recorded]
        assert waiting.needed[FIRST - 1]
        assert written(stepper) == expected

    run_upper(spark, run_scenario, scenario, LONG_MS)


def test_it_is_switched_off_by_a_setting(spark: SparkSession, run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        waiting, expected = await begin(stepper)
        assert not waiting.asked
        assert written(stepper) == expected

    run_upper(spark, run_scenario, scenario, "0")


def test_queries_that_share_the_executors_are_not_begun_ahead(
    spark: SparkSession, run_scenario: RunScenario
) -> None:
    """Tasks that wait would keep those of the other query from running."""

    def lower(numbers: Any) -> Any:
        return {"other": numbers.select(F.lower(F.col("value").cast("string")).alias("value"))}

    async def scenario(stepper: Stepper) -> None:
        waiting = Waiting(stepper)
        await stepper.engine.open(0, create=True)
        for text in "abc":
            stepper.produce("numbers", [(None, text.encode())])
            await stepper.step()
        assert not waiting.asked
        assert written(stepper) == ["A", "B", "C"]

    with patience(spark, LONG_MS):
        run_scenario([upper, lower], scenario, {"numbers": (2, {})}, {"out": (2, {}), "other": (2, {})})


@pytest.mark.parametrize("text", ["", "-1", "1.5", "60001", "soon"])
def test_a_time_to_wait_that_is_none_is_refused(spark: SparkSession, text: str) -> None:
    with patience(spark, text), pytest.raises(SparkSettingError, match=WAIT_SETTING):
        ahead_wait_s(spark)
