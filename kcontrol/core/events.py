"""What happens to a state machine (events) and what it wants done (effects).

Events come from a shell in `kcontrol.sessions`, in the order in which they happened; time comes in as `Tick`.
Effects are carried out by the shell in order. An effect that takes time is answered by exactly one event; the
state machines never have two transactional effects under way.

`now_ms` of an event, and `at_ms` of a wake-up, are readings of a monotonic clock of the process: every
deadline counts them. The wall clock (`wall_ms`) only stamps records, and comes in beside the other in
`Assigned`, `Joined` and each `Tick`.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.core.model import (
    Assignment,
    Checkpoint,
    ControlRecord,
    ExchangeSlice,
    FailureKind,
    Logged,
    LoggedStep,
    ReceivedPartition,
    SavedFiles,
    StepBoundary,
    StepResult,
    StepWork,
    Watermark,
)

# --- both ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tick:
    """Both clocks. Sent at least every 100 ms, and when a wait that a `WakeAt` named is over."""

    now_ms: int
    wall_ms: int
    """Milliseconds since the Unix epoch, by this machine; may have been set, forward or back, since the last
    tick."""


@dataclass(frozen=True, slots=True)
class ControlSeen:
    """A record of the control partition, in offset order, each offset once."""

    logged: Logged
    now_ms: int


@dataclass(frozen=True, slots=True)
class StepSeen:
    """A committed record of the steps topic, in offset order, each offset once."""

    logged: LoggedStep
    now_ms: int


@dataclass(frozen=True, slots=True)
class Publish:
    """Append records to the control partition, in order, with an idempotent producer.
    `forget` are keys to tombstone."""

    records: tuple[ControlRecord, ...]
    forget: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Ask for a `Tick` no later than this."""

    at_ms: int


# --- coordinator: events ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Assigned:
    """This coordinator shall look after the pipeline: what the control partition holds
    was sent before as `ControlSeen`."""

    uuid: str
    host: str
    process_id: int
    now_ms: int
    wall_ms: int


@dataclass(frozen=True, slots=True)
class ProducerReady:
    """Answer to `InitProducer`: whatever was open under this transactional id is aborted or was committed."""

    producer_id: int
    producer_epoch: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class EndsReached:
    """Answer to `ReadToEnds`: what both topics were seen to hold has been sent as events.

    steps_end: the offset up to which the steps topic was read. That there is no more is proved
    when the next record is written.
    """

    steps_end: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    """Answer to `AddPartitions`."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class Following:
    """The transaction after one that was committed, where Kafka gives each an epoch of its own (KIP-890).

    logged: the boundary, where it lies. steps_end: where the log of steps ends, if nothing came to lie there but
    what this owner has written.
    """

    producer_id: int
    producer_epoch: int
    logged: LoggedStep
    steps_end: int


@dataclass(frozen=True, slots=True)
class StepCommitted:
    """Answer to `CommitStep`: the boundary is in the log and readers see the step.

    following: the next transaction, where the answer tells. The boundary is known by it, and read no more; else
    its `StepSeen` follows or went before.
    """

    step: int
    now_ms: int
    following: Following | None = None


@dataclass(frozen=True, slots=True)
class CheckpointCommitted:
    """Answer to `CommitCheckpoint`: what it wrote is in the log. Its `StepSeen` follows or went before."""

    step: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class EndProved:
    """Answer to `ProveEnd`: whatever lies before the record that was written is seen by the next
    `ReadToEnds`."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class TransactionFailed:
    """Answer to `InitProducer`, `ReadToEnds`, `AddPartitions`, `CommitStep`, `CommitCheckpoint` or
    `ProveEnd` instead of the good one.

    kind FENCED: errors 47, 48, 49, 90. BROKER: a passing error outlasted its retries, or (for the commits)
    the answer was lost and the outcome is unknown until the steps topic has been read after fencing.
    """

    kind: FailureKind
    error: str
    now_ms: int


# --- coordinator: effects -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InitProducer:
    """InitProducerId for the pipeline's transactional id. Also the only way to abort."""

    timeout_ms: int


@dataclass(frozen=True, slots=True)
class ReadToEnds:
    """Read the control partition to its end offset, then the steps topic (read_committed) to its end.

    settled: the asker has just fenced, so no transaction of the pipeline is open: what is, is waited for; and
    so is all that Kafka has acknowledged to the asker.
    """

    settled: bool


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """AddPartitionsToTxn in one request: the (topic, partition) of every output, and the steps partition."""

    producer_id: int
    producer_epoch: int
    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class CommitStep:
    """Write the boundary inside the transaction, then commit it.

    The shell stamps `committed_ms` with its clock just before it writes.
    """

    producer_id: int
    producer_epoch: int
    boundary: StepBoundary
    expected_offset: int
    """Where it has to come to lie: the end up to which the log of steps was read.
    Elsewhere, something was not seen."""


@dataclass(frozen=True, slots=True)
class CommitCheckpoint:
    """Write the checkpoint, the change of the layout that is made over it, and the tombstones of the checkpoints and steps
    that it makes needless, then commit."""

    producer_id: int
    producer_epoch: int
    checkpoint: Checkpoint | None
    """None: there is nothing to save for the change of the layout."""
    expected_offset: int
    """As of `CommitStep`."""
    forget: tuple[str, ...]
    assignment: Assignment | None = None


@dataclass(frozen=True, slots=True)
class ProveEnd:
    """Write a record to the steps topic (acks=all) in a transaction that is never committed.

    The next `ReadToEnds` reads beyond it, so that it is not a broker's word on which it rests that nothing
    newer was committed. InitProducer, which comes next, aborts it: no reader ever sees it.
    """

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Resign:
    """Somebody newer is in charge: do nothing more for this pipeline until assigned again, with another uuid.

    A transactional effect that is under way is still answered, also after that.
    """

    reason: str


