"""A node's engine runs steps exactly once: what was committed is there, whole, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kcontrol.adapters.spark.query.once import ONCE
from kcontrol.core.model import FailureKind
from kcontrol.errors import StepFailedError
from kcontrol.wire.murmur2 import partition_of
from tests.integration.spark.conftest import RunScenario
from tests.integration.spark.stepper import Stepper


def upper(numbers: Any) -> Any:
    return {"out": numbers.select(F.upper(F.col("value").cast("string")).alias("value"))}


def counts(numbers: Any) -> Any:
    import kcontrol

    grouped = numbers.groupBy(F.col("key").cast("string").alias("name")).agg(F.count("*").alias("n"))
    return {"out": kcontrol.output(grouped, mode="update")}


def running_total(numbers: Any) -> Any:
    import kcontrol

    total = numbers.select(F.col("value").cast("string").cast("long").alias("n")).agg(
        F.sum("n").alias("total")
    )
    return {"out": kcontrol.output(total, mode="update")}


def test_stateless_query_writes_each_step_once(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        written = []
        for step in range(1, 4):
            records = [(None, f"a{step}-{i}".encode()) for i in range(5)]
            stepper.produce("numbers", records, partition=step % 2)
            boundary = await stepper.step()
            written += [(step, value.upper()) for _, value in records]
            assert sum(item.records for item in boundary.inputs) == 5
            assert sum(item.records for item in boundary.outputs) == 5
        rows = stepper.committed("out")
        assert sorted((row.step, row.value) for row in rows) == sorted(written)
        assert stepper.engine.openable() == (() if stepper.bound.planning == ONCE else (3, 2, 1))

    for plan_once in (True, False):
        run_scenario([upper], scenario, {"numbers": (2, {})}, {"out": (2, {})}, plan_once=plan_once)


def test_aggregate_keeps_state_over_an_aborted_attempt_and_a_rollback(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        for step in range(1, 4):
            stepper.produce("numbers", [(b"a", b""), (b"b", b""), (b"a", b"")], partition=step % 2)
            await stepper.step()
        stepper.produce("numbers", [(b"a", b"")])
        work = await stepper.begin(4, stepper.division(stepper.ends()))
        await stepper.engine.run_step(work, None)
        stepper.engine.cancel()
        await stepper.abort()
        await stepper.engine.open(2, create=False)
        await stepper.replay(3)
        stepper.produce("numbers", [(b"b", b"")])
        await stepper.step()
        latest = {}
        for row in sorted(stepper.committed("out"), key=lambda row: row.step):
            value = json.loads(row.value or b"")
            assert row.key == value["name"].encode()
            latest[value["name"]] = value["n"]
        assert latest == {"a": 7, "b": 4}

    run_scenario(
        [counts], scenario, {"numbers": (2, {})}, {"out": (3, {"key": "name", "value_format": "json"})}
    )


def test_the_working_directory_is_local_whatever_file_system_the_cluster_prefers(
    run_scenario: RunScenario, spark: SparkSession
) -> None:
    """Where Hadoop is at home its configuration says HDFS."""

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        stepper.produce("numbers", [(b"a", b""), (b"b", b"")])
        await stepper.step()
        assert len(stepper.committed("out")) == 2

    configuration = spark._jsc.hadoopConfiguration()
    before = configuration.get("fs.defaultFS")
    configuration.set("fs.defaultFS", "nowhere://cluster/")
    try:
        run_scenario(
            [counts], scenario, {"numbers": (1, {})}, {"out": (1, {"key": "name", "value_format": "json"})}
        )
    finally:
        configuration.set("fs.defaultFS", before)


def test_what_spark_writes_has_no_files_of_checksums(run_scenario: RunScenario) -> None:
    """Each would cost a small step several processes. They belong to files of the logs and of the state
    alike."""

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        for _ in range(2):
            stepper.produce("numbers", [(b"a", b""), (b"b", b"")])
            await stepper.step()
        await stepper.engine.open(2, create=False)
        names = [path.name for path in stepper.work_root.rglob("*") if path.is_file()]
        assert {"0", "1"} <= set(names)
        assert any(name.endswith(".changelog") for name in names)
        assert [name for name in names if name.endswith(".crc")] == []

    run_scenario(
        [counts], scenario, {"numbers": (1, {})}, {"out": (1, {"key": "name", "value_format": "json"})}
    )


def test_queries_that_start_leave_the_environment_that_their_tasks_share_as_it_was(
    run_scenario: RunScenario,
) -> None:
    """Spark keeps it in a HashMap without a lock: two queries that start together would damage it by adding
    keys.

    Their tasks then fail with `OptionalDataException` for as long as the process lives.
    """

    async def scenario(stepper: Stepper) -> None:
        sources = stepper.spark._jsparkSession.sessionState().dataSourceManager()
        environment = sources.lookupDataSource("kcontrol").dataSourceCls().envVars()
        before = set(environment.keySet())
        await stepper.engine.open(0, create=True)
        stepper.produce("numbers", [(b"a", b"")])
        await stepper.step()
        assert set(environment.keySet()) == before

    run_scenario([upper], scenario, {"numbers": (1, {})}, {"out": (1, {})})


def test_records_that_are_not_where_they_are_said_to_be_are_refused_before_anything_is_committed(
    run_scenario: RunScenario,
) -> None:
    """As on several nodes with a keyed output; a step of records in their places goes through first."""
    names = [f"name-{number}" for number in range(40)]

    async def scenario(stepper: Stepper) -> None:
        assert not stepper.host.checks_placing
        stepper.host.checks_placing = True
        await stepper.engine.open(0, create=True)
        for name in names:
            stepper.produce("numbers", [(name.encode(), b"")], partition=partition_of(name.encode(), 3))
        await stepper.step()
        stepper.produce("numbers", [(name.encode(), b"") for name in names], partition=1)
        work = await stepper.begin(2, stepper.division(stepper.ends()))
        with pytest.raises(StepFailedError, match="of the first 40 of partition 1 do not") as refused:
            await stepper.engine.run_step(work, None)
        assert refused.value.kind == FailureKind.REFUSED
        await stepper.abort()

    inputs = {"numbers": (3, {"partitioned_by": "key"})}
    run_scenario([counts], scenario, inputs, {"out": (3, {"key": "name", "value_format": "json"})})


def test_a_running_total_gives_one_output_for_each_batch_whatever_its_size(run_scenario: RunScenario) -> None:
    """5 and 7 make 12, 3 more make 15, 1, 2 and 4 more make 22; the node's incarnation ends
    and is rolled back in between.

    input    5 7 | 3 | 1 2 4 | 8 | 10 10 10 10
    output    12  15     22   30       70
    """
    batches = [([5, 7], 12), ([3], 15), ([1, 2, 4], 22), ([8], 30), ([10] * 4, 70)]

    async def scenario(stepper: Stepper) -> None:
        async def take(numbers: list[int]) -> None:
            stepper.produce("numbers", [(None, str(number).encode()) for number in numbers])
            boundary = await stepper.step()
            assert (
                sum(each.records for each in boundary.inputs),
                sum(each.records for each in boundary.outputs),
            ) == (
                len(numbers),
                1,
            )

        await stepper.engine.open(0, create=True)
        for numbers, _ in batches[:2]:
            await take(numbers)
        stepper.produce("numbers", [(None, b"1"), (None, b"2"), (None, b"4")])
        aborted = await stepper.begin(3, stepper.division(stepper.ends()))
        await stepper.engine.run_step(aborted, None)
        await stepper.abort()
        await stepper.new_incarnation()
        await stepper.engine.open(1, create=False)
        await stepper.replay(2)
        await stepper.step()
        for numbers, _ in batches[3:]:
            await take(numbers)
        totals = [(row.step, json.loads(row.value or b"")) for row in stepper.committed("out")]
        assert totals == [(step, {"total": total}) for step, (_, total) in enumerate(batches, 1)]

    run_scenario([running_total], scenario, {"numbers": (1, {})}, {"out": (1, {"value_format": "json"})})
