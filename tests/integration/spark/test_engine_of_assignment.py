"""A node's engine once the layout was changed: what it had counts for nothing, and it begins with the shards that it owns now
out of the parts of those who owned them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from kcontrol.adapters.spark.channel.answers import ChannelEndpoint
from kcontrol.adapters.spark.engine.engine import SparkEngine
from kcontrol.adapters.spark.engine.node_place import NodePlace
from kcontrol.adapters.spark.query.bind import bind
from kcontrol.core.model import Assignment, Checkpoint, SavedPart
from tests.integration.spark.conftest import RunScenario
from tests.integration.spark.stepper import Stepper
from tests.integration.spark.test_exchange_stages import (
    FORMATTED,
    ME,
    OTHER,
    produced,
    run_two,
    stepped,
    totals,
    written,
)
from tests.support.sharded import state_in

ALL_MINE, SHARED = (0, 0, 0, 0), (0, 1, 0, 1)


def by_assignment(stepper: Stepper, number: int, owners: tuple[int, ...]) -> None:
    stepper.spec = replace(stepper.spec, assignment=number, owners=owners)


async def saved(stepper: Stepper, step: int, location: str) -> Checkpoint:
    """A checkpoint whose only part is of this node, which has owned everything."""
    await stepper.engine.pin(step)
    files = await stepper.engine.save(step, 1, location)
    part = SavedPart(ME, stepper.incarnation, files.manifest, files.files, files.size_bytes)
    name = stepper.pipeline.name
    made_by = Assignment(name, 1, 0, 2, ALL_MINE, (), (), 0, 0, "", 0)
    return Checkpoint(name, step, 1, 0, location, (part,), 0, 0, "", 0, 0, -1, made_by)


def shards_run(stepper: Stepper, node: int, incarnation: int) -> set[int]:
    home = stepper.work_root / stepper.pipeline.name / f"node-{node}" / f"inc-{incarnation}"
    [history] = home.glob("history-*")
    return state_in(history / "out")


def test_what_a_node_gives_away_another_begins_with(run_scenario: RunScenario, tmp_path: Path) -> None:
    async def scenario(stepper: Stepper) -> None:
        by_assignment(stepper, 1, ALL_MINE)
        await stepper.new_incarnation()
        await stepper.engine.open(0, create=True)
        users = [f"u{number}" for number in range(20)]
        for step in (1, 2):
            produced(stepper, *[(user, step) for user in users])
            await stepped(stepper, [("other", step)])
        checkpoint = await saved(stepper, 2, (tmp_path / "durable").as_uri())
        assert shards_run(stepper, ME, stepper.incarnation) == {0, 1, 2, 3}

        by_assignment(stepper, 2, SHARED)
        await stepper.new_incarnation()
        assert stepper.engine.openable() == ()
        assert await stepper.engine.restorable([checkpoint]) == (2,)
        await stepper.engine.open(2, create=False, checkpoint=checkpoint)
        assert stepper.engine.openable() == (2,)
        assert shards_run(stepper, ME, stepper.incarnation) == {0, 2}
        produced(stepper, *[(user, 3) for user in users])
        await stepped(stepper, [("other", 3)])
        assert [(row["n"], row["total"]) for row in written(stepper, "other")] == [(1, 1), (2, 3), (3, 6)]
        mine = {
            row["user"] for each in stepper.committed("out") if each.step == 3 for row in [told(each.value)]
        }
        assert mine < {*users, "other"}, "the others are not its own any more"
        await stepper.new_incarnation()
        assert stepper.engine.openable() == (3, 2)
        await stepper.engine.open(2, create=False)
        await stepper.replay(3)

        await stepper.engine.close()  # Both have queries of the same names.
        host = ChannelEndpoint(stepper.spark, stepper.settings)
        bound = bind(stepper.pipeline, stepper.spark, host.channel.address, False)
        place = NodePlace(OTHER, stepper.work_root, "log")
        new = SparkEngine(stepper.spark, bound, host, place, stepper.spec, 1, stepper.failures.append)
        assert (new.openable(), await new.restorable([checkpoint])) == ((), (2,))
        await new.open(2, create=False, checkpoint=checkpoint)
        assert shards_run(stepper, OTHER, 1) == {1, 3}
        await new.close()
        new.shut_down()
        host.close()

    run_two(run_scenario, totals, scenario, **FORMATTED)


def told(value: bytes | None) -> dict[str, str]:
    found: dict[str, str] = json.loads(value or b"")
    return found
