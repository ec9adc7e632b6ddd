"""The coordinator as a table: in which state what leads to which.

One coordinator looks after one pipeline. It takes over by a claim, and after that it is
always at one point of this circle:

    claim -> fence (InitProducer) -> read both logs to their ends -> all nodes in place -> a step is due ->
    add partitions -> the attempt runs -> commit -> fence, early, for the next transaction -> ...

Where Kafka tells the next epoch with the answer to a commit (KIP-890), the circle is shorter: from the commit straight
to "all nodes in place", and the nodes see the attempt while its partitions are added. They may have been told of it while the
commit was under way: then it goes from there to "add partitions", or, if it is not to be what they were told, to "fence".

A checkpoint is begun between two steps and saved beside them, or while the pipeline is paused, or before it
stops; once all nodes have saved it, the same circle is gone through without an attempt: add the log of steps
-> record the checkpoint -> fence -> ...

Some rules are the shape of the table:
- FENCING is entered from a claim, from the end of one's own transaction, or after a broker fault: never after
  a fencing error. That leads to CHECKING_CLAIM, which reads first; somebody else may be in charge.
- From the end of one's own step there is a way past it, where the answer tells the next epoch: nobody was fenced by
  that, and nobody can have committed between.
- From FENCING there is one way on, READING: whoever called InitProducerId last fenced the others, rightful or
  not, so nothing is published or written under a new producer epoch before the claim was seen to be still the
  newest.
- What nodes say they have read proves that a broker which was behind has answered READING; the way back there
  is through BACKING_OFF and FENCING, from wherever nothing is under way.
- What was read may be old without anybody saying so. Before a person is called because of it, a record of the
  coordinator's own is written (PROVING) and read beyond; a commit proves as much.
- What Kafka does not allow leads to DENIED, which tries nothing until somebody asks for it, and
  then begins with CHECKING_CLAIM.
- A newer claim leads to RESIGNED from everywhere, and from there only a new assignment leads on.

A handler names only the cause. `Turn.go` (turn.py) looks up here which state follows, asks for what that
state begins with (`ASKS`), and stops the coordinator, because that is a bug, when a cause is given in a state
or on an event that has no row. What is looked at between two transactions, and in which order, is a list as
well: `LOOK` in between_steps.py. The picture and the tables in docs/ are made from all three.
"""

from __future__ import annotations

from enum import StrEnum

from kcontrol.core.events import (
    AddPartitions,
    Assigned,
    CheckpointCommitted,
    CommitCheckpoint,
    CommitStep,
    ControlSeen,
    CoordinatorEffect,
    CoordinatorEvent,
    EndProved,
    EndsReached,
    InitProducer,
    PartitionsAdded,
    ProducerReady,
    ProveEnd,
    Publish,
    ReadToEnds,
    Resign,
    StepCommitted,
    StepSeen,
    Tick,
    TransactionFailed,
    WakeAt,
)
from kcontrol.core.machine import Look, Row, next_states, occasions


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
    PROVING = "proving the end"
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
    TOLD = "step told before"
    UNTAKEN = "what was told is not to be"
    PARTITIONS_ADDED = "partitions added"
    ALL_WRITTEN = "all nodes have written"
    SAVED = "checkpoint saved"
    COMMITTED = "committed"
    FOLLOWED = "committed, and the next epoch told"
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
    UNPROVED = "end of the log not proved"
    PROVED = "end of the log proved"
    HALT = "halt"
    NEWER_CLAIM = "newer claim"


RESTING = (State.ASSEMBLING, State.READY, State.PAUSED, State.STOPPING, State.STOPPED, State.HALTED)
"""No transaction is open and none is being opened: what to do is decided anew after each event."""

ASKS: dict[State, type[CoordinatorEffect]] = {
    State.CLAIMING: Publish,
    State.FENCING: InitProducer,
    State.READING: ReadToEnds,
    State.ADDING: AddPartitions,
    State.COMMITTING: CommitStep,
    State.ADDING_LOG: AddPartitions,
    State.RECORDING: CommitCheckpoint,
    State.PROVING: ProveEnd,
    State.BACKING_OFF: WakeAt,
    State.CHECKING_CLAIM: ReadToEnds,
    State.BACKING_OFF_FENCED: WakeAt,
    State.RESIGNED: Resign,
}
"""What a state asks for when it is entered; the others ask for nothing."""

ANSWERED_BY: dict[type[CoordinatorEffect], type[CoordinatorEvent]] = {
    InitProducer: ProducerReady,
    ReadToEnds: EndsReached,
    AddPartitions: PartitionsAdded,
    CommitStep: StepCommitted,
    CommitCheckpoint: CheckpointCommitted,
    ProveEnd: EndProved,
}
"""The transactional effects, each answered by exactly one event: this one, or `TransactionFailed`."""

ANSWERS = (*ANSWERED_BY.values(), TransactionFailed)
UNANSWERED = tuple(state for state, asked in ASKS.items() if asked in ANSWERED_BY)
"""A transactional effect is under way."""

_S, _C = State, Cause
_TRANSACTING = (_S.ADDING, _S.COMMITTING, _S.ADDING_LOG, _S.RECORDING, _S.PROVING)
_IN_CHARGE = tuple(state for state in State if state not in (_S.IDLE, _S.RESIGNED))
_JUDGED = (PartitionsAdded, ControlSeen, Tick)
"""On these the attempt under way is looked at: as it begins, when anything is read, and as time passes."""

