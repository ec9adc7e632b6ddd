"""What people and programs are told of regions: the one account of them, for HTTP and metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pydantic import Field

from kcontrol.core.regions.log_view import RegionLogView
from kcontrol.core.regions.model import RegionState, Trigger, told
from kcontrol.core.regions.participants import ParticipantSaid
from kcontrol.core.regions.records import (
    CutOffset,
    RegionCut,
    RegionDefinition,
    RegionEventKind,
    RegionHistory,
)
from kcontrol.views.base import Facts


@dataclass(frozen=True, slots=True)
class RegionSight:
    """One region, as far as its records were read."""

    definition: RegionDefinition
    view: RegionLogView = field(default_factory=RegionLogView)
    said: Mapping[str, ParticipantSaid] = field(default_factory=dict)

    @property
    def history(self) -> RegionHistory:
        """Cuts outlive the changes that tell how they were made, where an older version has written these."""
        history = self.view.history
        if history.last_consistent_ms or self.view.cut is None:
            return history
        return replace(history, last_consistent_ms=self.view.cut.made_ms)

    @property
    def change(self) -> int:
        """Number of the newest; 0: there is none."""
        return 0 if self.view.newest is None else self.view.newest.number

    @property
    def heard_ms(self) -> int | None:
        """When whoever is, or was, in charge was heard last, by its clock; None: nobody ever was."""
        said = [each.at_ms for each in (self.view.newest, self.view.beat) if each is not None]
        return max(said, default=None)

    @property
    def period_ms(self) -> int:
        """From one drain to the next; 0: none is made by itself."""
        settings, newest = self.definition.settings, self.view.newest
        is_held = newest is not None and newest.is_held
        return 0 if is_held or settings.trigger is not Trigger.PERIODIC else settings.period_ms

    @property
    def awaited_ms(self) -> int:
        """Since when the next cut is, by the clocks of who made the last, defined the region, or let its pipelines go on."""
        resumed = [
            each.at_ms
            for each in self.view.changes.values()
            if each.happened.kind is RegionEventKind.RESUME_ASKED
        ]
        return max(self.definition.at_ms, self.history.last_consistent_ms, *resumed)


RegionsSeen = Mapping[str, RegionSight]
"""By name."""


class RegionMemberFacts(Facts):
    """A pipeline of a region, or a participant."""

    pipeline: str = Field(description="Its name.")
    participant: bool = Field(description="It is no pipeline, and speaks for itself.")
    part: str | None = Field(
        description="How far it is with the drain or reset under way; null: not yet, or none is."
    )
    told: str | None = Field(description="What it is told now; null: nothing.")


class RegionAnswerFacts(Facts):
    """What became of the newest request of a kind that was answered."""

    kind: str = Field(description="drain, reset, resume or rollback.")
    request_id: str
    outcome: str = Field(description="done, refused or failed.")
    cut: int = Field(
        description="Of a drain that is done: the number of its cut; of a rollback that of the cut. Else 0."
    )
    why: str = Field(description="Why not; '' otherwise.")


class RegionFacts(Facts):
    """A region, as of its newest change."""

    region: str
    state: str | None = Field(description="Null while nobody has been in charge of it.")
    held: bool = Field(description="All stay at the newest cut until they are resumed.")
    healthy: bool = Field(description="All pipelines were at work when they were looked at last.")
    pipelines: list[RegionMemberFacts]
    trigger: str = Field(description="What begins a drain: periodic, or operator_driven: when somebody asks.")
    triggers: list[str] = Field(description="The members that may ask then; persons always may.")
    drain: str = Field(
        description="When pipelines that have come to their cut go on: aligned; stopped: once all members have done their part."
    )
    period_ms: int = Field(description="From the end of a drain to the next, where they are periodic.")
    drain_timeout_ms: int = Field(description="So long a drain may take.")
    reset_timeout_ms: int = Field(description="So long a reset may take.")
    participant_lease_ms: int = Field(
        description="A participant that has said nothing for so long is taken for gone."
    )
    keep_cuts: int = Field(description="So many of the newest stay in the log.")
    starts: list[str] = Field(
        description="The pipelines at which a drain begins: they read nothing that another of the region writes. Empty: it is "
        "not known yet, or one was deleted."
    )
    change: int = Field(description="Number of its newest change; 0: there is none.")
    last_completed: int = Field(description="Number of the newest cut; 0: there is none.")
    going_back_to: int = Field(
        description="Number of the cut that its pipelines are being taken back to; 0: to none."
    )
    next: int = Field(description="Number of the next drain, or of the one under way.")
    reset_attempt: int = Field(description="How many resets there were in a row, without a cut in between.")
    max_reset_attempts: int = Field(description="After so many it waits for a person.")
    controller: str = Field(description="Who is in charge, or was last.")
    ended: bool = Field(description="It has said that it stops.")
    heard_ms: int | None = Field(description="When it was heard last, by its clock.")
    waits_for: list[str]
    answers: list[RegionAnswerFacts]


class CutStepFacts(Facts):
    """A pipeline's step in a cut."""

    pipeline: str
    step: int


