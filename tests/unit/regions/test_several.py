"""One process that looks after several regions."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from kcontrol.apps.regions import controller
from kcontrol.apps.regions.controller import RegionController
from kcontrol.backoff import Backoff
from kcontrol.core.regions.model import RegionSettings
from kcontrol.core.regions.records import RegionBeat, RegionDefinition, RegionRecord
from kcontrol.errors import AccessError, TopicError
from kcontrol.sessions.region import RegionTimes
from kcontrol.sessions.region_ports import MembersSeen
from kcontrol.settings.cluster import ClusterSettings
from tests.fakes.memory_regions import MemoryRegionLog, MemoryRegionTopic
from tests.simulation.regions.asked import Asked
from tests.support.patience import HANG_S
from tests.unit.regions.led import IdleMembers

NOBODY = ClusterSettings(bootstrap_servers="127.0.0.1:1")
TIMES = RegionTimes(silence_ms=50, beat_ms=1, look_ms=10)


class Log(MemoryRegionLog):
    """In the world's topics."""

    def __init__(self, world: World, region: str) -> None:
        super().__init__(world.topics[region])
        self._world, self._region = world, region

    async def write(self, records: Sequence[RegionRecord], forget: Sequence[str] = ()) -> None:
        await super().write(records, forget)
        self._world.written.set()


class Members(IdleMembers):
    """Of a region whose pipelines can be looked at, or not."""

    def __init__(self, world: World, region: str) -> None:
        super().__init__(MembersSeen({"p": 1}, healthy=True))
        self._world, self._region = world, region

    async def look(self, members: Sequence[str]) -> MembersSeen:
        if self._region in self._world.broken:
            self._world.failed.set()
            raise self._world.fault
        return await super().look(members)

    async def close(self) -> None:
        """Nothing is open."""


class Regions(Asked):
    """All that are defined."""

    async def close(self) -> None:
        """Nothing is open."""


@dataclass
class World:
    """Kafka, as far as a controller's process can tell. broken: regions whose sessions end by a fault, this one."""

    regions: Regions = field(default_factory=lambda: Regions({}))
    topics: dict[str, MemoryRegionTopic] = field(default_factory=lambda: defaultdict(MemoryRegionTopic))
    broken: set[str] = field(default_factory=set)
    fault: Exception = field(default_factory=lambda: TopicError("the topics of its pipelines are damaged"))
    written: asyncio.Event = field(default_factory=asyncio.Event)
    failed: asyncio.Event = field(default_factory=asyncio.Event)

    def define(self, *names: str) -> None:
        for name in names:
            settings = RegionSettings(name, ("p",))
            self.regions.definitions[name] = RegionDefinition(name, settings, "ana", 1, "d1")

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, made in {
            "ensure_regions_topic": lambda *_: None,
            "ensure_region_log": lambda *_: None,
            "KafkaAskedRegions": lambda _: self.regions,
            "KafkaRegionLog": lambda _, region: Log(self, region),
            "PipelineMembers": lambda _, region: Members(self, region),
        }.items():
            monkeypatch.setattr(controller, name, made)

    async def until_written(self, **many: int) -> None:
        """Until the log of each has so many records."""
        while any(len(self.topics[region].records) < least for region, least in many.items()):
            self.written.clear()
            await self.written.wait()

    def ended(self, region: str) -> bool:
        """Whether whoever was in charge of it has said that it stops."""
        newest = self.topics[region].records[-1]
        return isinstance(newest, RegionBeat) and newest.ended


@asynccontextmanager
async def looked_after(world: World, *names: str) -> AsyncIterator[None]:
    """By a process that is given these names, until the end of the block."""
    looks = RegionController(NOBODY, names, TIMES)
    async with asyncio.timeout(HANG_S), asyncio.TaskGroup() as group:
        group.create_task(looks.run(lambda: None))
        yield
        looks.stop()


def test_all_regions_are_looked_after_at_once_also_those_that_come_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A session goes on until it is stopped: who looked after one region and then the next would never come to that."""

    async def run() -> None:
        world = World()
        world.patch(monkeypatch)
        world.define("a", "b")
        async with looked_after(world):
            await world.until_written(a=5, b=5)
            world.define("late")
            await world.until_written(late=5)
        assert [world.ended(name) for name in ("a", "b", "late")] == [True, True, True]

    asyncio.run(run())


def test_regions_that_were_not_named_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are another process's, of another job."""

    async def run() -> None:
        world = World()
        world.patch(monkeypatch)
        world.define("another", "a", "b")
        async with looked_after(world, "a", "b"):
            await world.until_written(a=5, b=5)
        assert set(world.topics) == {"a", "b"}

    asyncio.run(run())


@pytest.mark.parametrize(
    "fault", [TopicError("its topics are damaged"), AccessError("it may not be read"), KeyError(17)]
)
def test_a_fault_of_one_region_is_no_others_and_it_is_taken_up_again(
    monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """Also where it is a bug of this house: it ended the process, and with it all regions, again at each start."""
    monkeypatch.setattr(controller, "_AGAIN", Backoff(10, 10))

    async def run() -> None:
        world = World(broken={"bad"}, fault=fault)
        world.patch(monkeypatch)
        world.define("bad", "a")
        async with looked_after(world):
            await world.failed.wait()
            await world.until_written(a=len(world.topics["a"].records) + 20)
            world.broken.clear()
            await world.until_written(bad=len(world.topics["bad"].records) + 5)
        assert (world.ended("bad"), world.ended("a")) == (True, True)

    asyncio.run(run())


def test_a_right_that_is_missing_for_the_only_region_ends_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        world = World(broken={"bad"}, fault=AccessError("it may not be read"))
        world.patch(monkeypatch)
        world.define("bad")
        async with asyncio.timeout(HANG_S):
            await RegionController(NOBODY, (), TIMES).run(lambda: None)

    with pytest.raises(ExceptionGroup) as raised:
        asyncio.run(run())
    assert raised.group_contains(AccessError, match="it may not be read")
