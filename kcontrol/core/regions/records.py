"""What is kept of a region in Kafka: what people want of it in the topic of regions, what became of it in a log of its own.

The log is written by one controller at a time, each record in a transaction that a newer controller's fences. A change holds
the event and the whole region after it, so whoever reads on needs the newest change and nothing before.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kcontrol.core.regions.model import Alarm, MemberPart, RegionSettings, RegionState


class RegionRequestKind(StrEnum):
    """What people ask a region for."""

    DRAIN = "drain"
    RESET = "reset"
    RESUME = "resume"
    ROLLBACK = "rollback"


class RegionOutcome(StrEnum):
    """What became of a request."""

    DONE = "done"
    REFUSED = "refused"
    """It could not be, as the region was then."""
    FAILED = "failed"
    """It was tried as often as a region may, in vain."""


class RegionEventKind(StrEnum):
    """What happened to a region: the events of its state machine, and its definition."""

    DEFINED = "defined"
    TOOK_OVER = "took_over"
    MEMBER_JOINED = "member_joined"
    HEALTH_SEEN = "health_seen"
    ALARM_WENT_OFF = "alarm_went_off"
    DRAIN_ASKED = "drain_asked"
    RESET_ASKED = "reset_asked"
    RESUME_ASKED = "resume_asked"
    BLOCKING_CHECKPOINT_DONE = "blocking_checkpoint_done"
    CHECKPOINT_DONE = "checkpoint_done"
    RESET_DONE = "reset_done"
    ROLLED_BACK = "rolled_back"
    """Of one member."""
    ANSWERED = "answered"
    """A request was refused, and nothing else changed."""
    ROLLBACK_ASKED = "rollback_asked"
    """To cut 0: to none. The one that was under way is given up."""


@dataclass(frozen=True, slots=True)
class RegionDefinition:
    """`REGION/definition` in the topic of regions: the newest counts. request_id: each time that it is written another one.
    incarnation: another one for each region of this name, so that one which was deleted and is defined again is known from one
    that is defined anew; '': begun by an older version. follows: the `request_id` of the one that stood when it was made; '':
    none did, or an older version has made it."""

    region: str
    settings: RegionSettings
    by: str
    at_ms: int
    request_id: str
    incarnation: str = ""
    follows: str = ""


@dataclass(frozen=True, slots=True)
class RegionRequest:
    """`REGION/request/KIND` in the topic of regions: the newest of its kind counts, until it is answered in the region's log.

    hold: of a drain: all stay at its cut until they are resumed. member: of a drain: in whose name it is asked for, one of the
    region's triggers; '': a person's. force: of a reset: with more attempts than are left.
    Of a rollback: to_cut: the cut; 0: to none, and the one under way is given up. why: the reason that was given; leave_behind:
    who has read what will be void, and is left as it is; as_of: the number of the newest change that whoever asks has seen.
    gives_up: of one to none: the `request_id` of the rollback that is meant; '': whichever is under way.
    """

    region: str
    kind: RegionRequestKind
    by: str
    at_ms: int
    request_id: str
    hold: bool = False
    force: bool = False
    to_cut: int = 0
    why: str = ""
    leave_behind: tuple[str, ...] = ()
    as_of: int = 0
    member: str = ""
    gives_up: str = ""


class SaidKind(StrEnum):
    """What a member that is no pipeline has done last."""

    JOINED = "joined"
    BLOCKING_CHECKPOINT_DONE = "blocking_checkpoint_done"
    CHECKPOINT_DONE = "checkpoint_done"
    RESET_DONE = "reset_done"


@dataclass(frozen=True, slots=True)
class RegionSaid:
    """`REGION/member/NAME/PROCESS` in the topic of regions: what a participant has said last. It says the same again before its
    lease is over, or it is taken for gone.

    process: made up by each that begins. life: -1 in the record that begins one, whose offset it is. seq_id, reset_attempt: of
    what was done. hint: `IP:PORT` that is sent a datagram without content on each change, or ''.
    """

    region: str
    member: str
    process: str
    life: int
    kind: SaidKind
    at_ms: int
    seq_id: int = 0
    reset_attempt: int = 0
    hint: str = ""


@dataclass(frozen=True, slots=True)
class RegionPods:
    """`REGION/pods` in the topic of regions: which pods of the region's pipelines do not run, as whoever watches them says.
    While there are any it is said again and again: a word that is old counts for nothing.

    away: each with its phase, for people; (): all run.
    """

    region: str
    by: str
    at_ms: int
    away: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RegionRollback:
    """Back to a cut: what was asked for, and is gone on with until all pipelines are back. The fields are those of the
    request."""

    to_cut: int
    request_id: str
    by: str
    why: str
    leave_behind: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RegionHappening:
    """An event, flat. What an event of its kind does not have is as it is by default; healthy: -1 for not known, 0, 1."""

    kind: RegionEventKind
    member: str = ""
    life: int = 0
    seq_id: int = 0
    reset_attempt: int = 0
    healthy: int = -1
    hold: bool = False
    force: bool = False
    timer: int = 0
    why: str = ""
    """For people: what was seen."""


@dataclass(frozen=True, slots=True)
class RegionMember:
    """One member, as the region knows it. life: -1 before its first. part: how far it is with what it was told last."""

    name: str
    life: int
    part: MemberPart | None


@dataclass(frozen=True, slots=True)
class RegionAnswer:
    """To the newest request of a kind that was answered. seq_id: of a drain that is done, the number of its cut; of a rollback
    that of the cut that all are back at."""

    kind: RegionRequestKind
    request_id: str
    outcome: RegionOutcome
    seq_id: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class RegionHistory:
    """drain_ms, reset_ms: how long the newest took that came to their end, the oldest first, of those whose beginning is known.
    Times are of the controllers' wall clocks; 0: never. last_drain_seq_id: of the newest that began. last_reset_seq_id: of
    the cut that was reset to. began_ms: when the newest drain or reset began."""

    drain_ms: tuple[int, ...] = ()
    reset_ms: tuple[int, ...] = ()
    last_consistent_ms: int = 0
    last_reset_ms: int = 0
    last_drain_seq_id: int = 0
    last_reset_seq_id: int = 0
    began_ms: int = 0


@dataclass(frozen=True, slots=True)
class RegionChange:
    """`change/NUMBER` in a region's log: what happened, and the region after it, whole.

    number: from 1 on, without a gap. controller: of whoever wrote it, another one each time that one takes over. drain_for:
    the request that asked for the drain under way. The other fields are those of `Region`.
    """

    region: str
    number: int
    at_ms: int
    controller: str
    happened: RegionHappening
    definition_id: str
    settings: RegionSettings
    state: RegionState
    members: tuple[RegionMember, ...]
    is_healthy: bool
    is_clean_start: bool
    is_healthy_first_time: bool
    must_reset: bool
    reset_attempt: int
    max_reset_attempts: int
    current_seq_id: int
    last_completed_seq_id: int
    pending_seq_id: int
    to_retire_seq_id: int
    timer: int
    alarm: Alarm | None
    holds_next: bool
    is_held: bool
    drain_for: str
    answers: tuple[RegionAnswer, ...]
    rollback: RegionRollback | None = None
    """The one that is under way; its `to_cut` is the region's `going_back_to`."""
    history: RegionHistory | None = None
    """Up to and with this change; None: an older version has written it."""
    incarnation: str = ""
    """As the definition had it."""

    @property
    def gives_up(self) -> bool:
        """Whether it ends a rollback by which not all pipelines were taken back."""
        return self.happened.kind is RegionEventKind.ROLLBACK_ASKED and self.rollback is None


