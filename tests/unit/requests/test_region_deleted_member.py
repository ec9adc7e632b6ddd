"""A pipeline of a region that is deleted, as the region's controller sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from kcontrol.apps.regions import defining
from kcontrol.apps.regions import members as adapter
from kcontrol.apps.regions.members import PipelineMembers
from kcontrol.core.model import Claim, ControlRecord, PipelinePhase, PipelineSpec, Status
from kcontrol.core.regions.events import HealthSeen, MemberJoined
from kcontrol.core.regions.leading import RegionSeen, began, next_change
from kcontrol.core.regions.model import RegionSettings, RegionState
from kcontrol.core.regions.records import RegionDefinition
from kcontrol.core.regions.value import RegionValue, event_of
from kcontrol.errors import ConfigurationError
from kcontrol.sessions.region_ports import MembersSeen
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.reader import PipelineReader
from tests.fakes.memory_kafka import MemoryControlLog, MemoryKafka, MemoryStepsLog
from tests.support.patience import HANG_S
from tests.unit.core.made import SPEC

NAMES = ("enrich", "totals")


def spec_of(name: str) -> PipelineSpec:
    """`totals` reads what `enrich` writes."""
    reads = {"enrich": "outer", "totals": "enrich.out"}[name]
    inputs = tuple(replace(each, topic=reads) for each in SPEC.inputs)
    outputs = tuple(replace(each, topic=f"{name}.out") for each in SPEC.outputs)
    return replace(SPEC, pipeline=name, inputs=inputs, outputs=outputs)


def begun(name: str) -> list[ControlRecord]:
    return [spec_of(name), Claim(name, "u", "host", 1)]


def runs(name: str) -> Status:
    return Status(name, 0, PipelinePhase.RUNNING, 3, "", (), 0, "", ())


class World:
    """Two pipelines that run, and the adapter that looks at them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kafka = MemoryKafka()

        @asynccontextmanager
        async def logs(_: object, name: str) -> AsyncIterator[Any]:
            yield PipelineReader(name, MemoryControlLog(self.kafka, name), MemoryStepsLog(self.kafka, name))

        monkeypatch.setattr(adapter, "pipeline_logs", logs)
        monkeypatch.setattr(adapter, "HEARD_WITHIN_S", 10 * HANG_S)
        self.members = PipelineMembers(ClusterSettings(bootstrap_servers="127.0.0.1:1"), "orders")

    async def say(self, *records: ControlRecord) -> None:
        await MemoryControlLog(self.kafka, None).append(records)

    async def delete(self, name: str) -> None:
        keys = [f"{name}/spec", f"{name}/status"]
        await MemoryControlLog(self.kafka, None).append([], keys)

    async def running(self, names: Sequence[str]) -> None:
        """Begun, looked at, and heard after that."""
        for name in names:
            await self.say(*begun(name), runs(name))
        await self.members.look(NAMES)
        for name in names:
            await self.say(runs(name))


def follow(value: RegionValue, seen: MembersSeen) -> tuple[RegionValue, list[Any], str]:
    """Where the region is then, what has happened to it, and what was said of that last."""
    happened, why = [], ""
    sight = RegionSeen(seen.lives, seen.healthy, in_line=frozenset(NAMES), why="; ".join(seen.why))
    while (step := next_change(value, DEFINED, sight)) is not None:
        value, why = step.value, step.happened.why
        happened.append(event_of(step.happened))
    return value, happened, why


DEFINED = RegionDefinition("orders", RegionSettings("orders", NAMES), "ana", 1, "d1")


def test_a_pipeline_that_is_deleted_makes_its_region_unhealthy_at_once_until_it_is_submitted_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It made the region's health unknown, which changes nothing: drains were begun that could not be, until no attempt at a
    reset was left."""

    async def run() -> None:
        world = World(monkeypatch)
        await world.running(NAMES)
        seen = await world.members.look(NAMES)
        assert seen.starts == ("enrich",)
        value, _, _ = follow(began(DEFINED).value, seen)
        assert value.region.state is RegionState.PROCESSING
        await world.delete("totals")
        seen = await world.members.look(NAMES)
        value, happened, why = follow(value, seen)
        assert (value.region.state, happened) == (RegionState.UNHEALTHY, [HealthSeen(False)])
        assert why.startswith("totals: it was deleted: submit it again, or define the region without it")
        assert seen.starts == ()
        assert seen.why == (why,), "and the status says so, for as long as it is so"
        assert follow(value, await world.members.look(NAMES))[1] == []
        await world.say(*begun("totals"), runs("totals"))
        value, happened, _ = follow(value, await world.members.look(NAMES))
        assert isinstance(happened[0], MemberJoined)
        assert value.region.state is RegionState.PROCESSING
        await world.members.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("reads", "writes", "why"),
    [
        ("enrich.out", "enrich.out", "pipelines 'enrich' and 'totals' both write topic 'enrich.out'"),
        ("totals.out", "totals.out", "pipelines 'totals' read what they have written themselves"),
    ],
)
def test_a_pipeline_whose_topics_are_changed_so_that_there_is_no_cut_makes_its_region_unhealthy(
    monkeypatch: pytest.MonkeyPatch, reads: str, writes: str, why: str
) -> None:
    """Who defines a region of them is refused with the same sentence."""

    async def run() -> None:
        world = World(monkeypatch)
        await world.running(NAMES)
        value, _, _ = follow(began(DEFINED).value, await world.members.look(NAMES))
        spec = spec_of("totals")
        changed = replace(
            spec,
            inputs=tuple(replace(each, topic=reads) for each in spec.inputs),
            outputs=tuple(replace(each, topic=writes) for each in spec.outputs),
        )
        await world.say(changed)
        value, happened, said = follow(value, await world.members.look(NAMES))
        assert (value.region.state, happened) == (RegionState.UNHEALTHY, [HealthSeen(False)])
        assert said.startswith(why)
        monkeypatch.setattr(
            defining, "specs_of", AsyncMock(return_value={"a": spec_of("enrich"), "b": changed})
        )
        with pytest.raises(ConfigurationError, match=f"region 'orders': {why}"):
            await defining.apply_region(
                ClusterSettings(bootstrap_servers="127.0.0.1:1"), DEFINED.settings, "ana"
            )
        await world.say(spec_of("totals"))
        value, _, _ = follow(value, await world.members.look(NAMES))
        assert value.region.state is RegionState.PROCESSING
        await world.members.close()

    asyncio.run(run())
