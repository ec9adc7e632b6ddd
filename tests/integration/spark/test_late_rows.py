"""Rows that come after a watermark: none because of the order in which a backlog is read,
and none without being counted."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import functions as F

import kcontrol
from kcontrol.core.model import LateRows
from kcontrol.core.step.division import clipped
from kcontrol.errors import StepFailedError
from tests.integration.spark.conftest import RunScenario
from tests.integration.spark.stepper import Stepper

BEGIN_S = 1_700_000_040
"""A whole minute."""
SECONDS = 600
SPARSE_EVERY_S = 5
MAX_RECORDS = 120
INPUTS = {"events": (2, {"value_format": "json", "schema": "at long"})}
OUTPUTS = {"out": (1, {"value_format": "json", "key": "minute"}), "once": (1, {"value_format": "json"})}


def minutes(events: Any) -> Any:
    times = events.select(F.timestamp_seconds("at").alias("at"), "partition").withWatermark(
        "at", "10 seconds"
    )
    windows = times.groupBy(F.window("at", "1 minute")).count()
    named = windows.select(F.col("window.start").cast("long").cast("string").alias("minute"), "count")
    single = times.dropDuplicatesWithinWatermark(["at", "partition"])
    return {
        "out": kcontrol.output(named),
        "once": kcontrol.output(single.select(F.col("at").cast("long").alias("at"))),
    }


def produce_backlog(stepper: Stepper) -> None:
    """Ten minutes of event time in each partition, five times as many records in the second."""
    for partition, every_s in enumerate((SPARSE_EVERY_S, 1)):
        values = [json.dumps({"at": BEGIN_S + second}).encode() for second in range(0, SECONDS, every_s)]
        stepper.produce("events", [(None, value) for value in values], partition)


def late(boundary: Any) -> dict[str, int]:
    return {one.query: one.rows for one in boundary.late_rows}


def test_a_backlog_of_uneven_partitions_loses_no_row_to_the_watermark(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        produce_backlog(stepper)
        while stepper.ends() != stepper.positions:
            division = clipped(stepper.division(stepper.ends()), MAX_RECORDS)
            boundary = await stepper.step({(part.input, part.partition): part.to for part in division})
            assert late(boundary) == {"out": 0, "once": 0}
        assert len(stepper.log) == SECONDS * (SPARSE_EVERY_S + 1) // SPARSE_EVERY_S // MAX_RECORDS
        await stepper.step()  # without data: the watermark of the last step closes windows
        found = [json.loads(row.value or b"") for row in stepper.committed("out")]
        whole = 60 + 60 // SPARSE_EVERY_S
        assert sorted((int(one["minute"]), one["count"]) for one in found) == [
            (BEGIN_S + m * 60, whole) for m in range(9)
        ]
        assert len(stepper.committed("once")) == SECONDS + SECONDS // SPARSE_EVERY_S

    run_scenario([minutes], scenario, INPUTS, OUTPUTS)


def test_rows_that_are_late_are_counted_and_a_replay_compares_their_number(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        produce_backlog(stepper)
        first = await stepper.step({("events", 0): SECONDS // SPARSE_EVERY_S, ("events", 1): 60})
        assert late(first) == {"out": 0, "once": 0}
        await stepper.step({})  # Spark calls late what is behind the watermark of the batch before
        third = await stepper.step()
        # The watermark is at 595 - 10 s. Of the aggregate Spark counts the windows that
        # one task has made of late rows.
        assert late(third) == {"out": 8, "once": 585 - 60 + 1}
        await stepper.engine.open(0, create=True)
        for step in (1, 2, 3):
            assert (await stepper.replay(step)).late_rows == stepper.log[step].late_rows
        stepper.log[3] = replace(
            third, late_rows=tuple(LateRows(one.query, one.node, 7) for one in third.late_rows)
        )
        await stepper.engine.open(2, create=False)
        with pytest.raises(
            StepFailedError, match=r"late rows .once. differs: the log has 7, this run has 526"
        ):
            await stepper.replay(3)

    run_scenario([minutes], scenario, INPUTS, OUTPUTS)