ROWS: tuple[Row[State, Cause], ...] = (
    # --- taking over; what an earlier tenure has asked for is answered first
    ((_S.IDLE, _S.RESIGNED), Assigned, _C.ASSIGNED, _S.CLAIMING),
    (_S.CLAIMING, (ControlSeen, *ANSWERS), _C.CLAIM_SEEN, _S.FENCING),
    (_S.FENCING, ProducerReady, _C.PRODUCER_READY, _S.READING),
    (_S.READING, EndsReached, _C.ENDS_REACHED, _S.ASSEMBLING),
    # --- a step
    (_S.ASSEMBLING, Look, _C.IN_PLACE, _S.READY),
    (_S.READY, Look, _C.OUT_OF_PLACE, _S.ASSEMBLING),
    (_S.READY, Look, _C.LIMITS_CHANGED, _S.FENCING),
    (_S.READY, Look, _C.DUE, _S.ADDING),
    (_S.ASSEMBLING, Look, _C.TOLD, _S.ADDING),
    (_S.ASSEMBLING, Look, _C.UNTAKEN, _S.FENCING),
    (_S.ADDING, PartitionsAdded, _C.PARTITIONS_ADDED, _S.ATTEMPTING),
    (_S.ATTEMPTING, _JUDGED, _C.ALL_WRITTEN, _S.COMMITTING),
    (_S.COMMITTING, StepCommitted, _C.FOLLOWED, _S.ASSEMBLING),
    (_S.COMMITTING, StepCommitted, _C.COMMITTED, _S.FENCING),
    # --- a checkpoint that all nodes have saved, in a transaction of its own
    ((_S.READY, _S.PAUSED, _S.STOPPING), Look, _C.SAVED, _S.ADDING_LOG),
    (_S.ADDING_LOG, PartitionsAdded, _C.PARTITIONS_ADDED, _S.RECORDING),
    (_S.RECORDING, CheckpointCommitted, _C.COMMITTED, _S.FENCING),
    # --- before what was read calls a person: is it all that there is?
    (RESTING, Look, _C.UNPROVED, _S.PROVING),
    (_S.PROVING, EndProved, _C.PROVED, _S.FENCING),
    # --- what goes wrong with them
    ((_S.ADDING, _S.ADDING_LOG), PartitionsAdded, _C.OUT_OF_PLACE, _S.FENCING),
    (_S.ATTEMPTING, _JUDGED, _C.ATTEMPT_FAILED, _S.FENCING),
    ((_S.FENCING, _S.READING, *_TRANSACTING), TransactionFailed, _C.BROKER_FAILED, _S.BACKING_OFF),
    (RESTING, Look, _C.LOG_AHEAD, _S.BACKING_OFF),
    (_S.BACKING_OFF, Tick, _C.BACKED_OFF, _S.FENCING),
    ((_S.FENCING, _S.READING, *_TRANSACTING), TransactionFailed, _C.FENCED, _S.CHECKING_CLAIM),
    ((_S.ADDING, _S.ADDING_LOG), PartitionsAdded, _C.FENCED, _S.CHECKING_CLAIM),
    (_S.ATTEMPTING, (*_JUDGED, StepSeen), _C.FENCED, _S.CHECKING_CLAIM),
    ((_S.FENCING, _S.READING, *_TRANSACTING), TransactionFailed, _C.FENCED_AGAIN, _S.BACKING_OFF_FENCED),
    ((_S.ADDING, _S.ADDING_LOG), PartitionsAdded, _C.FENCED_AGAIN, _S.BACKING_OFF_FENCED),
    (_S.ATTEMPTING, (*_JUDGED, StepSeen), _C.FENCED_AGAIN, _S.BACKING_OFF_FENCED),
    (_S.CHECKING_CLAIM, EndsReached, _C.CLAIM_HOLDS, _S.CLAIMING),
    (_S.CHECKING_CLAIM, TransactionFailed, _C.BROKER_FAILED, _S.BACKING_OFF_FENCED),
    (_S.BACKING_OFF_FENCED, Tick, _C.BACKED_OFF, _S.CHECKING_CLAIM),
    ((_S.FENCING, _S.READING, _S.CHECKING_CLAIM, *_TRANSACTING), TransactionFailed, _C.DENIED, _S.DENIED),
    (_S.READING, EndsReached, _C.DENIED, _S.DENIED),
    (_S.DENIED, ControlSeen, _C.ASKED, _S.CHECKING_CLAIM),
    # --- what the user wants
    ((_S.ASSEMBLING, _S.READY, _S.STOPPING, _S.STOPPED, _S.HALTED), Look, _C.PAUSE, _S.PAUSED),
    ((_S.ASSEMBLING, _S.READY, _S.PAUSED, _S.HALTED), Look, _C.STOP, _S.STOPPING),
    (_S.STOPPING, Look, _C.CLOSED, _S.STOPPED),
    (_S.STOPPED, Look, _C.OUT_OF_PLACE, _S.STOPPING),
    ((_S.PAUSED, _S.STOPPING, _S.STOPPED, _S.HALTED), Look, _C.RUN, _S.ASSEMBLING),
    ((_S.ASSEMBLING, _S.READY, _S.PAUSED, _S.STOPPING, _S.STOPPED), Look, _C.HALT, _S.HALTED),
    # --- somebody else is in charge
    (_IN_CHARGE, ControlSeen, _C.NEWER_CLAIM, _S.RESIGNED),
)

TABLE = next_states(ROWS)
OCCASIONS = occasions(ROWS)
