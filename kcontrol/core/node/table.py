"""A node as a table: in which state what leads to which.

    closed -> opening -> idle -> writing -> written -> finishing -> idle -> ... idle -> replaying -> finishing
    -> idle            while the log is ahead idle -> pinning -> idle                           for a
    checkpoint, saved beside the steps

Where queries exchange rows, a step has stages, and between two of them nothing runs:

    writing -> awaiting -> receiving -> awaiting -> receiving -> written

The next one is asked for when the node has read that all nodes have written the one before.

The node is never ahead of the log: FINISHING is entered only for a step whose boundary was read, and that
names the node's own token, or whose replay agreed with it. Whatever else ends an attempt leads through
OPENING, which takes back what the attempt has left in the state.

A handler names only the cause. `NodeTurn.go` (turn.py) looks up here which state follows, asks the engine for
what that state begins with (`ASKS`), and stops the node, because that is a bug, when a cause is given in a
state or on an event that has no row. Whatever interrupts an attempt or a replay (`CANCELLED`) asks for
`CancelAttempt` before it.
"""

from __future__ import annotations

from enum import StrEnum

from kcontrol.core.events import (
    AttemptWritten,
    CloseEngine,
    ControlSeen,
    EngineClosed,
    EngineFailed,
    EngineOpened,
    Exit,
    FinishStep,
    Joined,
    NodeEffect,
    NodeEvent,
    OpenEngine,
    PinStep,
    RunStage,
    RunStep,
    StepFinished,
    StepPinned,
    StepSeen,
)
from kcontrol.core.machine import Look, Row, next_states, occasions


class NodeStage(StrEnum):
    """Where a node is."""

    JOINING = "joining"
    CLOSED = "closed"
    OPENING = "opening"
    IDLE = "idle"
    REPLAYING = "replaying"
    WRITING = "writing"
    AWAITING = "awaiting"
    RECEIVING = "receiving"
    WRITTEN = "written"
    FINISHING = "finishing"
    PINNING = "pinning"
    CLOSING = "closing"
    FAILED = "failed"
    EXITED = "exited"


class NodeCause(StrEnum):
    """Why a node leaves a state."""

    JOINED = "joined"
    OPEN = "told to open"
    OPENED = "engine opened"
    BEHIND = "log ahead"
    STEP = "told to step"
    STAGE_WROTE = "stage written"
    PEERS_WROTE = "stage written by all"
    WROTE = "attempt written"
    AGREED = "replay agrees"
    OWN_BOUNDARY = "own attempt committed"
    OTHER_BOUNDARY = "other attempt committed"
    FINISHED = "step finished"
    FAILED = "engine failed"
    BROKEN = "engine failed for good"
    DROPPED = "log dropped what failed"
    PIN = "told to checkpoint"
    PINNED = "step pinned"
    CLOSE = "told to stop"
    CLOSED = "engine closed"
    EXIT = "shut down or replaced"


AT_WORK = (
    NodeStage.IDLE,
    NodeStage.REPLAYING,
    NodeStage.WRITING,
    NodeStage.AWAITING,
    NodeStage.RECEIVING,
    NodeStage.WRITTEN,
    NodeStage.FINISHING,
    NodeStage.PINNING,
)
"""The queries run; a command to open or close interrupts, as it does an opening."""

UNWRITTEN = (NodeStage.WRITING, NodeStage.AWAITING, NodeStage.RECEIVING)
"""An attempt is under way that still needs the queries."""

ATTEMPTING = (*UNWRITTEN, NodeStage.WRITTEN)
"""An attempt is under way, and its boundary, or another's, may come."""

ASKS: dict[NodeStage, type[NodeEffect]] = {
    NodeStage.OPENING: OpenEngine,
    NodeStage.REPLAYING: RunStep,
    NodeStage.WRITING: RunStep,
    NodeStage.RECEIVING: RunStage,
    NodeStage.FINISHING: FinishStep,
    NodeStage.PINNING: PinStep,
    NodeStage.CLOSING: CloseEngine,
    NodeStage.EXITED: Exit,
}
"""What a state asks for when it is entered; the others ask for nothing."""

ANSWERED_BY: dict[type[NodeEffect], type[NodeEvent]] = {
    OpenEngine: EngineOpened,
    RunStep: AttemptWritten,
    RunStage: AttemptWritten,
    FinishStep: StepFinished,
    PinStep: StepPinned,
    CloseEngine: EngineClosed,
}
"""What the engine is asked, each answered by exactly one event: this one, or `EngineFailed`."""

UNANSWERED = tuple(state for state, asked in ASKS.items() if asked in ANSWERED_BY)
"""The engine owes an answer."""

CANCELLED = (NodeStage.REPLAYING, *ATTEMPTING, NodeStage.FINISHING)
"""The engine holds a step that is not recorded: what interrupts it asks for `CancelAttempt`."""

_S, _C = NodeStage, NodeCause
_LIVE = tuple(state for state in NodeStage if state not in (NodeStage.JOINING, NodeStage.EXITED))

ROWS: tuple[Row[NodeStage, NodeCause], ...] = (
    (_S.JOINING, Joined, _C.JOINED, _S.CLOSED),
    # --- opening
    ((_S.CLOSED, _S.FAILED, _S.OPENING, *AT_WORK), Look, _C.OPEN, _S.OPENING),
    (_S.OPENING, EngineOpened, _C.OPENED, _S.IDLE),
    # --- an attempt
    (_S.IDLE, Look, _C.STEP, _S.WRITING),
    ((_S.WRITING, _S.RECEIVING), AttemptWritten, _C.STAGE_WROTE, _S.AWAITING),
    (_S.AWAITING, Look, _C.PEERS_WROTE, _S.RECEIVING),
    ((_S.WRITING, _S.RECEIVING), AttemptWritten, _C.WROTE, _S.WRITTEN),
    (_S.WRITTEN, StepSeen, _C.OWN_BOUNDARY, _S.FINISHING),
    (ATTEMPTING, StepSeen, _C.OTHER_BOUNDARY, _S.OPENING),
    # --- a replay
    (_S.IDLE, Look, _C.BEHIND, _S.REPLAYING),
    (_S.REPLAYING, AttemptWritten, _C.AGREED, _S.FINISHING),
    (_S.FINISHING, StepFinished, _C.FINISHED, _S.IDLE),
    # --- a checkpoint
    (_S.IDLE, Look, _C.PIN, _S.PINNING),
    (_S.PINNING, StepPinned, _C.PINNED, _S.IDLE),
    # --- the engine fails, or the log lacks what is to be replayed
    ((_S.OPENING, *AT_WORK), EngineFailed, _C.FAILED, _S.CLOSED),
    ((_S.OPENING, *AT_WORK), EngineFailed, _C.BROKEN, _S.FAILED),
    (_S.IDLE, Look, _C.BROKEN, _S.FAILED),
    (_S.FAILED, Look, _C.DROPPED, _S.CLOSED),
    # --- the end: told to, replaced, or of no use any more
    ((_S.OPENING, *AT_WORK), Look, _C.CLOSE, _S.CLOSING),
    ((_S.CLOSED, _S.FAILED), Look, _C.CLOSED, _S.CLOSED),
    (_S.CLOSING, (EngineClosed, EngineFailed), _C.CLOSED, _S.CLOSED),
    (_LIVE, (ControlSeen, StepSeen, Look), _C.EXIT, _S.EXITED),
    (_S.CLOSED, (Joined, EngineClosed, EngineFailed), _C.EXIT, _S.EXITED),
)

TABLE = next_states(ROWS)
OCCASIONS = occasions(ROWS)
