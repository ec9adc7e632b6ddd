"""A controller's session of one region in memory, on virtual time; its pipelines are well and do nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from kcontrol.core.regions.log_view import RegionLogView, read_on
from kcontrol.core.regions.model import RegionSettings
from kcontrol.core.regions.records import (
    CutPipeline,
    RegionChange,
    RegionCut,
    RegionDefinition,
    RegionRequest,
    RegionRollback,
)
from kcontrol.sessions.region import RegionSession
from kcontrol.sessions.region_ports import MembersSeen
from kcontrol.wire.regions import region_bytes, region_record
from tests.fakes.memory_regions import MemoryRegionLog, MemoryRegionTopic
from tests.simulation.regions.asked import Asked
from tests.simulation.regions.modelled import LoopClock
from tests.simulation.sessions.loop import SeededLoop


@dataclass
class IdleMembers:
    """The RegionMembers port: nobody comes to a cut, and nobody is let go. seen: how they are."""

    seen: MembersSeen
    waits_for: tuple[str, ...] = ()
    orders: list[str] = field(default_factory=list)

    async def look(self, members: Sequence[str]) -> MembersSeen:
        return self.seen

    async def drain(self, number: int, *, stays: bool) -> tuple[CutPipeline, ...] | None:
        return None

    async def hold(self, number: int) -> Mapping[str, int]:
        return {}

    async def release(self, number: int) -> frozenset[str]:
        return frozenset()

    async def refuses(self, cut: RegionCut, request: RegionRequest) -> str | None:
        return "nobody is taken back"

    async def take_back(self, cut: RegionCut, rollback: RegionRollback) -> frozenset[str]:
        return frozenset()

    async def give_up(self, cut: RegionCut, rollback: RegionRollback) -> frozenset[str]:
        return frozenset()

    def let_go(self) -> None:
        """Nothing was done."""


class LedRegion:
    """One region, whose definition was written and read as it is in Kafka."""

    def __init__(
        self,
        settings: RegionSettings,
        hint: Callable[[Collection[str]], None] | None = None,
        members: IdleMembers | None = None,
    ) -> None:
        """members: instead of those that do nothing."""
        name = settings.region
        definition = region_record(
            region_bytes(RegionDefinition(name, settings, "ana", 0, "d1")), "a definition"
        )
        assert isinstance(definition, RegionDefinition)
        self.loop, self.topic = SeededLoop(Random(1), 0.0), MemoryRegionTopic()
        self.asked = Asked({name: definition})
        seen = MembersSeen(dict.fromkeys(settings.pipelines, 1), healthy=True)
        self.members = members or IdleMembers(seen)
        self.members.seen = seen
        self.session = RegionSession(
            *(name, "c", MemoryRegionLog(self.topic), self.asked, self.members, LoopClock(self.loop, 0)),
            hint=hint,
        )
        self.loop.create_task(self.session.run())

    def until(self, wanted: Callable[[RegionChange], bool], within_s: float = 3_600.0) -> RegionChange:
        """The newest change, once it is so."""
        self.loop.run_while(lambda: not (self._newest and wanted(self._newest)), within_s)
        newest = self._newest
        assert newest is not None, newest
        assert wanted(newest), newest
        return newest

    def changes(self) -> list[RegionChange]:
        return [one for one in self.topic.records if isinstance(one, RegionChange)]

    @property
    def _newest(self) -> RegionChange | None:
        return read_on(RegionLogView(), self.topic.records).newest

    def end(self) -> None:
        self.session.stop()
        self.loop.end()
