"""What happens to a coordinator (events), and what it wants done (effects)."""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.core.events.shared import ControlSeen, Publish, StepSeen, Tick, WakeAt
from kcontrol.core.model import Assignment, Checkpoint, FailureKind, LoggedStep, StepBoundary

# --- events


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


# --- effects


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
