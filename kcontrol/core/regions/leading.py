"""What a controller of a region does next: a function of the region as its log says and of what was seen.

A request is asked for until it is answered: a drain that a failure or another controller has interrupted is begun again, under
another number, for as long as attempts are left. So whoever has asked need not ask twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kcontrol.core.regions.decide import decide_region
from kcontrol.core.regions.events import (
    PERSON,
    AlarmWentOff,
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
from kcontrol.core.regions.model import Region, RegionSettings, RegionState, refused_asker
from kcontrol.core.regions.participants import ParticipantSaid, said_event
from kcontrol.core.regions.records import (
    RegionAnswer,
    RegionCut,
    RegionDefinition,
    RegionEventKind,
    RegionHappening,
    RegionOutcome,
    RegionRequest,
    RegionRequestKind,
    RegionRollback,
)
from kcontrol.core.regions.value import RegionValue, happening_of

_UNDER_WAY = (RegionState.DRAINING, RegionState.PENDING)
_IN_ORDER = (
    RegionRequestKind.RESUME,
    RegionRequestKind.RESET,
    RegionRequestKind.DRAIN,
    RegionRequestKind.ROLLBACK,
)
_STALE = (
    "the controller that was in charge when it was asked for is so no more; nothing was taken back: ask again"
)
_NO_ATTEMPT = "no attempt is left: see why in kcontrol region status, then kcontrol region reset --force"


@dataclass(frozen=True, slots=True)
class RollbackChecked:
    """That it was looked at whether a request for a rollback can be carried out. definition_id: by which definition of the
    region: it says nothing of another one. why: why it can't, or ''."""

    request_id: str = ""
    definition_id: str = ""
    why: str = ""


NOT_CHECKED = RollbackChecked()
"""Nothing was looked at yet."""


@dataclass(frozen=True, slots=True)
class RegionSeen:
    """What was seen of a region's members and of people's wishes.

    lives: by member, its newest life. healthy: as `HealthSeen` has it. alarm: the number of the timer that has gone off, or
    -1. came_to: the number of the drain whose cut all have come to, and which was held against the logs, or 0. in_line: the
    members that nobody holds. back: the `request_id` of a rollback, and who was taken back by it. checked: what was looked at
    last. cut: the one that the newest request for a rollback names, if the log has it. led_from: the number of the first change
    of whoever is in charge. said: by participant, its newest word.
    """

    lives: Mapping[str, int] = field(default_factory=dict)
    healthy: bool | None = None
    alarm: int = -1
    came_to: int = 0
    in_line: frozenset[str] = frozenset()
    requests: Mapping[RegionRequestKind, RegionRequest] = field(default_factory=dict)
    back: tuple[str, frozenset[str]] = ("", frozenset())
    checked: RollbackChecked = NOT_CHECKED
    cut: RegionCut | None = None
    led_from: int = 0
    said: Mapping[str, ParticipantSaid] = field(default_factory=dict)
    why: str = ""
    """Not healthy: what is wrong."""


@dataclass(frozen=True, slots=True)
class LedStep:
    """One change: what happened, and the value after it."""

    happened: RegionHappening
    value: RegionValue


def began(definition: RegionDefinition) -> LedStep:
    """The first change of a region."""
    region = Region.started(definition.settings)
    value = RegionValue(region, definition.request_id, incarnation=definition.incarnation)
    return LedStep(RegionHappening(RegionEventKind.DEFINED, why=f"by {definition.by}"), value)


def taken_over(value: RegionValue, controller: str) -> LedStep:
    """The first change of another controller."""
    return _after(value, TookOver(), f"by {controller}")


def next_change(value: RegionValue, definition: RegionDefinition, seen: RegionSeen) -> LedStep | None:
    """The next change, if there is one; to be asked for again after each. Ends: each takes something away of what was seen."""
    if definition.request_id != value.definition_id and value.rollback is None:
        return _defined(value, definition)
    answer = _answered(value, seen)
    if answer is not None:
        return answer
    event = _next_event(value, seen)
    if event is None:
        return None
    return _after(value, event, seen.why if event == HealthSeen(False) else "")


