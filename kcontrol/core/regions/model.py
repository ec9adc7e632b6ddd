"""A region as a value: what was defined, what a coordinator of it remembers, and what its members are told.

A region is a named set of members that are drained, saved and reset as one. The names of the fields are those of the
consistent regions of IBM Streams (OSStreams, `ConsistentRegion`), in this house's spelling, so that who knows one finds
the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

MAX_MEMBERS = 1_000
"""Of one region. Each is named in its status."""


class RegionState(StrEnum):
    """Where a region is, in the order of the metric."""

    STARTED = "started"
    PROCESSING = "processing"
    UNHEALTHY = "unhealthy"
    DRAINING = "draining"
    RESETTING = "resetting"
    SPENT = "spent"
    """No attempt at a reset is left."""
    PENDING = "checkpoint_pending"
    GOING_BACK = "going_back"
    """Members are taken back to an older cut, one after the other: of this house, as `hold` is."""


class Trigger(StrEnum):
    """What begins a drain."""

    PERIODIC = "periodic"
    OPERATOR_DRIVEN = "operator_driven"
    """Members that may, and always persons."""


class DrainMode(StrEnum):
    """When pipelines that have come to their cut go on."""

    ALIGNED = "aligned"
    """As soon as their readers know how far they have written."""
    STOPPED = "stopped"
    """Once all members have done their part of the drain, participants, too."""


class Alarm(StrEnum):
    """What the one timer of a region is for."""

    DRAIN_PERIOD = "drain_period"
    DRAIN_TIMEOUT = "drain_timeout"
    RESET_TIMEOUT = "reset_timeout"


class MemberPart(StrEnum):
    """How far a member is with what it was told last."""

    BLOCKING = "blocking_done"
    """It may go on; the rest of its checkpoint is saved beside its work."""
    SAVED = "checkpoint_done"
    RESET = "reset_done"
    BACK = "rolled_back"
    """What it has done since the cut that all go back to is void."""


class Word(StrEnum):
    """What members are told."""

    TRIGGER_DRAIN = "triggerDrain"
    RESUME_SUBMISSION = "resumeSubmission"
    TRIGGER_RESET = "triggerReset"
    RESET_FAILED = "resetFailed"
    HOLD = "hold"
    """Stay at the cut that was made: of this house, the original has none."""


@dataclass(frozen=True, slots=True)
class RegionSettings:
    """What was defined; static. members: pipelines, and participants, which speak for themselves. triggers: the members that
    may ask for a drain where it is operator driven."""

    region: str
    members: tuple[str, ...]
    trigger: Trigger = Trigger.PERIODIC
    triggers: tuple[str, ...] = ()
    period_ms: int = 60_000
    """From the end of one drain, or reset, to the beginning of the next."""
    drain_timeout_ms: int = 180_000
    reset_timeout_ms: int = 180_000
    max_reset_attempts: int = 5
    """In a row, without a drain that was completed in between."""
    keep_cuts: int = 1_000
    """So many of the newest stay in the log."""
    participants: tuple[str, ...] = ()
    """The members that are no pipelines."""
    participant_lease_ms: int = 30_000
    """One that has said nothing for so long is taken for gone."""
    drain: DrainMode = DrainMode.ALIGNED

    @property
    def pipelines(self) -> tuple[str, ...]:
        """The members that are."""
        return tuple(name for name in self.members if name not in self.participants)

    def alarm_ms(self, alarm: Alarm) -> int:
        """How long after it was set it goes off."""
        match alarm:
            case Alarm.DRAIN_PERIOD:
                return self.period_ms
            case Alarm.DRAIN_TIMEOUT:
                return self.drain_timeout_ms
            case Alarm.RESET_TIMEOUT:
                return self.reset_timeout_ms


def refused_settings(settings: RegionSettings) -> str:
    """Why they can't be used, in one sentence, or ''."""
    where, members = f"region {settings.region!r}", settings.members
    if not 1 <= len(members) <= MAX_MEMBERS:
        return f"{where} has {len(members)} members: name 1 to {MAX_MEMBERS}"
    if not settings.pipelines:
        return f"{where} has no pipeline: name at least one"
    twice = sorted({name for name in members if members.count(name) > 1})
    if twice:
        return f"{where} names {', '.join(twice)} more than once"
    unknown = sorted(set(settings.triggers) - set(members))
    if unknown:
        return f"{where} lets {', '.join(unknown)} ask for drains, which is no member of it"
    if settings.triggers and settings.trigger is not Trigger.OPERATOR_DRIVEN:
        return f"{where} names members that may ask for drains, and is {settings.trigger}: make it {Trigger.OPERATOR_DRIVEN}"
    for name in (
        "period_ms",
        "drain_timeout_ms",
        "reset_timeout_ms",
        "max_reset_attempts",
        "keep_cuts",
        "participant_lease_ms",
    ):
        if getattr(settings, name) < 1:
            return f"{where}: {name} is {getattr(settings, name)}, and must be at least 1"
    return ""


