"""What the log of a region tells of its drains and resets, once it has forgotten the changes that these were."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kcontrol.core.regions.history import AVERAGED, folded, history_of
from kcontrol.core.regions.log_view import RegionLogView, read_on
from kcontrol.core.regions.model import RegionSettings
from kcontrol.core.regions.records import (
    CutPipeline,
    RegionEventKind,
    RegionHistory,
    RegionRequest,
    RegionRequestKind,
)
from kcontrol.sessions.region_ports import MembersSeen
from kcontrol.views.regions_facts import RegionSight
from kcontrol.wire.regions import region_bytes, region_record
from tests.support.written_region import written_region
from tests.unit.regions.led import IdleMembers, LedRegion

MANY = 120
DRAINS = AVERAGED + 2
KEPT_CHANGES = 1_000


@dataclass
class Members(IdleMembers):
    """The RegionMembers port: all come to a cut, and are let go. looks: each drain takes one more than the one
    before. made: drains."""

    looks: int = 0
    made: int = 0

    async def drain(self, number: int, *, stays: bool) -> tuple[CutPipeline, ...] | None:
        self.looks += 1
        if self.looks < number:
            return None
        self.looks, self.made = 0, self.made + 1
        return tuple(CutPipeline(name, 1, (), ()) for name in self.seen.lives)

    async def release(self, number: int) -> frozenset[str]:
        return frozenset(self.seen.lives)


def test_averages_and_the_last_reset_outlive_the_changes_that_they_are_of() -> None:
    """Ten drains of more than a hundred members are more changes than are kept."""
    names = tuple(f"p{number}" for number in range(MANY))
    region = LedRegion(RegionSettings("many", names, period_ms=1_000), members=Members(MembersSeen()))
    kind = RegionRequestKind.RESET
    region.asked.wanted[kind] = RegionRequest("many", kind, "ana", 1, "r1")
    members, records = region.members, region.topic.records
    assert isinstance(members, Members)
    region.loop.run_while(lambda: members.made <= DRAINS, 3_600.0)
    region.end()
    view, written = read_on(RegionLogView(), records), region.changes()
    assert len(view.changes) == KEPT_CHANGES < len(written)
    assert all(each.happened.kind is not RegionEventKind.RESET_DONE for each in view.changes.values())
    whole = history_of(replace(each, history=None) for each in written)
    assert len(set(whole.drain_ms)) == AVERAGED
    assert whole.last_reset_ms > 0
    assert view.history == whole
    assert RegionSight(region.asked.definitions["many"], view).history == whole


def test_a_log_that_an_older_version_has_written_to_is_folded_on() -> None:
    """What that has written is all there is to know it by until it is forgotten."""
    written = written_region().changes
    half, whole = len(written) // 2, history_of(written)
    changes = [replace(each, history=None) for each in written[:half]]
    for each in written[half:]:
        history = folded(history_of(changes), changes[-1], replace(each, history=None))
        changes.append(replace(each, history=history))
    assert history_of(changes) == history_of(changes[half:]) == whole != RegionHistory()


def test_a_history_is_read_as_it_was_written() -> None:
    newest = written_region().changes[-1]
    assert newest.history is not None
    assert region_record(region_bytes(newest), "here") == newest
