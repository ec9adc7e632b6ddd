"""A rollback that can't be completed is given up: who is back is written, and the region goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kcontrol.core.regions.leading import began
from kcontrol.core.regions.log_view import RegionLogView, read_on
from kcontrol.core.regions.model import RegionSettings, RegionState
from kcontrol.core.regions.records import (
    CutPipeline,
    RegionAnswer,
    RegionCut,
    RegionOutcome,
    RegionRequest,
    RegionRequestKind,
    RegionRollback,
)
from kcontrol.core.regions.value import WrittenBy, change_of
from kcontrol.sessions.region_ports import MembersSeen
from tests.unit.regions.led import IdleMembers, LedRegion

SETTINGS = RegionSettings("orders", ("a", "b"), period_ms=1_000)
KIND = RegionRequestKind.ROLLBACK


@dataclass
class Members(IdleMembers):
    """The RegionMembers port: `a` can be taken back, `b` never. given_up: so often nobody was to be taken back any more."""

    given_up: int = 0

    async def drain(self, number: int, *, stays: bool) -> tuple[CutPipeline, ...] | None:
        return tuple(CutPipeline(name, 1, (), ()) for name in self.seen.lives)

    async def release(self, number: int) -> frozenset[str]:
        return frozenset(self.seen.lives)

    async def hold(self, number: int) -> Mapping[str, int]:
        return dict.fromkeys(self.seen.lives, 1)

    async def refuses(self, cut: RegionCut, request: RegionRequest) -> str | None:
        return ""

    async def take_back(self, cut: RegionCut, rollback: RegionRollback) -> frozenset[str]:
        return frozenset("a")

    async def give_up(self, cut: RegionCut, rollback: RegionRollback) -> frozenset[str]:
        self.given_up += 1
        return frozenset("a")


def asked(region: LedRegion, to_cut: int, name: str, gives_up: str = "") -> None:
    as_of = region.changes()[-1].number
    region.asked.wanted[KIND] = RegionRequest(
        "orders", KIND, "ana", 1, name, to_cut=to_cut, why="wrong", as_of=as_of, gives_up=gives_up
    )


def answers(region: LedRegion) -> Sequence[RegionAnswer]:
    return region.changes()[-1].answers


def test_a_rollback_of_which_one_pipeline_is_never_back_is_given_up() -> None:
    members = Members(MembersSeen())
    region = LedRegion(SETTINGS, members=members)
    region.until(lambda newest: newest.last_completed_seq_id > 1)
    asked(region, 1, "r1")
    region.until(lambda newest: any(member.part for member in newest.members) and newest.rollback is not None)
    asked(region, 0, "r2")
    over = region.until(lambda newest: newest.rollback is None)
    assert members.given_up == 1
    (answer,) = answers(region)
    who = "back at cut 1: a; not: b"
    assert answer == RegionAnswer(KIND, "r2", RegionOutcome.DONE, 1, who)
    (given_up,) = [one for one in region.changes() if one.gives_up]
    assert (given_up.happened.why, given_up.state) == (f"by ana: wrong; {who}", RegionState.STARTED)
    view = read_on(RegionLogView(), region.topic.records)
    assert max(view.cuts) == over.last_completed_seq_id == 1, "cuts after it are void"
    later = region.until(lambda newest: newest.last_completed_seq_id > 1)
    assert later.last_completed_seq_id > 2, "no number is used twice"
    region.end()


def test_one_that_was_not_meant_is_gone_on_with() -> None:
    """Who has read that `r0` is under way gives up that one, and not the one that came since."""
    members = Members(MembersSeen())
    region = LedRegion(SETTINGS, members=members)
    region.until(lambda newest: newest.last_completed_seq_id > 1)
    asked(region, 1, "r1")
    region.until(lambda newest: newest.rollback is not None)
    asked(region, 0, "r2", gives_up="r0")
    region.until(lambda newest: any(one.request_id == "r2" for one in newest.answers))
    (answer,) = answers(region)
    assert answer.outcome is RegionOutcome.REFUSED
    assert "the rollback that was meant is over; another one is under way, to cut 1" in answer.why
    assert (members.given_up, region.changes()[-1].state) == (0, RegionState.GOING_BACK)
    asked(region, 0, "r3", gives_up="r1")
    region.until(lambda newest: newest.rollback is None)
    assert members.given_up == 1
    region.end()


def test_one_whose_cut_an_older_version_has_forgotten_says_so_and_is_given_up() -> None:
    """It ended the process, again at each start."""
    region = LedRegion(SETTINGS, members=Members(MembersSeen()))
    first = began(region.asked.definitions["orders"])
    change = change_of(first.value, first.happened, WrittenBy("an older one", 1, 1))
    rollback = RegionRollback(7, "r1", "ana", "wrong", ())
    region.topic.records.append(
        replace(change, state=RegionState.GOING_BACK, rollback=rollback, last_completed_seq_id=9)
    )

    def waits_for() -> str:
        beat = read_on(RegionLogView(), region.topic.records).beat
        return "" if beat is None else "; ".join(beat.waits_for)

    region.loop.run_while(lambda: not waits_for(), 3_600.0)
    assert waits_for() == "cut 7 (the log has it no more: kcontrol region rollback orders --abandon)"
    asked(region, 0, "r2")
    region.until(lambda newest: newest.rollback is None)
    assert answers(region)[0].why == "back at cut 7: none; not: a, b"
    region.end()
