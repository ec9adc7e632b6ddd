"""A node's disk is wiped: what was pinned and saved comes back, and Spark goes on from it to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kcontrol.adapters.spark.state.workdir import WorkDir
from tests.integration.spark.conftest import RunScenario
from tests.integration.spark.stepper import Stepper
from tests.replay import queries
from tests.replay.test_replay import JSON, KEYED, SPREAD, check_committed, feed, step_and_its_empty_ones
from tests.support.dice import seeded
from tests.support.lost_directory import lose
from tests.support.restoring import restored_from

CHANGELOGS = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"

CASES = [
    # The next one makes the same steps on changelogs, after those on snapshots.
    pytest.param(
        [queries.update], {"out": (3, KEYED)}, False, marks=pytest.mark.heavy, id="aggregate, changelogs"
    ),
    pytest.param([queries.update], {"out": (3, KEYED)}, True, id="aggregate, a snapshot and changelogs"),
    pytest.param([queries.outer_join], {"out": (2, JSON)}, True, id="stream-stream outer join"),
    pytest.param([queries.timers], {"out": (2, JSON)}, False, id="transformWithState"),
    pytest.param(
        [queries.stateless, queries.counted], {"out": (2, JSON), "more": (2, KEYED)}, False, id="two queries"
    ),
]


def workdir_of(stepper: Stepper) -> WorkDir:
    return WorkDir(
        stepper.work_root, stepper.pipeline.name, 0, stepper.incarnation, stepper.bound.recorded, retained=100
    )


async def lose_the_disk(stepper: Stepper) -> None:
    """The node's process and its directory are gone; a new incarnation finds nothing."""
    await stepper.engine.close()
    stepper.engine.shut_down()
    lose(stepper.work_root / stepper.pipeline.name)
    stepper.incarnation += 1
    stepper.engine = stepper._engine()
    assert stepper.engine.openable() == ()


async def open_with_snapshots(stepper: Stepper) -> None:
    """Queries take their settings when they start: until they are opened again, each step uploads the whole
    state."""
    stepper.spark.conf.set(CHANGELOGS, "false")
    try:
        await stepper.engine.open(0, create=True)
    finally:
        stepper.spark.conf.set(CHANGELOGS, "true")


@pytest.mark.parametrize(("functions", "outputs", "snapshots"), CASES)
def test_a_node_that_lost_its_disk_goes_on_from_a_checkpoint(
    run_scenario: RunScenario,
    tmp_path: Path,
    functions: list[Callable[..., Any]],
    outputs: dict[str, Any],
    snapshots: bool,
) -> None:
    dice = seeded()
    inputs = ["events", "others"] if functions == [queries.outer_join] else ["events"]
    location = (tmp_path / "durable").as_uri()

    async def steps(stepper: Stepper, count: int) -> int:
        for _ in range(count):
            feed(stepper, inputs, len(stepper.log) + 1, dice)
            await step_and_its_empty_ones(stepper)
        return len(stepper.log)

    async def save(stepper: Stepper, step: int) -> str:
        await stepper.engine.pin(step)
        return (await stepper.engine.save(step, 1, location)).manifest

    async def scenario(stepper: Stepper) -> None:
        if snapshots:
            await open_with_snapshots(stepper)
            await stepper.engine.open(await steps(stepper, 2), create=False)
        else:
            await stepper.engine.open(0, create=True)
        await save(stepper, await steps(stepper, 2))
        second = await steps(stepper, 1)
        manifest = await save(stepper, second)
        last = await steps(stepper, 2)
        for _ in range(2):
            await lose_the_disk(stepper)
            assert restored_from(workdir_of(stepper), location, manifest) == second
            assert stepper.engine.openable() == (second,)
            await stepper.engine.open(second, create=False)
            for step in range(second + 1, last + 1):
                await stepper.replay(step)
            second = await steps(stepper, 1)
            manifest = await save(stepper, second)
            last = await steps(stepper, 1)
        check_committed(stepper)
        assert not stepper.failures

    run_scenario(functions, scenario, {name: (2, {}) for name in inputs}, outputs, layout=SPREAD)
