"""A node as a table: in which state what leads to which.

    closed -> opening -> idle -> writing -> written -> finishing -> idle -> ...
                          idle -> replaying -> finishing -> idle            while the log is ahead
                          idle -> pinning -> idle                           for a checkpoint, saved beside the steps

The node is never ahead of the log: FINISHING is entered only for a step whose boundary was read, and that names the node's own
token, or whose replay agreed with it. Whatever else ends an attempt leads through OPENING, which takes back what the attempt
has left in the state. `node.py` names only causes; a pair that is not here is a bug that stops the node.
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Where a node is."""

    JOINING = "joining"
    CLOSED = "closed"
    OPENING = "opening"
    IDLE = "idle"
    REPLAYING = "replaying"
    WRITING = "writing"
    WRITTEN = "written"
    FINISHING = "finishing"
    PINNING = "pinning"
    CLOSING = "closing"
    FAILED = "failed"
    EXITED = "exited"


class Cause(StrEnum):
    """Why a node leaves a state."""

    JOINED = "joined"
    OPEN = "told to open"
    OPENED = "engine opened"
    BEHIND = "log ahead"
    STEP = "told to step"
    WROTE = "attempt written"
    AGREED = "replay agrees"
    OWN_BOUNDARY = "own attempt committed"
    OTHER_BOUNDARY = "other attempt committed"
    FINISHED = "step finished"
    FAILED = "engine failed"
    BROKEN = "engine failed for good"
    PIN = "told to checkpoint"
    PINNED = "step pinned"
    CLOSE = "told to stop"
    CLOSED = "engine closed"
    EXIT = "shut down or replaced"


_S, _C = State, Cause
AT_WORK = (State.IDLE, State.REPLAYING, State.WRITING, State.WRITTEN, State.FINISHING, State.PINNING)
"""The queries run; a command to open or close interrupts, as it does an opening."""
UNANSWERED = (State.OPENING, State.REPLAYING, State.WRITING, State.FINISHING, State.PINNING, State.CLOSING)
"""The engine owes an answer."""
_LIVE = tuple(state for state in State if state not in (State.JOINING, State.EXITED))

_ROWS: tuple[tuple[State | tuple[State, ...], Cause, State], ...] = (
    (_S.JOINING, _C.JOINED, _S.CLOSED),
    # --- opening
    ((_S.CLOSED, _S.FAILED, _S.OPENING, *AT_WORK), _C.OPEN, _S.OPENING),
    (_S.OPENING, _C.OPENED, _S.IDLE),
    # --- an attempt
    (_S.IDLE, _C.STEP, _S.WRITING),
    (_S.WRITING, _C.WROTE, _S.WRITTEN),
    (_S.WRITTEN, _C.OWN_BOUNDARY, _S.FINISHING),
    ((_S.WRITING, _S.WRITTEN), _C.OTHER_BOUNDARY, _S.OPENING),
    # --- a replay
    (_S.IDLE, _C.BEHIND, _S.REPLAYING),
    (_S.REPLAYING, _C.AGREED, _S.FINISHING),
    (_S.FINISHING, _C.FINISHED, _S.IDLE),
    # --- a checkpoint
    (_S.IDLE, _C.PIN, _S.PINNING),
    (_S.PINNING, _C.PINNED, _S.IDLE),
    # --- the engine fails
    ((_S.OPENING, *AT_WORK), _C.FAILED, _S.CLOSED),
    ((_S.OPENING, *AT_WORK), _C.BROKEN, _S.FAILED),
    # --- the end
    ((_S.OPENING, *AT_WORK), _C.CLOSE, _S.CLOSING),
    ((_S.CLOSED, _S.FAILED, _S.CLOSING), _C.CLOSED, _S.CLOSED),
    (_LIVE, _C.EXIT, _S.EXITED),
)

TABLE: dict[tuple[State, Cause], State] = {
    (before, cause): after
    for befores, cause, after in _ROWS
    for before in ((befores,) if isinstance(befores, State) else befores)
}
"""What follows: by (state, cause)."""
