"""A region with what people have asked of it, as its log says: what a controller goes on with, and what it writes.

Changes are records and records are folded: `change_of` and `value_of` are each other's inverse, and a property test holds
every change to be what `decide` makes of the one before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from kcontrol.core.regions.events import (
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
from kcontrol.core.regions.model import Region
from kcontrol.core.regions.records import (
    RegionAnswer,
    RegionChange,
    RegionEventKind,
    RegionHappening,
    RegionMember,
    RegionRequestKind,
    RegionRollback,
)

_Kind = RegionEventKind


@dataclass(frozen=True, slots=True)
class RegionValue:
    """definition_id: of the definition that `region.settings` are of. drain_for: the request that asked for the drain under
    way, or ''. answers: to the newest request of each kind that was answered. rollback: the one that is under way.
    incarnation: as the definition had it."""

    region: Region
    definition_id: str
    drain_for: str = ""
    answers: Mapping[RegionRequestKind, RegionAnswer] = field(default_factory=dict)
    rollback: RegionRollback | None = None
    incarnation: str = ""


@dataclass(frozen=True, slots=True)
class WrittenBy:
    """Who writes a change, when, by the wall clock, and its number."""

    controller: str
    at_ms: int
    number: int


def change_of(value: RegionValue, happened: RegionHappening, by: WrittenBy) -> RegionChange:
    """The record of what happened, with the value after it."""
    region = value.region
    return RegionChange(
        region=region.settings.region,
        number=by.number,
        at_ms=by.at_ms,
        controller=by.controller,
        happened=happened,
        definition_id=value.definition_id,
        settings=region.settings,
        state=region.state,
        members=tuple(
            RegionMember(name, region.lives.get(name, -1), region.completions.get(name))
            for name in region.settings.members
        ),
        is_healthy=region.is_healthy,
        is_clean_start=region.is_clean_start,
        is_healthy_first_time=region.is_healthy_first_time,
        must_reset=region.must_reset,
        reset_attempt=region.reset_attempt,
        max_reset_attempts=region.max_reset_attempts,
        current_seq_id=region.current_seq_id,
        last_completed_seq_id=region.last_completed_seq_id,
        pending_seq_id=region.pending_seq_id,
        to_retire_seq_id=region.to_retire_seq_id,
        timer=region.timer,
        alarm=region.alarm,
        holds_next=region.holds_next,
        is_held=region.is_held,
        drain_for=value.drain_for,
        answers=tuple(value.answers[kind] for kind in sorted(value.answers)),
        rollback=value.rollback,
        incarnation=value.incarnation,
    )


def value_of(change: RegionChange) -> RegionValue:
    """The value after a change."""
    region = Region(
        settings=change.settings,
        state=change.state,
        lives={each.name: each.life for each in change.members if each.life >= 0},
        completions={each.name: each.part for each in change.members if each.part is not None},
        is_healthy=change.is_healthy,
        is_clean_start=change.is_clean_start,
        is_healthy_first_time=change.is_healthy_first_time,
        must_reset=change.must_reset,
        reset_attempt=change.reset_attempt,
        max_reset_attempts=change.max_reset_attempts,
        current_seq_id=change.current_seq_id,
        last_completed_seq_id=change.last_completed_seq_id,
        pending_seq_id=change.pending_seq_id,
        to_retire_seq_id=change.to_retire_seq_id,
        timer=change.timer,
        alarm=change.alarm,
        holds_next=change.holds_next,
        is_held=change.is_held,
        going_back_to=0 if change.rollback is None else change.rollback.to_cut,
    )
    answers = {each.kind: each for each in change.answers}
    return RegionValue(
        region, change.definition_id, change.drain_for, answers, change.rollback, change.incarnation
    )


def happening_of(event: RegionEvent, why: str = "") -> RegionHappening:
    """An event as it is written. why: for people."""
    match event:
        case TookOver():
            return RegionHappening(_Kind.TOOK_OVER, why=why)
        case MemberJoined(member, life):
            return RegionHappening(_Kind.MEMBER_JOINED, member, life, why=why)
        case HealthSeen(healthy):
            return RegionHappening(
                _Kind.HEALTH_SEEN, healthy=-1 if healthy is None else int(healthy), why=why
            )
        case AlarmWentOff(timer):
            return RegionHappening(_Kind.ALARM_WENT_OFF, timer=timer, why=why)
        case DrainAsked(member, seq_id, hold):
            return RegionHappening(_Kind.DRAIN_ASKED, member, seq_id=seq_id, hold=hold, why=why)
        case ResetAsked(force):
            return RegionHappening(_Kind.RESET_ASKED, force=force, why=why)
        case ResumeAsked():
            return RegionHappening(_Kind.RESUME_ASKED, why=why)
        case BlockingCheckpointDone(member, life, seq_id):
            return RegionHappening(_Kind.BLOCKING_CHECKPOINT_DONE, member, life, seq_id, why=why)
        case CheckpointDone(member, life, seq_id):
            return RegionHappening(_Kind.CHECKPOINT_DONE, member, life, seq_id, why=why)
        case ResetDone(member, life, seq_id, attempt):
            return RegionHappening(_Kind.RESET_DONE, member, life, seq_id, attempt, why=why)
        case RollbackAsked(seq_id):
            return RegionHappening(_Kind.ROLLBACK_ASKED, seq_id=seq_id, why=why)
        case RollbackAbandoned():
            return RegionHappening(_Kind.ROLLBACK_ASKED, why=why)
        case RolledBack(member, seq_id):
            return RegionHappening(_Kind.ROLLED_BACK, member, seq_id=seq_id, why=why)
        case _:
            assert_never(event)


def event_of(happened: RegionHappening) -> RegionEvent | None:
    """None where the state machine was not asked: the region was defined, or a request refused."""
    member, life, seq_id = happened.member, happened.life, happened.seq_id
    match happened.kind:
        case _Kind.DEFINED | _Kind.ANSWERED:
            return None
        case _Kind.TOOK_OVER:
            return TookOver()
        case _Kind.MEMBER_JOINED:
            return MemberJoined(member, life)
        case _Kind.HEALTH_SEEN:
            return HealthSeen(None if happened.healthy < 0 else bool(happened.healthy))
        case _Kind.ALARM_WENT_OFF:
            return AlarmWentOff(happened.timer)
        case _Kind.DRAIN_ASKED:
            return DrainAsked(member, seq_id, happened.hold)
        case _Kind.RESET_ASKED:
            return ResetAsked(happened.force)
        case _Kind.RESUME_ASKED:
            return ResumeAsked()
        case _Kind.BLOCKING_CHECKPOINT_DONE:
            return BlockingCheckpointDone(member, life, seq_id)
        case _Kind.CHECKPOINT_DONE:
            return CheckpointDone(member, life, seq_id)
        case _Kind.RESET_DONE:
            return ResetDone(member, life, seq_id, happened.reset_attempt)
        case _Kind.ROLLBACK_ASKED:
            return RollbackAsked(seq_id) if seq_id else RollbackAbandoned()
        case _Kind.ROLLED_BACK:
            return RolledBack(member, seq_id)
