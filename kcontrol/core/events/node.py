"""What happens to a node (events), and what it wants done (effects)."""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.core.events.shared import ControlSeen, Publish, StepSeen, Tick, WakeAt
from kcontrol.core.model import (
    Checkpoint,
    ExchangeSlice,
    FailureKind,
    ReceivedPartition,
    SavedFiles,
    StepBoundary,
    StepResult,
    StepWork,
    Watermark,
)

# --- events


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


# --- effects


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
class MakeReady:
    """This will be asked for once the step before it, which is written, is committed: read and compute for it, and write
    nothing. Not answered. What comes of it is `RunStep` with the same work; or anything else, and then it was in vain."""

    work: StepWork


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


EngineAnswer = (
    EngineOpened | AttemptWritten | StepFinished | StepPinned | PartSaved | EngineFailed | EngineClosed
)
NodeEvent = Tick | ControlSeen | StepSeen | Joined | InputArrived | EngineAnswer
NodeEffect = (
    Publish
    | WakeAt
    | OpenEngine
    | RunStep
    | MakeReady
    | RunStage
    | FinishStep
    | PinStep
    | SavePart
    | DropParts
    | CancelAttempt
    | CloseEngine
    | Exit
)