def refused_asker(settings: RegionSettings, member: str) -> str:
    """Why a member may not ask for a drain, in one sentence, or ''. member: '' for a person, who always may."""
    where = f"region {settings.region!r}"
    if not member or (settings.trigger is Trigger.OPERATOR_DRIVEN and member in settings.triggers):
        return ""
    if member not in settings.members:
        return f"{member!r} is no member of {where}: a person asks for a drain in nobody's name"
    if settings.trigger is not Trigger.OPERATOR_DRIVEN:
        return f"{where} is {settings.trigger}, so no member asks for its drains: make it {Trigger.OPERATOR_DRIVEN}"
    may = ", ".join(settings.triggers) or "none of its members"
    return f"{member!r} may not ask for drains of {where}: {may} may, by its triggers"


@dataclass(frozen=True)
class Region:
    """What a coordinator remembers of a region; a value that only `decide` makes another of.

    lives: by member, its newest life (a claim, or a registration); what an older one says counts for nothing.
    completions: by member, how far it is, of the drain or reset under way.
    current_seq_id: of the next drain, or the one under way. No number is used twice. pending_seq_id: of the drain whose
    members go on already while they save. to_retire_seq_id: cuts up to this one are needed for no reset any more.
    timer: grows with each alarm that is set or called off: an older one that goes off all the same is known by it.
    """

    settings: RegionSettings
    state: RegionState = RegionState.STARTED
    lives: Mapping[str, int] = field(default_factory=dict)
    completions: Mapping[str, MemberPart] = field(default_factory=dict)
    is_healthy: bool = False
    is_clean_start: bool = True
    is_healthy_first_time: bool = False
    must_reset: bool = False
    reset_attempt: int = 0
    max_reset_attempts: int = 0
    """Until a drain is completed; whoever forces a reset raises it."""
    current_seq_id: int = 1
    last_completed_seq_id: int = 0
    pending_seq_id: int = 0
    to_retire_seq_id: int = 0
    timer: int = 0
    alarm: Alarm | None = None
    holds_next: bool = False
    """The drain under way was asked for with a hold."""
    is_held: bool = False
    """All stay at the last completed cut, over resets and other coordinators, until somebody lets them go on."""
    going_back_to: int = 0
    """The cut that members are being taken back to; 0: to none."""

    @property
    def stands(self) -> bool:
        """Whether pipelines that have come to their cut stay there, in the drain under way."""
        waits = self.state is RegionState.DRAINING and self.settings.drain is DrainMode.STOPPED
        return self.holds_next or waits

    @staticmethod
    def started(settings: RegionSettings) -> Region:
        """A region that never ran."""
        return Region(settings, max_reset_attempts=settings.max_reset_attempts)


@dataclass(frozen=True, slots=True)
class Told:
    """What every member of a region is told now. seq_id: of the drain it is about. to_retire: cuts up to this one may be
    forgotten. saving: members go on, and still save. reset_attempt: which try this is, from 0; -1 where it is none."""

    word: Word
    seq_id: int
    to_retire: int
    last_completed: int
    saving: bool = False
    reset_attempt: int = -1


def told(region: Region, member: str, life: int) -> Told | None:
    """What a life of a member is told, as a function of what is durable; None: nothing.

    It is no message that could be lost, or be ahead of what it is about: who looks late, or never had a hint, is told the
    same. A life that the region does not know yet, or that has a successor, is told nothing: what the region waits for is
    not its own.
    """
    if region.lives.get(member) != life:
        return None
    number, old, done = region.current_seq_id, region.to_retire_seq_id, region.last_completed_seq_id
    match region.state:
        case RegionState.STARTED | RegionState.UNHEALTHY | RegionState.GOING_BACK:
            return None
        case RegionState.DRAINING:
            return Told(Word.TRIGGER_DRAIN, number, old, done)
        case RegionState.PENDING:
            word = Word.HOLD if region.holds_next else Word.RESUME_SUBMISSION
            return Told(word, region.pending_seq_id, old, done, saving=True)
        case RegionState.PROCESSING if region.is_held:
            return Told(Word.HOLD, done, old, done)
        case RegionState.PROCESSING:
            return Told(Word.RESUME_SUBMISSION, number, old, done)
        case RegionState.RESETTING:
            return Told(Word.TRIGGER_RESET, done, old, done, reset_attempt=region.reset_attempt - 1)
        case RegionState.SPENT:
            return Told(Word.RESET_FAILED, done, old, done)
