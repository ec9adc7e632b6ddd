"""Small steps interpret their projections, larger ones have code generated: tasks say which, by a property of their job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pandas as pd
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from kcontrol.adapters.spark.engine.small_steps import RECORDS_SETTING, interpreted_records
from kcontrol.errors import SparkSettingError
from tests.integration.spark.conftest import RunScenario
from tests.integration.spark.stepper import Stepper

FACTORY = "spark.sql.codegen.factoryMode"


@contextmanager
def configured(spark: SparkSession, **values: str) -> Iterator[None]:
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in values:
            spark.conf.unset(name)


def how_computed(numbers: Any) -> Any:
    def told(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            if len(batch):
                yield pd.DataFrame({"value": [context.getLocalProperty(FACTORY) or "as Spark has it"]})

    return {"out": numbers.mapInPandas(told, "value string")}


def told_for(
    spark: SparkSession, run_scenario: RunScenario, sizes: list[int], **settings: str
) -> list[bytes | None]:
    """By step, of so many records each: what the tasks of the step found."""
    found: list[bytes | None] = []

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        for size in sizes:
            stepper.produce("numbers", [(None, str(number).encode()) for number in range(size)])
            await stepper.step()
        found.extend(row.value for row in sorted(stepper.committed("out"), key=lambda row: row.step))

    with configured(spark, **settings):
        run_scenario([how_computed], scenario, {"numbers": (1, {})}, {"out": (1, {})})
    return found


def test_a_step_is_interpreted_up_to_so_many_records(spark: SparkSession, run_scenario: RunScenario) -> None:
    never_ahead = {"spark.kcontrol.aheadWaitMs": "0"}
    found = told_for(spark, run_scenario, [3, 2, 4, 3], **{RECORDS_SETTING: "3"}, **never_ahead)
    assert found == [b"NO_CODEGEN", b"NO_CODEGEN", b"FALLBACK", b"NO_CODEGEN"]


def test_none_is_where_it_is_switched_off(spark: SparkSession, run_scenario: RunScenario) -> None:
    assert told_for(spark, run_scenario, [1, 1], **{RECORDS_SETTING: "0"}) == [b"as Spark has it"] * 2


def test_what_a_user_has_chosen_stands(spark: SparkSession, run_scenario: RunScenario) -> None:
    assert told_for(spark, run_scenario, [1, 1], **{FACTORY: "CODEGEN_ONLY"}) == [b"CODEGEN_ONLY"] * 2


@pytest.mark.parametrize("text", ["", "-1", "some", "1.5"])
def test_a_number_of_records_that_is_none_is_refused(spark: SparkSession, text: str) -> None:
    with (
        configured(spark, **{RECORDS_SETTING: text}),
        pytest.raises(SparkSettingError, match=RECORDS_SETTING),
    ):
        interpreted_records(spark)
