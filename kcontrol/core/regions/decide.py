"""What a region makes of an event: the region that follows, or why the event means nothing.

There are no effects. What members are told (`told`) and the alarm that is set (`Region.alarm`, by `Region.timer`) follow
from the region that is durable, so whoever goes on with it needs nothing else, and nothing can be told before it holds.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, assert_never

from kcontrol.core.regions.changed import changed
from kcontrol.core.regions.events import (
    PERSON,
    AlarmWentOff,
    BlockingCheckpointDone,
    CheckpointDone,
    DrainAsked,
    HealthSeen,
    MemberJoined,
    RegionEvent,
    ResetAsked,
    ResetDone,
    ResumeAsked,
    RollbackAbandoned,
    RollbackAsked,
    RolledBack,
    TookOver,
)
from kcontrol.core.regions.model import Alarm, MemberPart, Region, RegionState, Trigger
from kcontrol.core.regions.table import ACTIVE, REGION_OCCASIONS, REGION_TABLE, RegionCause


class WhyIgnored(StrEnum):
    """Why an event changes nothing."""

    AS_BEFORE = "as before"
    """It says what is known."""
    LATE = "late"
    """It is about another drain, another reset, or a state that is over."""
    DOUBLED = "doubled"
    FOREIGN = "not a member"
    OLD_LIFE = "an older life"
    OLD_ALARM = "an older alarm"
    NO_TRIGGER = "may not ask for a drain"
    SPENT = "attempts are spent"
    HELD = "held until somebody lets it go on"
    UNREACHABLE = "no cut that can be gone back to"
    GOING_BACK = "its pipelines are being taken back to a cut, which comes first"


class _IgnoredError(Exception):
    """Raised by handlers, with the reason why: the region stays as it is."""


class RegionDecision(NamedTuple):
    """ignored: why the event meant nothing, and the region is what it was; None: it counted."""

    region: Region
    ignored: WhyIgnored | None = None


def decide_region(region: Region, event: RegionEvent) -> RegionDecision:
    """Never raises, whatever comes in which order."""
    try:
        return RegionDecision(_after(region, event))
    except _IgnoredError as ignored:
        return RegionDecision(region, ignored.args[0])


def _after(region: Region, event: RegionEvent) -> Region:
    match event:
        case AlarmWentOff():
            return _on_alarm(region, event)
        case HealthSeen():
            return _on_health(region, event)
        case MemberJoined():
            return _on_joined(region, event)
        case CheckpointDone():
            return _on_saved(region, event, MemberPart.SAVED)
        case BlockingCheckpointDone():
            return _on_saved(region, event, MemberPart.BLOCKING)
        case ResetDone():
            return _on_reset_done(region, event)
        case DrainAsked():
            return _on_drain_asked(region, event)
        case ResetAsked():
            return _on_reset_asked(region, event)
        case ResumeAsked():
            return _on_resume_asked(region)
        case RollbackAsked():
            return _on_rollback_asked(region, event)
        case RolledBack():
            return _on_rolled_back(region, event)
        case RollbackAbandoned():
            return _on_rollback_abandoned(region, event)
        case TookOver():
            return _on_took_over(region, event)
        case _:
            assert_never(event)


def _go(region: Region, event: RegionEvent, cause: RegionCause) -> Region:
    """Raises LookupError where the table has no such row: that is a bug here."""
    row = region.state, cause
    if type(event) not in REGION_OCCASIONS[row]:
        raise LookupError(f"{cause} while {region.state} on {type(event).__name__}")
    return changed(region, state=REGION_TABLE[row])


def _set_alarm(region: Region, alarm: Alarm | None) -> Region:
    """Whatever alarm was set before is called off."""
    return changed(region, timer=region.timer + 1, alarm=alarm)


# --- health -------------------------------------------------------------------------------------------------


def _on_health(region: Region, event: HealthSeen) -> Region:
    if event.healthy is None or event.healthy == region.is_healthy:
        raise _IgnoredError(WhyIgnored.AS_BEFORE)
    if not event.healthy:
        return _fall_ill(region, event, RegionCause.ILL)
    region = changed(region, is_healthy=True)
    match region.state:
        case RegionState.UNHEALTHY:
            return _try_reset(region, event, RegionCause.WELL)
        case RegionState.STARTED:
            region = changed(region, is_healthy_first_time=True)
            if region.must_reset or not region.is_clean_start:
                return _try_reset(changed(region, must_reset=False), event, RegionCause.MUST_RESET)
            return _await_drain(_go(region, event, RegionCause.CLEAN))
        case _:
            return region


def _on_joined(region: Region, event: MemberJoined) -> Region:
    """A new life knows nothing of what was told to the one before, even if nobody saw it gone."""
    _must_be_member(region, event.member)
    before = region.lives.get(event.member)
    if before is not None and event.life <= before:
        raise _IgnoredError(WhyIgnored.AS_BEFORE if event.life == before else WhyIgnored.OLD_LIFE)
    region = changed(region, lives={**region.lives, event.member: event.life})
    if before is None:
        return region
    region = changed(region, is_clean_start=False)
    return _fall_ill(region, event, RegionCause.NEW_LIFE)


def _fall_ill(region: Region, event: HealthSeen | MemberJoined, cause: RegionCause) -> Region:
    region = changed(region, is_healthy=False)
    if region.state not in ACTIVE:
        return region
    return _set_alarm(changed(_go(region, event, cause), completions={}, holds_next=False), None)


# --- a drain ------------------------------------------------------------------------------------------------


def _on_drain_asked(region: Region, event: DrainAsked) -> Region:
    if event.member != PERSON:
        _must_be_trigger(region, event.member)
    if region.is_held:
        raise _IgnoredError(WhyIgnored.HELD)
    if region.state is RegionState.STARTED:
        return _note_must_reset(region)
    if region.state is not RegionState.PROCESSING or event.seq_id != region.current_seq_id:
        raise _IgnoredError(WhyIgnored.LATE)
    region = changed(region, holds_next=event.hold)
    return _set_alarm(_go(region, event, RegionCause.DRAIN_ASKED), Alarm.DRAIN_TIMEOUT)


def _must_be_trigger(region: Region, member: str) -> None:
    _must_be_member(region, member)
    settings = region.settings
    if settings.trigger is not Trigger.OPERATOR_DRIVEN or member not in settings.triggers:
        raise _IgnoredError(WhyIgnored.NO_TRIGGER)


def _note_must_reset(region: Region) -> Region:
    if region.must_reset:
        raise _IgnoredError(WhyIgnored.AS_BEFORE)
    return changed(region, must_reset=True)


def _on_saved(region: Region, event: CheckpointDone | BlockingCheckpointDone, part: MemberPart) -> Region:
    _must_count(region, event.member, event.life)
    if event.seq_id != _awaited_cut(region):
        raise _IgnoredError(WhyIgnored.LATE)
    if not _is_progress(region.completions.get(event.member), part):
        raise _IgnoredError(WhyIgnored.DOUBLED)
    region = _completed(region, event.member, part)
    if not _have_all(region):
        return region
    if set(region.completions.values()) == {MemberPart.SAVED}:
        return _finish_drain(region, event)
    if region.state is RegionState.DRAINING:
        # The alarm of the drain stays set: what is saved beside the work must come to its end, too.
        number = region.current_seq_id
        region = changed(region, pending_seq_id=number, current_seq_id=number + 1)
        return _go(region, event, RegionCause.ALL_BLOCKING)
    return region


def _awaited_cut(region: Region) -> int | None:
    match region.state:
        case RegionState.DRAINING:
            return region.current_seq_id
        case RegionState.PENDING:
            return region.pending_seq_id
        case _:
            return None


def _is_progress(before: MemberPart | None, now: MemberPart) -> bool:
    """Who has saved is not made to have done a part of it by a message that was late."""
    return before is None or (before, now) == (MemberPart.BLOCKING, MemberPart.SAVED)


def _finish_drain(region: Region, event: CheckpointDone | BlockingCheckpointDone) -> Region:
    """The cut counts, and everything older than the one before it is needed no more."""
    number = region.pending_seq_id if region.state is RegionState.PENDING else region.current_seq_id
    region = changed(
        _go(region, event, RegionCause.ALL_SAVED),
        completions={},
        to_retire_seq_id=_retired(region),
        last_completed_seq_id=number,
        current_seq_id=max(region.current_seq_id, number + 1),
        reset_attempt=0,
        max_reset_attempts=region.settings.max_reset_attempts,
        is_held=region.holds_next,
        holds_next=False,
    )
    return _await_drain(changed(region, pending_seq_id=region.current_seq_id))


def _retired(region: Region) -> int:
    """The cut that was the last until now: a reset goes to the one that takes its place."""
    return region.last_completed_seq_id


def _await_drain(region: Region) -> Region:
    periodic = region.settings.trigger is Trigger.PERIODIC and not region.is_held
    return _set_alarm(region, Alarm.DRAIN_PERIOD if periodic else None)


def _on_resume_asked(region: Region) -> Region:
    if not region.is_held and not region.holds_next:
        raise _IgnoredError(WhyIgnored.AS_BEFORE)
    held = region.is_held and region.state is RegionState.PROCESSING
    region = changed(region, is_held=False, holds_next=False)
    return _await_drain(region) if held else region


# --- a reset ------------------------------------------------------------------------------------------------


def _on_reset_asked(region: Region, event: ResetAsked) -> Region:
    if region.state is RegionState.GOING_BACK:
        raise _IgnoredError(WhyIgnored.GOING_BACK)
    if event.force:
        allowed = region.reset_attempt + region.settings.max_reset_attempts
        region = changed(region, max_reset_attempts=allowed)
    elif region.state is RegionState.SPENT:
        raise _IgnoredError(WhyIgnored.SPENT)
    match region.state:
        case RegionState.STARTED:
            return changed(region, must_reset=True) if event.force else _note_must_reset(region)
        case RegionState.UNHEALTHY:
            if not event.force:
                raise _IgnoredError(WhyIgnored.AS_BEFORE)  # It is reset once it is healthy.
            return region
        case RegionState.SPENT if not region.is_healthy:
            return _go(region, event, RegionCause.FORCED_ILL)
        case _:
            cause = RegionCause.RESET_FORCED if event.force else RegionCause.RESET_ASKED
            return _try_reset(region, event, cause)


def _try_reset(region: Region, event: HealthSeen | AlarmWentOff | ResetAsked, cause: RegionCause) -> Region:
    region = _set_alarm(changed(region, completions={}, holds_next=False), None)
    if _is_spent(region):
        return _go(region, event, RegionCause.SPENT)
    region = changed(_go(region, event, cause), reset_attempt=region.reset_attempt + 1)
    return _set_alarm(region, Alarm.RESET_TIMEOUT)


def _is_spent(region: Region) -> bool:
    return region.reset_attempt >= region.max_reset_attempts


def _on_reset_done(region: Region, event: ResetDone) -> Region:
    """The number of attempts stays: only a drain that is completed shows that all is well."""
    _must_count(region, event.member, event.life)
    if region.state is not RegionState.RESETTING or not _is_this_reset(region, event):
        raise _IgnoredError(WhyIgnored.LATE)
    if event.member in region.completions:
        raise _IgnoredError(WhyIgnored.DOUBLED)
    region = _completed(region, event.member, MemberPart.RESET)
    if not _have_all(region):
        return region
    region = changed(region, completions={}, current_seq_id=_number_after(region))
    return _await_drain(_go(region, event, RegionCause.ALL_RESET))


def _is_this_reset(region: Region, event: ResetDone) -> bool:
    return (event.seq_id, event.reset_attempt) == (region.last_completed_seq_id, region.reset_attempt - 1)


def _number_after(region: Region) -> int:
    """That of a drain which was interrupted is not used again."""
    return region.current_seq_id + 1


# --- time, and other coordinators ---------------------------------------------------------------------------


def _on_alarm(region: Region, event: AlarmWentOff) -> Region:
    if not _is_set(region, event):
        raise _IgnoredError(WhyIgnored.OLD_ALARM)
    match region.alarm:
        case None:
            raise _IgnoredError(WhyIgnored.OLD_ALARM)
        case Alarm.DRAIN_PERIOD:
            return _set_alarm(_go(region, event, RegionCause.DUE), Alarm.DRAIN_TIMEOUT)
        case Alarm.DRAIN_TIMEOUT:
            return _try_reset(region, event, RegionCause.DRAIN_LATE)
        case Alarm.RESET_TIMEOUT:
            return _try_reset(region, event, RegionCause.RESET_LATE)


def _is_set(region: Region, event: AlarmWentOff) -> bool:
    return event.timer == region.timer


def _on_took_over(region: Region, event: TookOver) -> Region:
    region = _go(region, event, RegionCause.TOOK_OVER)
    if region.state is RegionState.GOING_BACK:
        return changed(region, is_healthy=False)
    return _begun_anew(region)


def _on_rollback_asked(region: Region, event: RollbackAsked) -> Region:
    """Those that are back may have to go back further: only to a cut that is as old, or older, can be changed to."""
    if not _can_go_back(region, event.seq_id):
        raise _IgnoredError(WhyIgnored.UNREACHABLE)
    region = _go(region, event, RegionCause.ROLLBACK_ASKED)
    region = changed(region, completions={}, holds_next=False, going_back_to=event.seq_id)
    return _set_alarm(region, None)


def _can_go_back(region: Region, seq_id: int) -> bool:
    """Whether the cut was completed, and can be had by all, is known to whoever takes them back."""
    newest = region.going_back_to or region.last_completed_seq_id
    return 0 < seq_id <= newest


def _on_rolled_back(region: Region, event: RolledBack) -> Region:
    """Numbers of cuts go on, so that what is void is never taken for another cut. Everybody is brought into line before
    the next drain, as after any other change of who is at work."""
    _must_be_member(region, event.member)
    if region.state is not RegionState.GOING_BACK or not _is_this_rollback(region, event):
        raise _IgnoredError(WhyIgnored.LATE)
    if event.member in region.completions:
        raise _IgnoredError(WhyIgnored.DOUBLED)
    region = _completed(region, event.member, MemberPart.BACK)
    if not _have_all(region):
        return region
    return _gone_back(_go(region, event, RegionCause.ALL_BACK))


def _on_rollback_abandoned(region: Region, event: RollbackAbandoned) -> Region:
    """What came after the cut is no cut any more: some have no steps of it."""
    if region.state is not RegionState.GOING_BACK:
        raise _IgnoredError(WhyIgnored.AS_BEFORE)
    return _gone_back(_go(region, event, RegionCause.ABANDONED))


def _gone_back(region: Region) -> Region:
    number = region.going_back_to
    return changed(
        _begun_anew(region),
        last_completed_seq_id=number,
        to_retire_seq_id=min(region.to_retire_seq_id, number - 1),
        current_seq_id=_number_after(region),
        going_back_to=0,
    )


def _is_this_rollback(region: Region, event: RolledBack) -> bool:
    return event.seq_id == region.going_back_to


def _begun_anew(region: Region) -> Region:
    """The numbers stay; what was under way is not gone on with, and what is seen of members is seen anew."""
    region = changed(
        region,
        is_healthy=False,
        is_healthy_first_time=False,
        must_reset=_must_reset_after_takeover(),
        completions={},
        holds_next=False,
    )
    return _set_alarm(region, None)


def _must_reset_after_takeover() -> bool:
    return True


# --- members ------------------------------------------------------------------------------------------------


def _must_be_member(region: Region, member: str) -> None:
    if member not in region.settings.members:
        raise _IgnoredError(WhyIgnored.FOREIGN)


def _must_count(region: Region, member: str, life: int) -> None:
    _must_be_member(region, member)
    if life != region.lives.get(member):
        raise _IgnoredError(WhyIgnored.OLD_LIFE)


def _completed(region: Region, member: str, part: MemberPart) -> Region:
    return changed(region, completions={**region.completions, member: part})


def _have_all(region: Region) -> bool:
    return len(region.completions) == len(region.settings.members)