class RegionCutFacts(Facts):
    """A cut of a region: nothing is in flight between these steps."""

    number: int
    made_ms: int
    steps: list[CutStepFacts]


class CutOffsetFacts(Facts):
    """An offset of a partition."""

    topic: str
    partition: int
    offset: int


class CutPipelineFacts(Facts):
    """A pipeline's step in a cut, with where it stood."""

    pipeline: str
    step: int
    positions: list[CutOffsetFacts] = Field(
        description="Of each partition that it reads, the next offset: what lies before is in the cut."
    )
    ends: list[CutOffsetFacts] = Field(
        description="Of each partition that it writes, the offset after its last record."
    )


class WholeCutFacts(Facts):
    """A cut of a region, with all offsets."""

    number: int
    made_ms: int
    follows: int = Field(
        description="Number of the newest cut when it was made; 0: none was; -1: not recorded."
    )
    pipelines: list[CutPipelineFacts]


def region_facts(sight: RegionSight) -> RegionFacts:
    settings, view = sight.definition.settings, sight.view
    newest, value, beat = view.newest, view.value, view.beat
    members = []
    for name in settings.members:
        word = part = None
        if value is not None:
            part = value.region.completions.get(name)
            now = (
                told(value.region, name, value.region.lives.get(name, -1))
                if name in value.region.lives
                else None
            )
            word = None if now is None else now.word.value
        members.append(
            RegionMemberFacts(pipeline=name, participant=name in settings.participants, part=part, told=word)
        )
    return RegionFacts(
        region=settings.region,
        state=None if newest is None else newest.state.value,
        held=newest is not None and newest.is_held,
        healthy=newest is not None and newest.is_healthy,
        pipelines=members,
        trigger=settings.trigger.value,
        triggers=list(settings.triggers),
        drain=settings.drain.value,
        period_ms=settings.period_ms,
        drain_timeout_ms=settings.drain_timeout_ms,
        reset_timeout_ms=settings.reset_timeout_ms,
        participant_lease_ms=settings.participant_lease_ms,
        keep_cuts=settings.keep_cuts,
        starts=[] if beat is None else list(beat.starts),
        change=sight.change,
        last_completed=0 if newest is None else newest.last_completed_seq_id,
        going_back_to=0 if newest is None or newest.rollback is None else newest.rollback.to_cut,
        next=1 if newest is None else newest.current_seq_id,
        reset_attempt=0 if newest is None else newest.reset_attempt,
        max_reset_attempts=settings.max_reset_attempts if newest is None else newest.max_reset_attempts,
        controller=view.owner,
        ended=view.has_ended,
        heard_ms=sight.heard_ms,
        waits_for=[] if beat is None else list(beat.waits_for),
        answers=[
            RegionAnswerFacts(
                kind=each.kind,
                request_id=each.request_id,
                outcome=each.outcome,
                cut=each.seq_id,
                why=each.why,
            )
            for each in (() if newest is None else newest.answers)
        ],
    )


def cut_facts(cut: RegionCut) -> RegionCutFacts:
    steps = [CutStepFacts(pipeline=one.pipeline, step=one.step) for one in cut.pipelines]
    return RegionCutFacts(number=cut.number, made_ms=cut.made_ms, steps=steps)


def whole_cut(cut: RegionCut) -> WholeCutFacts:
    def offsets(found: Sequence[CutOffset]) -> list[CutOffsetFacts]:
        return [CutOffsetFacts(topic=one.topic, partition=one.partition, offset=one.offset) for one in found]

    pipelines = [
        CutPipelineFacts(
            pipeline=one.pipeline, step=one.step, positions=offsets(one.positions), ends=offsets(one.ends)
        )
        for one in cut.pipelines
    ]
    return WholeCutFacts(number=cut.number, made_ms=cut.made_ms, follows=cut.follows, pipelines=pipelines)


def newest_cuts(sight: RegionSight, limit: int) -> Sequence[RegionCutFacts]:
    """The newest, the oldest of them first."""
    cuts = sight.view.cuts
    return [cut_facts(cuts[number]) for number in sorted(cuts)[-limit:]]


def state_number(state: RegionState) -> int:
    """As the metric of the original has it."""
    return list(RegionState).index(state)