# --- node: events -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Joined:
    """The node's join record has its offset; both topics have been read to their ends (sent as events before
    this).

    openable: steps that the node's own directory holds. restorable: those of the checkpoints in the log whose
    files of this node the engine can read.
    """

    incarnation: int
    openable: tuple[int, ...]
    now_ms: int
    wall_ms: int
    restorable: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class InputArrived:
    """A watcher saw committed input beyond what it had said before (or, in a recreated topic, another topic
    id)."""

    input: str
    partitions: tuple[ReceivedPartition, ...]
    size_bytes: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class EngineOpened:
    """Answer to `OpenEngine`."""

    step: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class AttemptWritten:
    """Answer to `RunStep` or `RunStage`: all tasks of all queries of that stage have written (or, in a replay, of all
    queries have recomputed) and every digest is known."""

    step: int
    result: StepResult
    now_ms: int
    stage: int = 0
    """Of the step."""


@dataclass(frozen=True, slots=True)
class StepFinished:
    """Answer to `FinishStep`: Spark records its batches, and whatever is asked of the engine next waits for
    that.

    openable: what its own directory then holds.
    """

    step: int
    openable: tuple[int, ...]
    now_ms: int


@dataclass(frozen=True, slots=True)
class StepPinned:
    """Answer to `PinStep`: what the step needs is held fast, whatever later steps do; or
    it is not, for the reason given."""

    step: int
    error: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class PartSaved:
    """Answer to `SavePart`, some time later and beside all others: the files are there, or why they are
    not."""

    claim_epoch: int
    command_serial: int
    saved: SavedFiles | None
    error: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class EngineFailed:
    """Answer to `OpenEngine`, `RunStep`, `RunStage` or `FinishStep` instead of the good one, or out of the blue while
    idle.

    openable: what the engine's own directory holds now; None if that can't be told.
    """

    kind: FailureKind
    error: str
    now_ms: int
    openable: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class EngineClosed:
    """Answer to `CloseEngine`."""

    now_ms: int


# --- node: effects ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenEngine:
    """Cancel whatever runs, wait until it has ended, go back to `step`, start the queries.

    create: with an empty state, whatever is there; after a step later than 0 only if the pipeline keeps none.

    checkpoint: the one in the log that has this step, if any; it is used when the node's
    own directory does not hold it.
    """

    step: int
    create: bool
    checkpoint: Checkpoint | None = None


@dataclass(frozen=True, slots=True)
class RunStep:
    """Run one micro-batch of every query of the first stage. With `expected` it is a replay, of all stages: write nothing,
    read of what was exchanged the runs that the boundary has for this node, compare with the boundary."""

    work: StepWork
    expected: StepBoundary | None


@dataclass(frozen=True, slots=True)
class RunStage:
    """Run the queries of the next stage of the attempt under way, on what was sent to this node in the stages before.
    Answered by `AttemptWritten`.

    received: of all nodes' slices those runs alone that are for this node, by exchange and partition.
    """

    step: int
    stage: int
    received: tuple[ExchangeSlice, ...]


@dataclass(frozen=True, slots=True)
class FinishStep:
    """The step is committed (or its replay agrees): let Spark record its batches."""

    step: int
    watermarks: tuple[Watermark, ...] = ()
    """Of all nodes together, for Spark to record."""


@dataclass(frozen=True, slots=True)
class PinStep:
    """Hold fast what opening `step` needs, the step that the engine holds complete. Takes milliseconds."""

    step: int


@dataclass(frozen=True, slots=True)
class SavePart:
    """Copy what was pinned to the checkpoint location, while steps go on. A later `PinStep` ends it
    unanswered."""

    step: int
    claim_epoch: int
    command_serial: int
    location: str


@dataclass(frozen=True, slots=True)
class DropParts:
    """Delete this node's saved parts of steps up to the newest kept checkpoint that no kept
    checkpoint names. Not answered."""

    kept: tuple[Checkpoint, ...]


@dataclass(frozen=True, slots=True)
class CancelAttempt:
    """The attempt is over: its tasks must not write any more and its batch must not be recorded. Not
    answered."""


@dataclass(frozen=True, slots=True)
class CloseEngine:
    """Stop all queries."""


@dataclass(frozen=True, slots=True)
class Exit:
    """This incarnation ends: shut down by command, replaced by a newer incarnation, or of no use any more."""

    reason: str
    replaced: bool
    shut_down: bool = False
    relaid: bool = False
    """The layout was changed while the pipeline runs: the process goes on by that, or was left out."""


CoordinatorAnswer = (
    ProducerReady
    | EndsReached
    | PartitionsAdded
    | StepCommitted
    | CheckpointCommitted
    | EndProved
    | TransactionFailed
)
CoordinatorEvent = Tick | ControlSeen | StepSeen | Assigned | CoordinatorAnswer
CoordinatorEffect = (
    Publish
    | WakeAt
    | InitProducer
    | ReadToEnds
    | AddPartitions
    | CommitStep
    | CommitCheckpoint
    | ProveEnd
    | Resign
)
EngineAnswer = (
    EngineOpened | AttemptWritten | StepFinished | StepPinned | PartSaved | EngineFailed | EngineClosed
)
NodeEvent = Tick | ControlSeen | StepSeen | Joined | InputArrived | EngineAnswer
NodeEffect = (
    Publish
    | WakeAt
    | OpenEngine
    | RunStep
    | RunStage
    | FinishStep
    | PinStep
    | SavePart
    | DropParts
    | CancelAttempt
    | CloseEngine
    | Exit
)
