"""The coordinator as a table: in which state what leads to which.

One coordinator looks after one pipeline. It takes over by a claim, and after that it is always at one point of this circle:

    claim -> fence (InitProducer) -> read both logs to their ends -> all nodes in place -> a step is due ->
    add partitions -> the attempt runs -> commit -> fence, early, for the next transaction -> ...

A checkpoint is begun between two steps and saved beside them, or while the pipeline is paused, or before it stops; once all
nodes have saved it, the same circle is gone through without an attempt: add the log of steps -> record the checkpoint ->
fence -> ...

Five rules are the shape of the table:
- FENCING is entered from a claim, from the end of one's own transaction, or after a broker fault: never after a fencing error.
  That leads to CHECKING_CLAIM, which reads first; somebody else may be in charge.
- From FENCING there is one way on, READING: whoever called InitProducerId last fenced the others, rightful or not, so nothing
  is published or written under a new producer epoch before the claim was seen to be still the newest.
- What nodes say they have read proves that a broker which was behind has answered READING; the way back there is through
  BACKING_OFF and FENCING, from wherever nothing is under way.
- What Kafka does not allow leads to DENIED, which tries nothing until somebody asks for it, and then begins with
  CHECKING_CLAIM.
- A newer claim leads to RESIGNED from everywhere, and from there only a new assignment leads on.

`coordinator.py` names only the cause; the state that follows is looked up here, and a pair that is not here is a bug that stops
the coordinator. The picture in docs/ is drawn from the table too.
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Where a coordinator is."""

    IDLE = "idle"
    CLAIMING = "claiming"
    FENCING = "fencing"
    READING = "reading"
    ASSEMBLING = "assembling"
    READY = "ready"
    ADDING = "adding"
    ATTEMPTING = "attempting"
    COMMITTING = "committing"
    ADDING_LOG = "adding the log"
    RECORDING = "recording checkpoint"
    BACKING_OFF = "backing off"
    CHECKING_CLAIM = "checking claim"
    BACKING_OFF_FENCED = "backing off fenced"
    DENIED = "denied"
    PAUSED = "paused"
    STOPPING = "stopping"
    STOPPED = "stopped"
    HALTED = "halted"
    RESIGNED = "resigned"


class Cause(StrEnum):
    """Why a coordinator leaves a state."""

    ASSIGNED = "assigned"
    CLAIM_SEEN = "own claim seen"
    PRODUCER_READY = "producer ready"
    ENDS_REACHED = "ends reached"
    IN_PLACE = "all nodes in place"
    OUT_OF_PLACE = "a node is not in place"
    DUE = "step due"
    PARTITIONS_ADDED = "partitions added"
    ALL_WRITTEN = "all nodes have written"
    SAVED = "checkpoint saved"
    COMMITTED = "committed"
    ATTEMPT_FAILED = "attempt failed"
    BROKER_FAILED = "broker fault"
    DENIED = "not allowed"
    ASKED = "a wish of the user's"
    BACKED_OFF = "back-off over"
    FENCED = "fenced"
    FENCED_AGAIN = "fenced again"
    CLAIM_HOLDS = "own claim still newest"
    PAUSE = "pause wanted"
    STOP = "stop wanted"
    RUN = "running wanted"
    CLOSED = "all nodes closed"
    LIMITS_CHANGED = "transaction timeout changed"
    LOG_AHEAD = "a node has read more"
    HALT = "halt"
    NEWER_CLAIM = "newer claim"


RESTING = (State.ASSEMBLING, State.READY, State.PAUSED, State.STOPPING, State.STOPPED, State.HALTED)
"""No transaction is open and none is being opened: what to do is decided anew after each event."""

_S, _C = State, Cause
_TRANSACTING = (_S.ADDING, _S.COMMITTING, _S.ADDING_LOG, _S.RECORDING)

