"""The words of the protocol as values: every record that is ever written to Kafka, and the parts they are
made of.

Everything here is frozen and made of the standard library only, so that the same values serve the
coordinator, the node, the simulator and `kcontrol log`. The wire layer maps each class to the Avro schema of
the same name by field names; a trailing underscore (`from_`) is dropped there because `from` is a Python
keyword.

Conventions: offsets are Kafka offsets, `to` is exclusive; times are `_ms` since the Unix epoch; digests are
32 lower-case hexadecimal digits (the sum modulo 2**128 of a 128-bit hash of each record), always beside the
count of records they cover.
"""

from __future__ import annotations

from kcontrol.core.model.assignment import Assignment, PartitionNodes, SavedPart
from kcontrol.core.model.checkpoints import (
    Checkpoint,
    CheckpointAnswer,
    CheckpointPart,
    CheckpointRequest,
    SavedFiles,
)
from kcontrol.core.model.control import (
    AgentPlacement,
    Claim,
    Command,
    ControlRecord,
    Desired,
    Gap,
    InputDesired,
    InputSchema,
    NodeJoin,
    NodeState,
    OutputSchema,
    Received,
    ReceivedPartition,
    Replaying,
    Resume,
    SchemaReference,
    SkipRequest,
    Status,
    StepWork,
    Written,
)
from kcontrol.core.model.environment import Environment
from kcontrol.core.model.exchanges import (
    EventTimes,
    ExchangeLayout,
    ExchangeRun,
    ExchangeSlice,
    ExchangeSpec,
    ExchangeTaken,
    Watermark,
    WatermarkSpec,
)
from kcontrol.core.model.holds import Hold, HoldStatus, ReadLimit
from kcontrol.core.model.layouts import LayoutReady, LayoutRequest, LayoutStatus
from kcontrol.core.model.logged import Logged, LoggedStep, StepResult, Tombstone
from kcontrol.core.model.spec import (
    IN_WORK_DIR,
    SHARED_OUT,
    CheckpointSpec,
    InputSpec,
    LayoutSpec,
    LimitsSpec,
    OutputSpec,
    PipelineSpec,
    StepPolicySpec,
)
from kcontrol.core.model.steps import Reset, StepBoundary, StepRecord
from kcontrol.core.model.times import EndTimes, StepEnd, WorkTimes
from kcontrol.core.model.values import (
    EMPTY_DIGEST,
    InputRange,
    InputSlice,
    LateRows,
    Layout,
    OutputLayout,
    OutputSlice,
    Skipped,
    SkippedRange,
    SourceSplit,
    Token,
)
from kcontrol.core.model.words import (
    BadRecords,
    CommandKind,
    DesiredMode,
    FailureKind,
    HoldPhase,
    LateRowsPolicy,
    LayoutPhase,
    NodePhase,
    PipelinePhase,
    Reason,
    UpgradeWay,
    WatermarkPolicy,
)

__all__ = [
    "EMPTY_DIGEST",
    "IN_WORK_DIR",
    "SHARED_OUT",
    "AgentPlacement",
    "Assignment",
    "BadRecords",
    "Checkpoint",
    "CheckpointAnswer",
    "CheckpointPart",
    "CheckpointRequest",
    "CheckpointSpec",
    "Claim",
    "Command",
    "CommandKind",
    "ControlRecord",
    "Desired",
    "DesiredMode",
    "EndTimes",
    "Environment",
    "EventTimes",
    "ExchangeLayout",
    "ExchangeRun",
    "ExchangeSlice",
    "ExchangeSpec",
    "ExchangeTaken",
    "FailureKind",
    "Gap",
    "Hold",
    "HoldPhase",
    "HoldStatus",
    "InputDesired",
    "InputRange",
    "InputSchema",
    "InputSlice",
    "InputSpec",
    "LateRows",
    "LateRowsPolicy",
    "Layout",
    "LayoutPhase",
    "LayoutReady",
    "LayoutRequest",
    "LayoutSpec",
    "LayoutStatus",
    "LimitsSpec",
    "Logged",
    "LoggedStep",
    "NodeJoin",
    "NodePhase",
    "NodeState",
    "OutputLayout",
    "OutputSchema",
    "OutputSlice",
    "OutputSpec",
    "PartitionNodes",
    "PipelinePhase",
    "PipelineSpec",
    "ReadLimit",
    "Reason",
    "Received",
    "ReceivedPartition",
    "Replaying",
    "Reset",
    "Resume",
    "SavedFiles",
    "SavedPart",
    "SchemaReference",
    "SkipRequest",
    "Skipped",
    "SkippedRange",
    "SourceSplit",
    "Status",
    "StepBoundary",
    "StepEnd",
    "StepPolicySpec",
    "StepRecord",
    "StepResult",
    "StepWork",
    "Token",
    "Tombstone",
    "UpgradeWay",
    "Watermark",
    "WatermarkPolicy",
    "WatermarkSpec",
    "WorkTimes",
    "Written",
]
