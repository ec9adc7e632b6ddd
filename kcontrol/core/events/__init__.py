"""What happens to a state machine (events) and what it wants done (effects).

Events come from a shell in `kcontrol.sessions`, in the order in which they happened; time comes in as `Tick`.
Effects are carried out by the shell in order. An effect that takes time is answered by exactly one event; the
state machines never have two transactional effects under way.

`now_ms` of an event, and `at_ms` of a wake-up, are readings of a monotonic clock of the process: every
deadline counts them. The wall clock (`wall_ms`) only stamps records, and comes in beside the other in
`Assigned`, `Joined` and each `Tick`.
"""

from __future__ import annotations

from kcontrol.core.events.coordinator import (
    AddPartitions,
    Assigned,
    CheckpointCommitted,
    CommitCheckpoint,
    CommitStep,
    CoordinatorAnswer,
    CoordinatorEffect,
    CoordinatorEvent,
    EndProved,
    EndsReached,
    Following,
    InitProducer,
    PartitionsAdded,
    ProducerReady,
    ProveEnd,
    ReadToEnds,
    Resign,
    StepCommitted,
    TransactionFailed,
)
from kcontrol.core.events.node import (
    AttemptWritten,
    CancelAttempt,
    CloseEngine,
    DropParts,
    EngineAnswer,
    EngineClosed,
    EngineFailed,
    EngineOpened,
    Exit,
    FinishStep,
    InputArrived,
    Joined,
    NodeEffect,
    NodeEvent,
    OpenEngine,
    PartSaved,
    PinStep,
    RunStage,
    RunStep,
    SavePart,
    StepFinished,
    StepPinned,
)
from kcontrol.core.events.shared import (
    ControlSeen,
    Publish,
    StepSeen,
    Tick,
    WakeAt,
)

__all__ = [
    "AddPartitions",
    "Assigned",
    "AttemptWritten",
    "CancelAttempt",
    "CheckpointCommitted",
    "CloseEngine",
    "CommitCheckpoint",
    "CommitStep",
    "ControlSeen",
    "CoordinatorAnswer",
    "CoordinatorEffect",
    "CoordinatorEvent",
    "DropParts",
    "EndProved",
    "EndsReached",
    "EngineAnswer",
    "EngineClosed",
    "EngineFailed",
    "EngineOpened",
    "Exit",
    "FinishStep",
    "Following",
    "InitProducer",
    "InputArrived",
    "Joined",
    "NodeEffect",
    "NodeEvent",
    "OpenEngine",
    "PartSaved",
    "PartitionsAdded",
    "PinStep",
    "ProducerReady",
    "ProveEnd",
    "Publish",
    "ReadToEnds",
    "Resign",
    "RunStage",
    "RunStep",
    "SavePart",
    "StepCommitted",
    "StepFinished",
    "StepPinned",
    "StepSeen",
    "Tick",
    "TransactionFailed",
    "WakeAt",
]
