"""What must hold of a region after every event, each by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcontrol.core.regions.events import (
    AlarmWentOff,
    RegionEvent,
    ResetAsked,
    ResumeAsked,
    RollbackAbandoned,
    RollbackAsked,
    RolledBack,
    TookOver,
)
from kcontrol.core.regions.model import Region, RegionState
from tests.simulation.invariants import require

if TYPE_CHECKING:
    from tests.simulation.regions.schedule import RegionSchedule

NEVER_BACK = "the last completed cut never goes back"
AFTER_SAVES = "a cut counts only once every member has saved its part"
TOGETHER = "nobody goes on from a cut before all have come to it"
ONCE = "a number is one drain's"
RETIRED = "nothing that a reset needs is forgotten"
ONE_CUT = "after a reset all stand at the same cut"
RESET_FIRST = "a new life goes on only after it was reset"
BOUNDED = "attempts are bounded"
ONLY_BY_FORCE = "out of spent attempts only force leads, or another coordinator"
OLD_ALARMS = "an older alarm changes nothing"
IGNORED = "what is ignored changes nothing"
MEMBERS_ONLY = "only members are counted, and what they have done stays done"
RESET_AFTER_TAKEOVER = "a takeover passes through a reset before the next drain"
COMES_BACK = "with every hint lost it comes back, and completes another cut"


TAKEN_BACK = "a rollback that was begun comes to its end, or is given up, and nothing else happens meanwhile"
ALL_BACK = "a rollback that nobody gives up is over once every member is back"
STAYS = "who is held stays so until somebody lets it go on"
REACHABLE = "a region goes back to a cut that it has completed, and to no other"


def check_event(now: RegionSchedule, before: Region, event: RegionEvent, ignored: bool) -> None:
    """After each event. What holds of a region that is the very same as before has been found when it became so."""
    after = now.region
    if isinstance(event, RollbackAsked) and not ignored:
        require(event.seq_id in now.completed, REACHABLE, (event, before))
    if isinstance(event, TookOver):
        now.owes_reset = True
    if after is not before:
        _check_change(now, before, event, ignored)


def _check_change(now: RegionSchedule, before: Region, event: RegionEvent, ignored: bool) -> None:
    after, current, completed = now.region, now.region.current_seq_id, now.region.last_completed_seq_id
    back = before.state is RegionState.GOING_BACK and after.state is RegionState.STARTED
    require(back or completed >= before.last_completed_seq_id, NEVER_BACK, after)
    _check_going_back(now, before, event, back)
    if before.is_held and not after.is_held:
        require(isinstance(event, ResumeAsked), STAYS, (event, after))
    require(current > completed and current >= before.current_seq_id, ONCE, after)
    require(after.reset_attempt <= after.max_reset_attempts, BOUNDED, after)
    require(after.to_retire_seq_id < completed or completed == 0, RETIRED, after)
    require(not ignored or after == before, IGNORED, event)
    if after.completions is not before.completions:
        _check_members(before, after, event)
    if isinstance(event, AlarmWentOff) and event.timer != before.timer:
        require(after == before, OLD_ALARMS, event)
    if before.state is RegionState.SPENT and after.state is not RegionState.SPENT:
        forced = isinstance(event, ResetAsked) and event.force
        require(forced or isinstance(event, TookOver | RollbackAsked), ONLY_BY_FORCE, event)
    _check_states(now, before, back)


def _check_members(before: Region, after: Region, event: RegionEvent) -> None:
    require(after.completions.keys() <= set(after.settings.members), MEMBERS_ONLY, after.completions)
    if after.state is before.state and after.current_seq_id == before.current_seq_id:
        gone_back = {
            name
            for name, part in before.completions.items()
            if part != after.completions.get(name) and part != "blocking_done"
        }
        require(not gone_back or not after.completions, MEMBERS_ONLY, (event, gone_back))


def _check_going_back(now: RegionSchedule, before: Region, event: RegionEvent, back: bool) -> None:
    """Once begun nothing else happens before it is over, and it is over once all are back, each by itself."""
    after = now.region
    require((after.going_back_to > 0) == (after.state is RegionState.GOING_BACK), TAKEN_BACK, after)
    if before.state is RegionState.GOING_BACK:
        require(after.state is RegionState.GOING_BACK or back, TAKEN_BACK, (event, after))
        require(after.going_back_to <= before.going_back_to, TAKEN_BACK, (event, after))
    if not back:
        return
    number, is_given_up = before.going_back_to, isinstance(event, RollbackAbandoned)
    require(is_given_up or isinstance(event, RolledBack), TAKEN_BACK, event)
    require(after.last_completed_seq_id == number, TAKEN_BACK, event)
    for member in now.members:
        require(is_given_up or member.back_at == number, ALL_BACK, (member, number))
    now.completed = {cut for cut in now.completed if cut <= number}
    now.counts["rolled back"] += not is_given_up


def _check_states(now: RegionSchedule, before: Region, back: bool) -> None:
    after = now.region
    if back:
        now.owes_reset = True
    if after.state is RegionState.RESETTING:
        now.owes_reset = False
    if after.state is RegionState.DRAINING and before.state is not RegionState.DRAINING:
        number = after.current_seq_id
        require(not now.owes_reset, RESET_AFTER_TAKEOVER, after)
        require(number not in now.drains, ONCE, number)
        now.drains.add(number)
    if after.last_completed_seq_id > before.last_completed_seq_id:
        _check_cut(now, after.last_completed_seq_id)
    if after.state is RegionState.PROCESSING and before.state is RegionState.RESETTING:
        for member in now.members:
            if member.up and member.life == after.lives[member.name]:
                require(member.held or not after.is_held, STAYS, (member, after))
                require(member.at == after.last_completed_seq_id, ONE_CUT, (member, after))


def _check_cut(now: RegionSchedule, number: int) -> None:
    now.counts["cuts"] += 1
    now.completed.add(number)
    for member in now.members:
        require(number in member.saved, AFTER_SAVES, (number, member))
    came = max(now.came_to[number].values())
    for name, tick in now.left.get(number, {}).items():
        require(tick >= came, TOGETHER, (number, name, tick, came))