def _next_event(value: RegionValue, seen: RegionSeen) -> RegionEvent | None:
    region = value.region
    for member in region.settings.members:
        life = seen.lives.get(member, -1)
        if life > region.lives.get(member, -1):
            return MemberJoined(member, life)
    if seen.healthy is not None and seen.healthy != region.is_healthy:
        return HealthSeen(seen.healthy)
    if region.alarm is not None and seen.alarm == region.timer:
        return AlarmWentOff(region.timer)
    if region.state is RegionState.DRAINING and seen.came_to == region.current_seq_id:
        for member in region.settings.pipelines:
            if member not in region.completions:
                return CheckpointDone(member, region.lives[member], region.current_seq_id)
    for member in region.settings.participants:
        event = said_event(region, member, seen.said[member]) if member in seen.said else None
        if event is not None:
            return event
    if region.state is RegionState.RESETTING:
        for member in region.settings.pipelines:
            if member in seen.in_line and member in region.lives and member not in region.completions:
                return _reset_done(region, member)
    if value.rollback is not None and seen.back[0] == value.rollback.request_id:
        # Participants hold nothing that has to be void: they go back by the reset that follows.
        back = {*seen.back[1], *region.settings.participants}
        for member in region.settings.members:
            if member in back and member not in region.completions:
                return RolledBack(member, region.going_back_to)
    return None


def _reset_done(region: Region, member: str) -> ResetDone:
    attempt = region.reset_attempt - 1
    return ResetDone(member, region.lives[member], region.last_completed_seq_id, attempt)


# --- what people ask for ------------------------------------------------------------------------------------


def _answered(value: RegionValue, seen: RegionSeen) -> LedStep | None:
    """What becomes of a request, if something does now."""
    for kind in _IN_ORDER:
        request = seen.requests.get(kind)
        if request is None or _is_answered(value, request):
            continue
        match kind:
            case RegionRequestKind.DRAIN:
                led = _ask_drain(value, request)
            case RegionRequestKind.ROLLBACK:
                led = _ask_rollback(value, request, seen)
            case _:
                led = _ask(value, request)
        if led is not None:
            return led
    return None


def _is_answered(value: RegionValue, request: RegionRequest) -> bool:
    answer = value.answers.get(request.kind)
    return answer is not None and answer.request_id == request.request_id


def _ask(value: RegionValue, request: RegionRequest) -> LedStep:
    event = ResumeAsked() if request.kind is RegionRequestKind.RESUME else ResetAsked(request.force)
    decision = decide_region(value.region, event)
    if decision.ignored is not None:
        return _refused(value, request, decision.ignored)
    after = _after(value, event, f"by {request.by}")
    return replace(after, value=_with_answer(after.value, request, RegionOutcome.DONE))


def _ask_drain(value: RegionValue, request: RegionRequest) -> LedStep | None:
    """None: it is under way, or not yet to be asked for."""
    region = value.region
    if value.drain_for == request.request_id:
        return None
    refused = refused_asker(region.settings, request.member)
    if refused:
        return _refused(value, request, refused)
    if region.state is RegionState.SPENT:
        return _refused(value, request, _NO_ATTEMPT, RegionOutcome.FAILED)
    if region.is_held:
        return _refused(
            value, request, "its pipelines are held at a cut: kcontrol region resume lets them go on"
        )
    if region.state is not RegionState.PROCESSING:
        return None
    asked = DrainAsked(request.member or PERSON, region.current_seq_id, request.hold)
    led = _after(value, asked, f"by {request.by}")
    return replace(led, value=replace(led.value, drain_for=request.request_id))


