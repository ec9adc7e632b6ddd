"""Tasks that take turns in an output's partitions: what they write is one step's, whatever becomes of one of
them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import psutil
import pytest

from kcontrol.adapters.kafka.write.turns import WriteTurn
from kcontrol.adapters.spark.channel.attempt import AttemptLedger
from kcontrol.adapters.spark.sink.writer_plan import Ways, WriterPlan
from kcontrol.core.model import FailureKind
from kcontrol.definition.parts import TaskLayout
from tests.integration.spark.conftest import RunScenario
from tests.integration.spark.stepper import Stepper
from tests.integration.spark.test_failures import failed_step

INPUT: dict[str, tuple[int, dict[str, Any]]] = {"events": (2, {})}
OUTPUT: dict[str, tuple[int, dict[str, Any]]] = {"out": (2, {})}
LAYOUT = TaskLayout(records_per_task=3)


def by_key(events: Any) -> Any:
    return {"out": events.select("key", "value")}


def counted(events: Any) -> Any:
    import kcontrol

    counts = events.groupBy("key").count().selectExpr("key", "CAST(CAST(count AS STRING) AS BINARY) AS value")
    return {"out": kcontrol.output(counts, mode="update")}


def fill(stepper: Stepper, step: int) -> list[tuple[bytes, bytes]]:
    rows = []
    for partition in range(2):
        mine = [(b"k%d" % (number % 5), b"%d.%d.%d" % (step, partition, number)) for number in range(50)]
        stepper.produce("events", mine, partition)
        rows += mine
    return rows


def workers() -> list[psutil.Process]:
    """The Python processes of this process's JVM that run tasks."""
    found = []
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has just ended
            if "pyspark.worker" in each.cmdline():
                found.append(each)
    return [each for each in found if each.ppid() in {one.pid for one in found}]


def test_a_writer_that_is_killed_in_its_turn(
    run_scenario: RunScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = AttemptLedger.take_turns
    dealt: list[tuple[WriteTurn, ...]] = []

    def deadly(self: AttemptLedger, *asked: Any) -> tuple[WriteTurn, ...]:
        turns = take(self, *asked)
        dealt.append(turns)
        if len(dealt) == 1:
            for worker in workers():
                worker.kill()
        return turns

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        rows = fill(stepper, 1)
        with monkeypatch.context() as trap:
            trap.setattr(AttemptLedger, "take_turns", deadly)
            _, error = await failed_step(stepper)
        assert dealt[0]
        assert error.kind is FailureKind.LOST
        boundary = await stepper.step()
        assert sum(item.records for item in boundary.outputs) == len(rows)
        found = stepper.committed("out")
        assert sorted((row.key, row.value) for row in found) == sorted(rows)
        await stepper.replay(1)

    run_scenario([by_key], scenario, INPUT, OUTPUT, layout=LAYOUT)


def test_a_keyed_query_keeps_its_plan(run_scenario: RunScenario, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Ways] = []
    writing = WriterPlan.writing

    def noted(self: WriterPlan, batch: Any, ways: Ways) -> Any:
        made.append(ways)
        return writing(self, batch, ways)

    async def scenario(stepper: Stepper) -> None:
        monkeypatch.setattr(WriterPlan, "writing", noted)
        await stepper.engine.open(0, create=True)
        rows = [row for step in range(1, 4) for row in await filled(stepper, step)]
        assert len(made) == 1
        assert sorted((row.key, row.value) for row in stepper.committed("out")) == sorted(rows)

    async def filled(stepper: Stepper, step: int) -> list[tuple[bytes, bytes]]:
        rows = fill(stepper, step)
        await stepper.step()
        return rows

    run_scenario([by_key], scenario, INPUT, OUTPUT, layout=LAYOUT)


def test_state_partitions_write_where_they_are(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        for step in range(1, 4):
            fill(stepper, step)
            boundary = await stepper.step()
            assert sum(item.records for item in boundary.outputs) == 5
            found = {row.key: row.value for row in stepper.committed("out") if row.step == step}
            assert found == {b"k%d" % number: b"%d" % (20 * step) for number in range(5)}
        await stepper.new_incarnation()
        await stepper.engine.open(0, create=True)
        for step in range(1, 4):
            await stepper.replay(step)

    run_scenario([counted], scenario, INPUT, OUTPUT, layout=LAYOUT)
