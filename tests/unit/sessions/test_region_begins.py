"""When a region begins: with its own definition, whatever other regions there are (decision 157)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from kcontrol.adapters.clock import SystemClock
from kcontrol.core.regions.log_view import RegionLogged
from kcontrol.core.regions.model import RegionSettings
from kcontrol.core.regions.records import RegionChange, RegionDefinition, RegionEventKind
from kcontrol.sessions.region import RegionSession, RegionTimes
from kcontrol.sessions.region_ports import MembersSeen
from tests.fakes.memory_regions import MemoryRegionLog, MemoryRegionTopic
from tests.simulation.regions.asked import Asked

LOOKS_WITHOUT = 5


def defined(region: str) -> RegionDefinition:
    return RegionDefinition(region, RegionSettings(region, (f"{region}-a",)), "ana", 1, region)


@dataclass
class Later(Asked):
    """The definition of `orders` comes at last. before: what was in its log then."""

    topic: MemoryRegionTopic = field(default_factory=MemoryRegionTopic)
    looks: int = 0
    before: list[RegionLogged] | None = None

    async def look(self) -> None:
        await super().look()
        self.looks += 1
        if self.looks > LOOKS_WITHOUT and self.before is None:
            self.before = list(self.topic.records)
            self.definitions["orders"] = defined("orders")


@dataclass
class Topic(MemoryRegionTopic):
    written: Callable[[], None] = lambda: None

    def commit(self, epoch: int, position: int, records: Sequence[RegionLogged]) -> None:
        super().commit(epoch, position, records)
        self.written()


class Nobody:
    """Pipelines of which none was heard yet."""

    waits_for = ()

    async def look(self, members: Sequence[str]) -> MembersSeen:
        return MembersSeen()

    async def release(self, number: int) -> frozenset[str]:
        return frozenset()

    def let_go(self) -> None:
        """Nothing is held."""


def test_a_region_begins_once_it_is_defined_and_does_not_wait_for_others() -> None:
    topic = Topic()
    asked = Later({"others": defined("others")}, topic=topic)
    times = RegionTimes(look_ms=1, busy_ms=1)
    session = RegionSession(
        *("orders", "c", MemoryRegionLog(topic), asked, cast(Any, Nobody()), SystemClock(), times)
    )
    topic.written = session.stop
    asyncio.run(session.run())
    assert asked.before == [], "nothing is decided of a region that is not defined"
    first = topic.records[0]
    assert isinstance(first, RegionChange)
    assert (first.happened.kind, first.definition_id) == (RegionEventKind.DEFINED, "orders")