def is_to_be_checked(value: RegionValue, seen: RegionSeen) -> RegionRequest | None:
    """The request for a rollback of which it has to be looked at whether it can be, if there is one."""
    request = seen.requests.get(RegionRequestKind.ROLLBACK)
    if request is None or _is_answered(value, request) or _is_under_way(value, request):
        return None
    return None if _is_stale(request, seen) or _is_checked(value, request, seen) else request


def _is_checked(value: RegionValue, request: RegionRequest, seen: RegionSeen) -> bool:
    checked = seen.checked
    return (checked.request_id, checked.definition_id) == (request.request_id, value.definition_id)


def refused_cut(number: int, cut: RegionCut | None, settings: RegionSettings) -> str:
    """Why a region's pipelines can't be taken back to a cut, by what the region itself knows of it, or ''."""
    if cut is None:
        return f"cut {number} is not in the log of region {settings.region!r}: see kcontrol region cuts {settings.region}"
    then, now = {one.pipeline for one in cut.pipelines}, set(settings.pipelines)
    if then != now:
        return (
            f"cut {number} is of the pipelines {', '.join(sorted(then))}, and region {settings.region!r} has "
            f"{', '.join(sorted(now))} now: define it as it was then, and ask again"
        )
    return ""


def _ask_rollback(value: RegionValue, request: RegionRequest, seen: RegionSeen) -> LedStep | None:
    """None: it is under way, or was not looked at yet. Nobody is taken back because of what was wanted in another time: who
    asks has seen a controller in charge, and that very one has to take note of it."""
    if _is_under_way(value, request):
        return None
    if _is_stale(request, seen):
        return _refused(value, request, _STALE)
    if not _is_checked(value, request, seen):
        return None
    if not request.to_cut:
        return _abandon(value, request, seen)
    why = seen.checked.why or refused_cut(request.to_cut, seen.cut, value.region.settings)
    event = RollbackAsked(request.to_cut)
    ignored = decide_region(value.region, event).ignored
    if why or ignored is not None:
        return _refused(value, request, why or f"cut {request.to_cut}: {ignored}")
    led = _after(value, event, _by(request))
    rollback = RegionRollback(
        request.to_cut, request.request_id, request.by, request.why, request.leave_behind
    )
    others = dict(value.answers)
    others.pop(RegionRequestKind.ROLLBACK, None)
    return replace(led, value=replace(led.value, rollback=rollback, answers=others))


def refused_abandon(request: RegionRequest, rollback: RegionRollback | None) -> str:
    """Why a request gives up nothing, or ''. rollback: the one under way. Who gives one up means the one that was seen."""
    if rollback is None:
        return "no rollback of it is under way"
    if request.gives_up in ("", rollback.request_id):
        return ""
    return (
        f"the rollback that was meant is over; another one is under way, to cut {rollback.to_cut}, asked for by {rollback.by}, "
        "and is gone on with"
    )


def _abandon(value: RegionValue, request: RegionRequest, seen: RegionSeen) -> LedStep:
    """Who is back then is written, for whoever has to put the others right."""
    rollback = value.rollback
    why = refused_abandon(request, rollback)
    if why or rollback is None:
        return _refused(value, request, why)
    known, found = seen.back
    back = {*value.region.completions, *(found if known == rollback.request_id else ())}
    pipelines = value.region.settings.pipelines
    late = ", ".join(name for name in pipelines if name not in back) or "none"
    who = f"back at cut {rollback.to_cut}: {', '.join(name for name in pipelines if name in back) or 'none'}; not: {late}"
    led = _after(value, RollbackAbandoned(), f"{_by(request)}; {who}")
    return replace(led, value=_with_answer(led.value, request, RegionOutcome.DONE, rollback.to_cut, who))


def _by(request: RegionRequest) -> str:
    return f"by {request.by}{': ' if request.why else ''}{request.why}"


def _is_under_way(value: RegionValue, request: RegionRequest) -> bool:
    return value.rollback is not None and value.rollback.request_id == request.request_id


