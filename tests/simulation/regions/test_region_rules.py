"""Each rule of a region, switched off: the simulator must then find what the rule is there for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import pytest

from kcontrol.apps.regions import defining
from kcontrol.core.regions import cut, decide, definitions, wave
from kcontrol.core.regions.events import MemberJoined, RollbackAbandoned
from kcontrol.core.regions.model import Region, RegionState
from kcontrol.core.regions.model import told as right_told
from kcontrol.core.regions.table import RegionCause
from tests.simulation.invariants import Violation
from tests.simulation.regions import definitions as defined
from tests.simulation.regions import invariants as inv
from tests.simulation.regions import members, waves
from tests.simulation.regions.definitions import DefinitionSchedule
from tests.simulation.regions.schedule import RegionSchedule
from tests.simulation.regions.waves import DrainSchedule

SCHEDULES = 600
Broken = tuple[Any, str, Callable[..., Any]]


@dataclass(frozen=True)
class RegionRule:
    """A rule by its name, what switches it off, and the invariants of which one then breaks."""

    name: str
    broken: Broken
    invariants: tuple[str, ...]
    kind: type[RegionSchedule | DrainSchedule | DefinitionSchedule] = RegionSchedule

    def __str__(self) -> str:
        return self.name


def _overwrites(before: Any, now: Any) -> bool:
    return True


def _unnoticed(region: Region, event: MemberJoined, cause: RegionCause) -> Region:
    return region if cause is RegionCause.NEW_LIFE else _right_fall_ill(region, event, cause)


_right_fall_ill = decide._fall_ill
_right_give_up = decide._on_rollback_abandoned
_right_limits = wave._limits
_right_standing = cut.standing


def _forgets_rollback(region: Region) -> Region:
    return decide._begun_anew(replace(region, state=RegionState.STARTED, going_back_to=0))


def _given_up_and_under_way(region: Region, event: RollbackAbandoned) -> Region:
    return replace(_right_give_up(region, event), going_back_to=region.going_back_to)


def _told_to_any_life(region: Region, member: str, life: int) -> Any:
    return right_told(region, member, region.lives.get(member, life))


def _told_to_go_on(region: Region, member: str, life: int) -> Any:
    return right_told(replace(region, is_held=False, holds_next=False), member, life)


def _some_limits(graph: Any, drain: Any, name: str) -> dict[Any, int]:
    """Those of the first writer alone."""
    found = _right_limits(graph, drain, name)
    first = min((topic for topic, _ in found), default="")
    return {place: end for place, end in found.items() if place[0] == first}


def _hears_any_drain(graph: Any, drain: Any, name: str, answer: Any) -> Any:
    if name not in drain.orders:
        return drain
    drain_cuts = drain.cuts if answer.cut is None else {**drain.cuts, name: answer.cut}
    heard = wave.DrainWave(drain.number, drain.mode, drain.orders, drain.noted | {name}, drain_cuts)
    return wave.advance(graph, heard)


def _before_the_last(last: Any, asked: Any, written: Any) -> Any:
    right = _right_standing(last, asked, written)
    begun = {(each.topic, each.partition): each.from_ for each in last.outputs}
    return cut.PipelineCut(right.step, right.positions, {**right.ends, **begun})


def _believes_brokers(last: Any, asked: Any, written: Any) -> Any:
    return _right_standing(last, asked, {})


def _knows_the_last_step(last: Any, asked: Any, written: Any) -> Any:
    return _right_standing(last, asked, cut.written_up_to([last]))


def _limits_where_written(last: Any, asked: Any, written: Any) -> Any:
    """By the last step."""
    now = cut.written_up_to([last])
    return _right_standing(last, now, now)


RULES = [
    RegionRule(
        "an alarm that was called off means nothing",
        (decide, "_is_set", lambda region, event: True),
        (inv.OLD_ALARMS,),
    ),
    RegionRule(
        "a cut takes all members",
        (decide, "_have_all", lambda region: len(region.completions) >= 1),
        (inv.AFTER_SAVES, inv.TOGETHER, inv.ONE_CUT),
    ),
    RegionRule(
        "what a reset needs is not retired",
        (decide, "_retired", lambda region: region.current_seq_id),
        (inv.RETIRED,),
    ),
    RegionRule(
        "a reset is done by what was told at this attempt",
        (decide, "_is_this_reset", lambda region, event: event.seq_id == region.last_completed_seq_id),
        (inv.ONE_CUT,),
    ),
    RegionRule(
        "the number of a drain that was interrupted is not used again",
        (decide, "_number_after", lambda region: region.current_seq_id),
        (inv.ONCE,),
    ),
    RegionRule(
        "a region goes back to nothing that it has not come to",
        (decide, "_can_go_back", lambda region, number: True),
        (inv.REACHABLE,),
    ),
    RegionRule(
        "another coordinator goes on with a rollback",
        (decide, "_on_took_over", lambda region, event: _forgets_rollback(region)),
        (inv.TAKEN_BACK,),
    ),
    RegionRule(
        "what is said of another rollback counts for nothing",
        (decide, "_is_this_rollback", lambda region, event: True),
        (inv.ALL_BACK, inv.TAKEN_BACK),
    ),
    RegionRule(
        "a rollback that is given up is under way no more",
        (decide, "_on_rollback_abandoned", _given_up_and_under_way),
        (inv.TAKEN_BACK,),
    ),
    RegionRule("who is held is not told to go on", (members, "told", _told_to_go_on), (inv.STAYS,)),
    RegionRule("attempts are bounded", (decide, "_is_spent", lambda region: False), (inv.BOUNDED,)),
    RegionRule(
        "a takeover is followed by a reset",
        (decide, "_must_reset_after_takeover", lambda: False),
        (inv.RESET_AFTER_TAKEOVER, inv.ONCE),
    ),
    RegionRule(
        "who has saved is not set back by a message that was late",
        (decide, "_is_progress", _overwrites),
        (inv.MEMBERS_ONLY,),
    ),
    RegionRule(
        "what an older life says counts for nothing",
        (decide, "_must_count", lambda region, member, life: decide._must_be_member(region, member)),
        (inv.ONE_CUT, inv.AFTER_SAVES),
    ),
    RegionRule(
        "only members count", (decide, "_must_be_member", lambda region, member: None), (inv.MEMBERS_ONLY,)
    ),
    RegionRule(
        "a new life makes the region unhealthy, even if nobody saw the old one gone",
        (decide, "_fall_ill", _unnoticed),
        (inv.RESET_FIRST, inv.ONE_CUT, inv.COMES_BACK),
    ),
    RegionRule(
        "a life that the region does not know is told nothing",
        (members, "told", _told_to_any_life),
        (inv.RESET_FIRST,),
    ),
    RegionRule(
        "a pipeline goes on only once its readers know their limits",
        (wave, "_may_go_on", lambda graph, drain, name: name in drain.cuts),
        (waves.NO_FLIGHT,),
        DrainSchedule,
    ),
    RegionRule(
        "a reader has limits of all its writers",
        (wave, "_limits", _some_limits),
        (waves.NO_FLIGHT,),
        DrainSchedule,
    ),
    RegionRule(
        "what is said of another drain counts for nothing",
        (wave, "hear_answer", _hears_any_drain),
        (waves.NO_FLIGHT,),
        DrainSchedule,
    ),
    RegionRule(
        "ends are those of the step of the cut",
        (cut, "standing", _before_the_last),
        (waves.NO_FLIGHT, waves.AS_RECOMPUTED),
        DrainSchedule,
    ),
    RegionRule(
        "an end that was asked may be old",
        (cut, "standing", _believes_brokers),
        (waves.AS_RECOMPUTED,),
        DrainSchedule,
    ),
    RegionRule(
        "an end that was asked may be older than the last step but one",
        (cut, "standing", _knows_the_last_step),
        (waves.AS_RECOMPUTED,),
        DrainSchedule,
    ),
    RegionRule(
        "there is a limit in partitions that nothing was written to",
        (cut, "standing", _limits_where_written),
        (waves.NO_FLIGHT,),
        DrainSchedule,
    ),
    RegionRule(
        "a cut is looked at before it is recorded",
        (cut, "in_flight", lambda graph, cuts, after: ()),
        (waves.AS_RECOMPUTED,),
        DrainSchedule,
    ),
    RegionRule(
        "of two definitions that follow one the first stands",
        (definitions, "_counts", lambda before, each: True),
        (defined.NOT_UNSEEN,),
        DefinitionSchedule,
    ),
    RegionRule(
        "of two regions with a pipeline in common that are defined at once the second is told so",
        (defining, "_sooner", lambda stood, found, made: []),
        (defined.ALONE,),
        DefinitionSchedule,
    ),
]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_a_rule_that_is_switched_off_is_found(rule: RegionRule) -> None:
    found = set()
    with patch.object(*rule.broken):
        for seed in range(SCHEDULES):
            try:
                rule.kind(seed).run()
            except Violation as violation:
                if violation.name in rule.invariants:
                    print(f"seed {seed}: {violation.name}")  # noqa: T201
                    return
                found.add(violation.name)
            except LookupError:
                found.add("the table has no such row")
    pytest.fail(f"{SCHEDULES} schedules did not find {rule.invariants}, only {found or 'nothing'}")
