"""State that has gone without a snapshot: Spark can't write changelogs any more whose lineage is longer than
65,535 bytes, and a query that is started again and again takes no snapshots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kcontrol.adapters.spark.engine import queries
from tests.integration.spark.conftest import RunScenario
from tests.integration.spark.stepper import Stepper
from tests.support.processes import until

INTERVAL = "spark.sql.streaming.stateStore.maintenanceInterval"
PATIENCE_S = 50.0
"""Less than Spark's own interval of a minute."""
BEYOND_SPARK = 900


def totals(numbers: Any) -> Any:
    import kcontrol

    counted = numbers.groupBy(F.col("key").cast("string").alias("name")).agg(F.count("*").alias("n"))
    return {"out": kcontrol.output(counted, mode="update")}


async def count(stepper: Stepper) -> None:
    stepper.produce("numbers", [(b"a", b"")])
    await stepper.step()


def snapshots(place: Path) -> list[Path]:
    return sorted(place.rglob("state/**/*.zip"))


def last_count(stepper: Stepper) -> bytes | None:
    return stepper.committed("out")[-1].value


def test_state_that_has_gone_long_without_a_snapshot_gets_one_with_each_step(
    run_scenario: RunScenario,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        for _ in range(4):
            await count(stepper)
        assert not snapshots(tmp_path)
        monkeypatch.setattr(queries, "MOST_CHANGES", 3)
        await stepper.new_incarnation()
        await stepper.engine.open(4, create=False)
        assert "without a snapshot" in caplog.text
        for _ in range(2):
            await count(stepper)
        await stepper.engine.close()
        assert {path.name.partition("_")[0] for path in snapshots(tmp_path)} == {"5", "6"}
        assert last_count(stepper) == b'{"name":"a","n":6}'

        # What it builds on is short again, so that changelogs will do.
        caplog.clear()
        await stepper.new_incarnation()
        await stepper.engine.open(6, create=False)
        await count(stepper)
        assert "without a snapshot" not in caplog.text
        await stepper.engine.close()
        assert last_count(stepper) == b'{"name":"a","n":7}'

    run_scenario([totals], scenario, {"numbers": (1, {})}, {"out": (1, {"value_format": "json"})})


def test_snapshots_are_taken_while_steps_are_run(run_scenario: RunScenario, tmp_path: Path) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        for _ in range(12):
            await count(stepper)
        until(lambda: snapshots(tmp_path), "a snapshot", PATIENCE_S)

    run_scenario([totals], scenario, {"numbers": (1, {})}, {"out": (1, {"value_format": "json"})})


@pytest.mark.heavy
def test_more_steps_without_a_snapshot_than_spark_can_write_changelogs_for(
    spark: SparkSession, run_scenario: RunScenario
) -> None:
    """Opened again every now and then, and never in peace for as long as a snapshot takes to be due."""

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        for step in range(1, BEYOND_SPARK + 1):
            await count(stepper)
            if step % 100 == 0:
                await stepper.engine.open(step, create=False)
        assert last_count(stepper) == b'{"name":"a","n":%d}' % BEYOND_SPARK

    spark.conf.set(INTERVAL, "1h")
    try:
        run_scenario([totals], scenario, {"numbers": (1, {})}, {"out": (1, {"value_format": "json"})})
    finally:
        spark.conf.set(INTERVAL, "10s")
