"""Tables of state that is open are left unmerged for a while, and snapshots of them are taken when that is asked for."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pyspark.sql import DataFrame

import kcontrol
from kcontrol.adapters.spark.internals import hold_tables, take_snapshots
from kcontrol.adapters.spark.state.lineage import STATE, shared_files
from tests.integration.spark.conftest import RunScenario
from tests.integration.spark.stepper import Stepper
from tests.support.patience import HANG_S

SNAPSHOT_STEPS = 10
"""Spark makes one so often."""
MERGED_AT = 4
"""So many new tables RocksDB merges into one."""
HELD_MS = 600_000


def counts(numbers: DataFrame) -> dict[str, object]:
    counted = (
        numbers.groupBy("key").count().selectExpr("key", "cast(cast(count as string) as binary) as value")
    )
    return {"out": kcontrol.output(counted, mode="update")}


def tables(stepper: Stepper, step: int) -> list[int]:
    """Of the snapshot after a step, in each store; none where there is no such snapshot yet."""
    stores = Path(stepper.work_root).glob(f"**/{STATE}/0/*/{step}_*.zip")
    return [len(shared_files(each) or ()) for each in stores]


def test_tables_are_merged_again_only_when_nobody_asks_any_more(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)

        async def steps(until: int) -> None:
            for step in range(len(stepper.log) + 1, until + 1):
                stepper.produce("numbers", [(b"a", b"%d" % step), (b"b", b"%d" % step)])
                await stepper.step()

        async def snapshot() -> list[int]:
            """Of a step more, which has it when it is over."""
            assert await asyncio.to_thread(take_snapshots, stepper.spark) >= 1
            step = len(stepper.log) + 1
            await steps(step)
            return tables(stepper, step)

        await steps(1)
        assert await asyncio.to_thread(hold_tables, stepper.spark, HELD_MS) >= 1
        held = (MERGED_AT + 2) * SNAPSHOT_STEPS
        await steps(held)
        assert min(await snapshot()) > MERGED_AT, "one for each snapshot"
        await asyncio.to_thread(hold_tables, stepper.spark, 0)
        async with asyncio.timeout(HANG_S):
            while max(await snapshot()) > MERGED_AT:
                pass

    run_scenario([counts], scenario, {"numbers": (1, {})}, {"out": (1, {})})
