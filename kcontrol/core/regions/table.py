"""A region as a table: in which state what leads to which.

A healthy region goes round two circles:

    processing -> draining -> (checkpoint pending ->) processing      a cut more is completed
    processing -> ... -> resetting -> processing                      everybody stands at the last completed cut

Some rules are the shape of the table:
- Whatever goes wrong leads through RESETTING before the next drain: so a number whose drain was interrupted, by a failure
or by another coordinator, is never used again.
- What is not healthy waits in UNHEALTHY, in which nobody is told anything and no alarm is set.
- Once members are being taken back to an older cut nothing else happens until all of them are, or a person gives it up: no
drain, no reset, and another coordinator goes on with it.
- Attempts at a reset are counted until a drain is completed. When they are spent, only a person leads out, by force; another
  coordinator leads back here.

A handler names only the cause (decide.py). Whatever comes late, twice, from nobody, or from an earlier life has no cause: it
is ignored with a reason, and changes nothing.
"""

from __future__ import annotations

from enum import StrEnum

from kcontrol.core.machine import Row, next_states, occasions
from kcontrol.core.regions.events import (
    AlarmWentOff,
    BlockingCheckpointDone,
    CheckpointDone,
    DrainAsked,
    HealthSeen,
    MemberJoined,
    ResetAsked,
    ResetDone,
    RollbackAbandoned,
    RollbackAsked,
    RolledBack,
    TookOver,
)
from kcontrol.core.regions.model import RegionState


class RegionCause(StrEnum):
    """Why a region leaves a state."""

    CLEAN = "healthy, clean start"
    MUST_RESET = "healthy, and must be reset"
    WELL = "healthy again"
    ILL = "not healthy"
    NEW_LIFE = "a member began a new life"
    DUE = "drain period over"
    DRAIN_ASKED = "drain asked for by a member that may"
    ALL_BLOCKING = "all blocking parts done"
    ALL_SAVED = "all checkpoints done"
    ALL_RESET = "all resets done"
    DRAIN_LATE = "drain timeout"
    RESET_LATE = "reset timeout"
    RESET_ASKED = "reset asked for"
    RESET_FORCED = "reset forced"
    FORCED_ILL = "reset forced, not healthy"
    SPENT = "attempts spent"
    ROLLBACK_ASKED = "rollback asked for"
    ALL_BACK = "all are back"
    ABANDONED = "rollback given up"
    TOOK_OVER = "another coordinator"


_S, _C = RegionState, RegionCause
ACTIVE = (_S.PROCESSING, _S.DRAINING, _S.PENDING, _S.RESETTING)
"""Members are told what to do, and are healthy."""
_NOT_GOING_BACK = tuple(state for state in RegionState if state is not _S.GOING_BACK)
_TRIES = (HealthSeen, AlarmWentOff, ResetAsked)
"""On these a reset is tried, if an attempt is left."""

REGION_ROWS: tuple[Row[RegionState, RegionCause], ...] = (
    # --- health
    (_S.STARTED, HealthSeen, _C.CLEAN, _S.PROCESSING),
    (_S.STARTED, HealthSeen, _C.MUST_RESET, _S.RESETTING),
    (_S.UNHEALTHY, HealthSeen, _C.WELL, _S.RESETTING),
    (ACTIVE, HealthSeen, _C.ILL, _S.UNHEALTHY),
    (ACTIVE, MemberJoined, _C.NEW_LIFE, _S.UNHEALTHY),
    # --- a drain
    (_S.PROCESSING, AlarmWentOff, _C.DUE, _S.DRAINING),
    (_S.PROCESSING, DrainAsked, _C.DRAIN_ASKED, _S.DRAINING),
    (_S.DRAINING, (BlockingCheckpointDone, CheckpointDone), _C.ALL_BLOCKING, _S.PENDING),
    ((_S.DRAINING, _S.PENDING), CheckpointDone, _C.ALL_SAVED, _S.PROCESSING),
    ((_S.DRAINING, _S.PENDING), AlarmWentOff, _C.DRAIN_LATE, _S.RESETTING),
    # --- a reset
    (_S.RESETTING, ResetDone, _C.ALL_RESET, _S.PROCESSING),
    (_S.RESETTING, AlarmWentOff, _C.RESET_LATE, _S.RESETTING),
    (ACTIVE, ResetAsked, _C.RESET_ASKED, _S.RESETTING),
    ((*ACTIVE, _S.SPENT), ResetAsked, _C.RESET_FORCED, _S.RESETTING),
    (_S.SPENT, ResetAsked, _C.FORCED_ILL, _S.UNHEALTHY),
    ((_S.STARTED, _S.UNHEALTHY, *ACTIVE), _TRIES, _C.SPENT, _S.SPENT),
    # --- somebody else is in charge
    (_NOT_GOING_BACK, TookOver, _C.TOOK_OVER, _S.STARTED),
    (_S.GOING_BACK, TookOver, _C.TOOK_OVER, _S.GOING_BACK),
    # --- back to an older cut
    (tuple(RegionState), RollbackAsked, _C.ROLLBACK_ASKED, _S.GOING_BACK),
    (_S.GOING_BACK, RolledBack, _C.ALL_BACK, _S.STARTED),
    (_S.GOING_BACK, RollbackAbandoned, _C.ABANDONED, _S.STARTED),
)

REGION_TABLE = next_states(REGION_ROWS)
REGION_OCCASIONS = occasions(REGION_ROWS)

REMARKS: dict[RegionState, str] = {
    RegionState.PROCESSING: "told `resumeSubmission`; alarm `drain_period`, where drains are periodic",
    RegionState.DRAINING: "told `triggerDrain`; alarm `drain_timeout`",
    RegionState.PENDING: "told `resumeSubmission`, and that some still save; the alarm stays",
    RegionState.RESETTING: "told `triggerReset`; alarm `reset_timeout`",
    RegionState.SPENT: "told `resetFailed`; only a forced reset leads on",
    RegionState.GOING_BACK: "nobody works; one pipeline after the other is reset to its step of the cut",
}
"""What members are told in a state, and what is waited for; nothing in the others."""