_ROWS: tuple[tuple[State | tuple[State, ...], Cause, State], ...] = (
    # --- taking over
    ((_S.IDLE, _S.RESIGNED), _C.ASSIGNED, _S.CLAIMING),
    (_S.CLAIMING, _C.CLAIM_SEEN, _S.FENCING),
    (_S.FENCING, _C.PRODUCER_READY, _S.READING),
    (_S.READING, _C.ENDS_REACHED, _S.ASSEMBLING),
    # --- a step
    (_S.ASSEMBLING, _C.IN_PLACE, _S.READY),
    (_S.READY, _C.OUT_OF_PLACE, _S.ASSEMBLING),
    (_S.READY, _C.LIMITS_CHANGED, _S.FENCING),
    (_S.READY, _C.DUE, _S.ADDING),
    (_S.ADDING, _C.PARTITIONS_ADDED, _S.ATTEMPTING),
    (_S.ATTEMPTING, _C.ALL_WRITTEN, _S.COMMITTING),
    (_S.COMMITTING, _C.COMMITTED, _S.FENCING),
    # --- a checkpoint that all nodes have saved, in a transaction of its own
    ((_S.READY, _S.PAUSED, _S.STOPPING), _C.SAVED, _S.ADDING_LOG),
    (_S.ADDING_LOG, _C.PARTITIONS_ADDED, _S.RECORDING),
    (_S.RECORDING, _C.COMMITTED, _S.FENCING),
    # --- what goes wrong with them
    ((_S.ADDING, _S.ADDING_LOG), _C.OUT_OF_PLACE, _S.FENCING),
    (_S.ATTEMPTING, _C.ATTEMPT_FAILED, _S.FENCING),
    ((_S.FENCING, _S.READING, *_TRANSACTING), _C.BROKER_FAILED, _S.BACKING_OFF),
    (RESTING, _C.LOG_AHEAD, _S.BACKING_OFF),
    (_S.BACKING_OFF, _C.BACKED_OFF, _S.FENCING),
    ((_S.FENCING, _S.READING, _S.ATTEMPTING, *_TRANSACTING), _C.FENCED, _S.CHECKING_CLAIM),
    ((_S.FENCING, _S.READING, _S.ATTEMPTING, *_TRANSACTING), _C.FENCED_AGAIN, _S.BACKING_OFF_FENCED),
    (_S.CHECKING_CLAIM, _C.CLAIM_HOLDS, _S.CLAIMING),
    (_S.CHECKING_CLAIM, _C.BROKER_FAILED, _S.BACKING_OFF_FENCED),
    (_S.BACKING_OFF_FENCED, _C.BACKED_OFF, _S.CHECKING_CLAIM),
    ((_S.FENCING, _S.READING, _S.CHECKING_CLAIM, *_TRANSACTING), _C.DENIED, _S.DENIED),
    (_S.DENIED, _C.ASKED, _S.CHECKING_CLAIM),
    # --- what the user wants
    ((_S.ASSEMBLING, _S.READY, _S.STOPPING, _S.STOPPED, _S.HALTED), _C.PAUSE, _S.PAUSED),
    ((_S.ASSEMBLING, _S.READY, _S.PAUSED, _S.HALTED), _C.STOP, _S.STOPPING),
    (_S.STOPPING, _C.CLOSED, _S.STOPPED),
    (_S.STOPPED, _C.OUT_OF_PLACE, _S.STOPPING),
    ((_S.PAUSED, _S.STOPPING, _S.STOPPED, _S.HALTED), _C.RUN, _S.ASSEMBLING),
    ((_S.ASSEMBLING, _S.READY, _S.PAUSED, _S.STOPPING, _S.STOPPED), _C.HALT, _S.HALTED),
    # --- somebody else is in charge
    (tuple(state for state in State if state not in (_S.IDLE, _S.RESIGNED)), _C.NEWER_CLAIM, _S.RESIGNED),
)

TABLE: dict[tuple[State, Cause], State] = {
    (before, cause): after
    for befores, cause, after in _ROWS
    for before in ((befores,) if isinstance(befores, State) else befores)
}
"""What follows: by (state, cause)."""