@dataclass(frozen=True, slots=True)
class CutOffset:
    """An offset of a partition."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class CutPipeline:
    """A pipeline's step in a cut. positions: of each partition that it reads, the next offset. ends: of each that it writes,
    the offset after its last record."""

    pipeline: str
    step: int
    positions: tuple[CutOffset, ...]
    ends: tuple[CutOffset, ...]


@dataclass(frozen=True, slots=True)
class RegionCut:
    """`cut/NUMBER` in a region's log, in the transaction of the change by which the drain of this number was completed.

    pipelines: in the order in which rows go through them. follows: the number of the newest cut when it was made, or 0; those
    between are void, or never came to be. -1: not recorded.
    """

    region: str
    number: int
    made_ms: int
    pipelines: tuple[CutPipeline, ...]
    follows: int = -1


@dataclass(frozen=True, slots=True)
class RegionBeat:
    """`beat` in a region's log: its controller is at work. That it could be written proves that no newer one is.

    number: of the newest change. waits_for: for people, what it waits for. ended: it has stopped, and another may go on at
    once. starts: the pipelines at which a drain begins, as their definitions are now; (): not known.
    """

    region: str
    controller: str
    number: int
    at_ms: int
    waits_for: tuple[str, ...]
    ended: bool = False
    starts: tuple[str, ...] = ()


RegionAsked = RegionDefinition | RegionRequest | RegionSaid | RegionPods
"""What lies in the topic of regions."""

RegionRecord = RegionChange | RegionCut | RegionBeat
"""What lies in a region's log."""


def change_key(number: int) -> str:
    return f"change/{number}"


def cut_key(number: int) -> str:
    return f"cut/{number}"


def region_key(record: RegionAsked | RegionRecord) -> str:
    """Under which a record lies in its topic."""
    match record:
        case RegionDefinition():
            return definition_key(record.region)
        case RegionRequest():
            return request_key(record.region, record.kind)
        case RegionSaid():
            return said_key(record.region, record.member, record.process)
        case RegionPods():
            return pods_key(record.region)
        case RegionChange():
            return change_key(record.number)
        case RegionCut():
            return cut_key(record.number)
        case RegionBeat():
            return "beat"


def said_key(region: str, member: str, process: str) -> str:
    return f"{region}/member/{member}/{process}"


def definition_key(region: str) -> str:
    return f"{region}/definition"


def request_key(region: str, kind: RegionRequestKind) -> str:
    return f"{region}/request/{kind}"


def pods_key(region: str) -> str:
    return f"{region}/pods"
