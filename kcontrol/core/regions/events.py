"""What happens to a region. Time comes in as an alarm that has gone off; health as it was found."""

from __future__ import annotations

from dataclasses import dataclass

PERSON = ""
"""In place of a member: a person asks, who always may."""


@dataclass(frozen=True, slots=True)
class HealthSeen:
    """All members were looked at. healthy: each of them is at work; None: not all are there to be asked."""

    healthy: bool | None


@dataclass(frozen=True, slots=True)
class MemberJoined:
    """A member has begun a life; greater numbers are later ones."""

    member: str
    life: int


@dataclass(frozen=True, slots=True)
class CheckpointDone:
    """A member's part of a cut is saved."""

    member: str
    life: int
    seq_id: int


@dataclass(frozen=True, slots=True)
class BlockingCheckpointDone:
    """A member holds fast what it will save of a cut, and may go on."""

    member: str
    life: int
    seq_id: int


@dataclass(frozen=True, slots=True)
class ResetDone:
    """A member stands at the last completed cut. reset_attempt: as it was told."""

    member: str
    life: int
    seq_id: int
    reset_attempt: int


@dataclass(frozen=True, slots=True)
class DrainAsked:
    """A member that may, or a person, wants a drain of this number. hold: all stay where it has brought them, until they are
    let go on."""

    member: str
    seq_id: int
    hold: bool = False


@dataclass(frozen=True, slots=True)
class ResetAsked:
    """Somebody wants everybody to be brought into line. force: with as many attempts more as a region has."""

    force: bool


@dataclass(frozen=True, slots=True)
class ResumeAsked:
    """Whoever is held at a cut may go on."""


@dataclass(frozen=True, slots=True)
class RollbackAsked:
    """A person wants all members to be taken back to this cut, which each of them can be."""

    seq_id: int


@dataclass(frozen=True, slots=True)
class RolledBack:
    """While nobody was at work for it, a member was taken back to its step of this cut; what it has done since is void."""

    member: str
    seq_id: int


@dataclass(frozen=True, slots=True)
class RollbackAbandoned:
    """A person gives up the rollback under way: who is back is back, and the others stay where they are."""


@dataclass(frozen=True, slots=True)
class AlarmWentOff:
    """timer: as the region had it when the alarm was set."""

    timer: int


@dataclass(frozen=True, slots=True)
class TookOver:
    """Another coordinator goes on with what the log says."""


RegionEvent = (
    HealthSeen
    | MemberJoined
    | CheckpointDone
    | BlockingCheckpointDone
    | ResetDone
    | DrainAsked
    | ResetAsked
    | ResumeAsked
    | RollbackAsked
    | RolledBack
    | RollbackAbandoned
    | AlarmWentOff
    | TookOver
)
