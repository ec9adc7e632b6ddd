"""Steps of one query differ in how they are cut: each is written right, whatever the step before it was."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kcontrol.adapters.spark.channel.client import ChannelAddress
from kcontrol.adapters.spark.channel.targets import NOTHING_TYPE
from kcontrol.adapters.spark.sink.tasks import WriteRows
from kcontrol.definition.parts import TaskLayout
from tests.integration.spark.conftest import RunScenario
from tests.integration.spark.stepper import Row, Stepper

SIZES = (1, 4, 2, 0, 5)
"""Records of each input partition, by step: with three to a task, these make steps of one task and of two."""
TASKS = [1, 2, 2, 1, 2]
LAYOUT = TaskLayout(records_per_task=3)
INPUT = {"events": (2, {})}


def values(events: Any) -> Any:
    return {"out": events.select("value")}


def by_key(events: Any) -> Any:
    return {"out": events.select("key", "value")}


def shuffled(events: Any) -> Any:
    return {"out": events.select("value").repartition(3, "value")}


def routed(events: Any) -> Any:
    import kcontrol

    chosen = F.when(F.col("key") == b"0", "even").otherwise("odd")
    return kcontrol.outputs(events.select("key", "value", chosen.alias("output")), ["even", "odd"])


async def write_and_replay(stepper: Stepper, outputs: tuple[str, ...]) -> dict[str, list[Row]]:
    """Steps of all sizes, and all of them again as replays, after the outputs' topics were
    widened. The rows of each output."""
    await stepper.engine.open(0, create=True)
    wanted = []
    tasks = []
    for step, size in enumerate(SIZES, start=1):
        for partition in range(2):
            rows = [(b"%d" % (i % 2), b"%d.%d.%d" % (step, partition, i)) for i in range(size)]
            stepper.produce("events", rows, partition)
            wanted += [(step, value) for _, value in rows]
        boundary = await stepper.step()
        tasks.append(max(layout.tasks for layout in boundary.layout.outputs))
        assert sum(item.records for item in boundary.outputs) == 2 * size
    assert tasks == TASKS
    written = {output: stepper.committed(output) for output in outputs}
    assert sorted((row.step, row.value) for rows in written.values() for row in rows) == sorted(wanted)
    then = {output.name: output.partitions for output in stepper.spec.outputs}
    for output in outputs:
        stepper.widen(output, then[output] + 3)
    await stepper.new_incarnation()
    await stepper.engine.open(0, create=True)
    for step in range(1, len(SIZES) + 1):
        await stepper.replay(step)
    stepper.produce("events", [(b"%d" % i, b"%d" % i) for i in range(60)])
    wide = await stepper.step()
    assert {layout.output: layout.partitions for layout in wide.layout.outputs} == {
        name: n + 3 for name, n in then.items()
    }
    assert sum(item.records for item in wide.outputs) == 60
    return written


def test_rows_that_stay_in_their_partition(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        for row in (await write_and_replay(stepper, ("out",)))["out"]:
            step, partition, _ = (int(part) for part in (row.value or b"").split(b"."))
            assert TASKS[step - 1] == 1 or partition == row.partition

    run_scenario([values], scenario, INPUT, {"out": (2, {})}, layout=LAYOUT)


def test_keyed_rows(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        rows = (await write_and_replay(stepper, ("out",)))["out"]
        assert len({(row.key, row.partition) for row in rows}) == 2

    run_scenario([by_key], scenario, INPUT, {"out": (5, {})}, layout=LAYOUT)


def test_keyed_rows_of_writers_that_take_turns(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        rows = (await write_and_replay(stepper, ("out",)))["out"]
        assert len({(row.key, row.partition) for row in rows}) == 2

    run_scenario([by_key], scenario, INPUT, {"out": (2, {})}, layout=LAYOUT)


def test_a_partition_that_is_cut_between_tasks_keeps_its_order(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        stepper.produce("events", [(b"a", b"%03d" % number) for number in range(400)], 0)
        stepper.produce("events", [(b"b", b"%03d" % number) for number in range(3)], 1)
        boundary = await stepper.step()
        assert [split.partition for split in boundary.layout.splits] == [0, 0, 1]
        for key, count in ((b"a", 400), (b"b", 3)):
            rows = [row.value for row in stepper.committed("out") if row.key == key]
            assert rows == [b"%03d" % number for number in range(count)]
        await stepper.new_incarnation()
        await stepper.engine.open(0, create=True)
        await stepper.replay(1)

    run_scenario([by_key], scenario, INPUT, {"out": (3, {})}, layout=LAYOUT)


def test_a_query_with_a_shuffle_of_its_own(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        await write_and_replay(stepper, ("out",))

    run_scenario([shuffled], scenario, INPUT, {"out": (2, {})}, layout=LAYOUT)


def test_rows_of_several_outputs(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        written = await write_and_replay(stepper, ("even", "odd"))
        assert {name: {row.key for row in rows} for name, rows in written.items()} == {
            "even": {b"0"},
            "odd": {b"1"},
        }

    run_scenario([routed], scenario, INPUT, {"even": (2, {}), "odd": (3, {})}, layout=LAYOUT)


def test_a_task_that_is_told_nothing_says_so(spark: SparkSession) -> None:
    write = WriteRows(ChannelAddress("127.0.0.1", 1, ""), "out")
    rows = spark.sql("SELECT binary('a') AS value").mapInArrow(write, NOTHING_TYPE)
    with pytest.raises((PySparkException, Py4JError), match=r"no local property 'kcontrol\.job'"):
        rows.collect()
