"""A region whose drains stop all: a pipeline that has come to its cut stands until every member has done its part."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from kcontrol.core.regions.model import DrainMode, RegionSettings, RegionState
from kcontrol.core.regions.participants import ParticipantSaid
from kcontrol.core.regions.records import CutPipeline, RegionSaid, SaidKind
from kcontrol.sessions.region_ports import MembersSeen
from tests.unit.regions.led import IdleMembers, LedRegion

SETTINGS = RegionSettings("orders", ("a", "b", "mq"), period_ms=1_000, participants=("mq",))


@dataclass
class Members(IdleMembers):
    """The RegionMembers port: all come to a cut at once. stays: as a drain was asked for. let_go: so often all may go on."""

    stays: set[bool] = field(default_factory=set)
    went_on: int = 0

    async def drain(self, number: int, *, stays: bool) -> tuple[CutPipeline, ...] | None:
        self.stays.add(stays)
        return tuple(CutPipeline(name, 1, (), ()) for name in "ab")

    async def hold(self, number: int) -> dict[str, int]:
        return {"a": 1, "b": 1}

    async def release(self, number: int) -> frozenset[str]:
        self.went_on += 1
        return frozenset("ab")


@pytest.mark.parametrize("mode", DrainMode)
def test_pipelines_stand_until_participants_have_saved_their_part(mode: DrainMode) -> None:
    members = Members(MembersSeen())
    region = LedRegion(replace(SETTINGS, drain=mode), members=members)
    said = 0

    def say(kind: SaidKind, seq_id: int = 0) -> None:
        nonlocal said
        said += 1
        word = RegionSaid("orders", "mq", "p", -1 if said == 1 else 1, kind, 1, seq_id)
        region.asked.words["mq"] = ParticipantSaid(said, word)

    def wait(seconds: float) -> None:
        end_s = region.loop.time() + seconds
        region.loop.run_while(lambda: region.loop.time() < end_s, end_s)

    wait(1)
    say(SaidKind.JOINED)
    wait(1)
    say(SaidKind.JOINED)
    draining = region.until(lambda newest: newest.state is RegionState.DRAINING, 20.0)
    wait(2)
    before = members.went_on
    for _ in range(3):
        say(SaidKind.JOINED)
        wait(5)
    is_stopped = mode is DrainMode.STOPPED
    assert (members.went_on == before, members.stays) == (is_stopped, {is_stopped})
    say(SaidKind.CHECKPOINT_DONE, draining.current_seq_id)
    region.until(lambda newest: newest.last_completed_seq_id > 0, 60.0)
    wait(0.9)
    assert members.went_on > before
    region.end()