def _is_stale(request: RegionRequest, seen: RegionSeen) -> bool:
    """But for one that names the rollback which it gives up: whoever is in charge, that is what is meant."""
    return not request.gives_up and request.as_of < seen.led_from


def _refused(
    value: RegionValue, request: RegionRequest, why: str, outcome: RegionOutcome = RegionOutcome.REFUSED
) -> LedStep:
    happened = RegionHappening(RegionEventKind.ANSWERED, why=f"{request.kind}: {why}")
    return LedStep(happened, _with_answer(value, request, outcome, why=why))


def _with_answer(
    value: RegionValue, request: RegionRequest, outcome: RegionOutcome, seq_id: int = 0, why: str = ""
) -> RegionValue:
    answer = RegionAnswer(request.kind, request.request_id, outcome, seq_id, why)
    return replace(value, answers={**value.answers, request.kind: answer})


# --- what follows from a change -----------------------------------------------------------------------------


def _defined(value: RegionValue, definition: RegionDefinition) -> LedStep:
    """Whoever it names now is brought into line before the next drain."""
    settings: RegionSettings = definition.settings
    lives = {name: life for name, life in value.region.lives.items() if name in settings.members}
    region = replace(
        value.region, settings=settings, lives=lives, max_reset_attempts=settings.max_reset_attempts
    )
    if _is_another(value, definition):
        region = _free(region)
    decision = decide_region(region, TookOver())
    happened = RegionHappening(RegionEventKind.DEFINED, why=f"by {definition.by}")
    after = replace(
        value,
        region=decision.region,
        definition_id=definition.request_id,
        drain_for="",
        incarnation=definition.incarnation or value.incarnation,
    )
    return LedStep(happened, after)


def _is_another(value: RegionValue, definition: RegionDefinition) -> bool:
    """Whether the region of before was deleted, and this is another of its name. One that an older version has defined does not
    say so."""
    return definition.incarnation not in ("", value.incarnation)


def _free(region: Region) -> Region:
    """Nobody is held any more, and all attempts at a reset are left. Numbers go on, also those of attempts: what was done in an
    earlier one does not count."""
    most = region.reset_attempt + region.settings.max_reset_attempts
    return replace(region, is_held=False, max_reset_attempts=most)


def _after(value: RegionValue, event: RegionEvent, why: str) -> LedStep:
    """Raises AssertionError where the state machine takes no note of it: that is a bug here."""
    decision = decide_region(value.region, event)
    assert decision.ignored is None, (event, decision.ignored)
    return LedStep(happening_of(event, why), followed(value, decision.region))


def followed(value: RegionValue, region: Region) -> RegionValue:
    """The value once its region is this one: a drain that was asked for is answered when it is completed, and asked for
    again when it was interrupted."""
    if region.last_completed_seq_id > value.region.last_completed_seq_id and value.drain_for:
        answer = RegionAnswer(
            RegionRequestKind.DRAIN, value.drain_for, RegionOutcome.DONE, region.last_completed_seq_id
        )
        answers = {**value.answers, RegionRequestKind.DRAIN: answer}
        return replace(value, region=region, drain_for="", answers=answers)
    if value.rollback is not None and region.state is not RegionState.GOING_BACK:
        return _all_back(value, region, value.rollback)
    return replace(value, region=region, drain_for=value.drain_for if region.state in _UNDER_WAY else "")


def _all_back(value: RegionValue, region: Region, rollback: RegionRollback) -> RegionValue:
    """A later request that was refused on the way keeps its answer: it is the newest."""
    kind = RegionRequestKind.ROLLBACK
    answer = RegionAnswer(kind, rollback.request_id, RegionOutcome.DONE, rollback.to_cut)
    answers = value.answers if kind in value.answers else {**value.answers, kind: answer}
    return replace(value, region=region, rollback=None, answers=answers)
