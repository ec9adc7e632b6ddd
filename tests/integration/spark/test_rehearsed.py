"""A process that is to be a node runs the last step once more to be warm, behind exchanges too, and leaves nothing anywhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from examples.topic_reading import partition_ends
from kcontrol.adapters.spark.engine.engine import SparkEngine
from kcontrol.apps.warm_up import open_once
from kcontrol.core.model import StepBoundary, StepResult, StepWork
from tests.integration.spark.conftest import RunScenario
from tests.integration.spark.stepper import Stepper
from tests.integration.spark.test_exchange_stages import ME, produced, run_two, stepped, totals

USERS = 40


def totals_of_ones(numbers: Any) -> Any:
    """Spark knows that what is sent is never null; whoever reads it does not."""
    return totals(numbers.withColumn("amount", F.lit(1).cast("long")))


@pytest.mark.parametrize("query", [totals, totals_of_ones])
def test_what_a_node_would_send_to_itself_is_taken_from_files_the_second_time(
    query: Any, run_scenario: RunScenario, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran: list[StepResult] = []
    run_step = SparkEngine.run_step

    async def watched(engine: SparkEngine, work: StepWork, expected: StepBoundary | None) -> StepResult:
        ran.append(await run_step(engine, work, expected))
        return ran[-1]

    def ends(stepper: Stepper) -> Any:
        [exchange] = stepper.spec.exchanges
        return partition_ends(stepper.settings.bootstrap_servers, {exchange.topic}, "read_uncommitted")

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        produced(stepper, *[(f"u{number}", 1) for number in range(USERS)])
        await stepped(stepper, [("other", 1)])
        written, before = stepper.committed("out"), ends(stepper)
        mine = [row for row in written if json.loads(row.value or b"")["user"] != "other"]
        await stepper.engine.close()
        monkeypatch.setattr(SparkEngine, "run_step", watched)
        where = (stepper.host, ME, stepper.spec, None, stepper.log[1], tmp_path / "own", tmp_path / "ahead")
        await open_once(stepper.spark, stepper.bound, *where)
        first, second = ran
        assert sum(each.records for each in first.taken) == 0
        assert sum(each.records for each in second.taken) == len(mine) > 0
        assert sum(each.records for each in second.outputs) == len(mine), (
            "what is behind the exchange ran on them"
        )
        assert (stepper.committed("out"), ends(stepper)) == (written, before)
        monkeypatch.undo()
        await stepper.new_incarnation()
        await stepper.engine.open(1, create=False)
        produced(stepper, *[(f"u{number}", 1) for number in range(USERS)])
        await stepped(stepper, [("other", 1)])
        counts = [json.loads(row.value or b"")["n"] for row in stepper.committed("out") if row.step == 2]
        assert set(counts) == {2}, "a real engine on the same endpoint reads what was really sent"

    run_two(run_scenario, query, scenario, value_format="json")
