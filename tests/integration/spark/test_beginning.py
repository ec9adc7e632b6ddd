"""A pipeline without state begins after a step that this node never ran, and Spark goes on as if it had."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import functions as F

from kcontrol.errors import ConfigurationError
from tests.integration.spark.conftest import RunScenario
from tests.integration.spark.stepper import Stepper
from tests.integration.spark.test_steps import counts
from tests.support.lost_directory import lose

INPUTS: dict[str, Any] = {"numbers": (2, {}), "others": (1, {})}
OUTPUTS: dict[str, Any] = {"out": (2, {}), "twice": (2, {}), "both": (1, {})}


def upper(numbers: Any) -> Any:
    return {"out": numbers.select(F.upper(F.col("value").cast("string")).alias("value"))}


def repeated(numbers: Any) -> Any:
    """Two streams of one input."""
    return {"twice": numbers.union(numbers).select("value")}


def united(numbers: Any, others: Any) -> Any:
    """Streams of two inputs."""
    return {"both": numbers.select("value").union(others.select("value"))}


def produce(stepper: Stepper, step: int) -> None:
    stepper.produce("numbers", [(None, f"n{step}".encode())], partition=step % 2)
    stepper.produce("others", [(None, f"o{step}".encode())])


@pytest.mark.parametrize("after", [1, 4])
def test_a_new_node_goes_on_after_the_last_step(run_scenario: RunScenario, after: int) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        for step in range(1, after + 1):
            produce(stepper, step)
            await stepper.step()
        await stepper.engine.close()
        stepper.engine.shut_down()
        lose(stepper.work_root)
        stepper.engine = stepper._engine()
        assert stepper.engine.openable() == ()
        await stepper.engine.open(after, create=True)
        assert stepper.engine.openable() == (after,)
        await stepper.engine.pin(after)
        for step in (after + 1, after + 2):
            produce(stepper, step)
            await stepper.step()
        assert stepper.engine.openable() == (after + 2, after + 1, after)
        await stepper.engine.open(after, create=False)
        await stepper.replay(after + 1)
        await stepper.replay(after + 2)
        steps = range(1, after + 3)
        assert sorted((row.step, row.value) for row in stepper.committed("out")) == [
            (step, f"N{step}".encode()) for step in steps
        ]
        assert sorted(row.step for row in stepper.committed("twice")) == [
            step for step in steps for _ in range(2)
        ]
        assert {(row.step, row.value) for row in stepper.committed("both")} == {
            (step, f"{name}{step}".encode()) for step in steps for name in "no"
        }
        assert stepper.failures == []

    run_scenario([upper, repeated, united], scenario, INPUTS, OUTPUTS)


def test_a_pipeline_with_state_can_not(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        with pytest.raises(ConfigurationError, match="keeps state begins at step 0, not 4"):
            await stepper.engine.open(4, create=True)

    run_scenario(
        [counts], scenario, {"numbers": (2, {})}, {"out": (2, {"key": "name", "value_format": "json"})}
    )
