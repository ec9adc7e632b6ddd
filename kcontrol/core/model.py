"""The words of the protocol as values: every record that is ever written to Kafka, and the parts they are made of.

Everything here is frozen and made of the standard library only, so that the same values serve the coordinator, the node,
the simulator and `kcontrol log`. The wire layer maps each class to the Avro schema of the same name by field names; a
trailing underscore (`from_`) is dropped there because `from` is a Python keyword.

Conventions: offsets are Kafka offsets, `to` is exclusive; times are `_ms` since the Unix epoch; digests are 32 lower-case
hexadecimal digits (the sum modulo 2**128 of a 128-bit hash of each record), always beside the count of records they cover.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

EMPTY_DIGEST = "0" * 32
"""The digest of no records."""


class Reason(StrEnum):
    """Why a step was made (design 4)."""

    RECORDS = "records"
    DELAY = "delay"
    CLOCK = "clock"
    REPLAY = "replay"
    WATERMARK = "watermark"


class DesiredMode(StrEnum):
    """What the user wants of a pipeline."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


class NodePhase(StrEnum):
    """The states of a node (design 3)."""

    CLOSED = "closed"
    OPEN = "open"
    RUNNING = "running"
    FAILED = "failed"


class CommandKind(StrEnum):
    """What a coordinator can ask of a node."""

    CREATE = "create"
    OPEN = "open"
    STEP = "step"
    CHECKPOINT = "checkpoint"
    PAUSE = "pause"
    STOP = "stop"
    SHUTDOWN = "shutdown"


class PipelinePhase(StrEnum):
    """What `p/status` says of a pipeline."""

    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    HALTED = "halted"


class FailureKind(StrEnum):
    """Whose fault a failed attempt is; only QUERY and LOST count towards a halt (design 4)."""

    QUERY = "query"
    """The user's code or data: the same attempt would fail again."""
    LOST = "lost"
    """A Spark task, Python worker or executor died, or a task was re-run behind our back."""
    FENCED = "fenced"
    """The attempt's producer epoch is no longer valid."""
    BROKER = "broker"
    """Kafka could not be reached or refused for a passing reason."""
    DIGEST = "digest"
    """A replay did not give what the log says: never retried, the pipeline halts."""
    INPUT_GONE = "input_gone"
    """Input that the step needs is no longer in Kafka: never retried, the pipeline halts."""


class BadRecords(StrEnum):
    """What to do with an input record whose value can't be parsed."""

    HALT = "halt"
    SKIP = "skip"
    DEAD_LETTER = "dead_letter"


@dataclass(frozen=True, slots=True)
class Token:
    """What one attempt at a step is known by; compared for equality only, never by order."""

    claim_epoch: int
    attempt: int
    producer_id: int
    producer_epoch: int
    incarnations: tuple[int, ...]
    """By node number."""


# --- slices of input and output -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InputRange:
    """A part of a division: offsets [from_, to) of one partition of one input."""

    input: str
    topic: str
    topic_id: str
    partition: int
    from_: int
    to: int


@dataclass(frozen=True, slots=True)
class InputSlice:
    """What a step read of one partition; `records` are the visible ones (no control, aborted or compacted-away records)."""

    input: str
    topic: str
    topic_id: str
    partition: int
    from_: int
    to: int
    records: int
    digest: str


@dataclass(frozen=True, slots=True)
class OutputSlice:
    """What a step wrote to one partition. `from_` is the first, `to` one past the last of its offsets; equal if none."""

    output: str
    topic: str
    partition: int
    from_: int
    to: int
    records: int
    digest: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """Records of an input that could not be parsed and were left out because the input says so."""

    input: str
    records: int


@dataclass(frozen=True, slots=True)
class SourceSplit:
    """The part of an input that one Spark source task reads. Several splits may share a task, in the order listed."""

    input: str
    task: int
    partition: int
    from_: int
    to: int


@dataclass(frozen=True, slots=True)
class OutputLayout:
    """How an output is written: into how many partitions, by how many writer tasks."""

    output: str
    partitions: int
    tasks: int
    digest: str
    """How the output's digest was made: 'exact', 'count' or 'float:TOLERANCE' (see OutputSpec)."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a step is cut into Spark tasks. A function of spec and division only, recorded, and used again on replay."""

    splits: tuple[SourceSplit, ...]
    shuffle_partitions: int
    outputs: tuple[OutputLayout, ...]


# --- the specification ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One Kafka input as it was resolved when the pipeline was first submitted."""

    name: str
    topic: str
    topic_id: str
    start_offsets: tuple[int, ...]
    """By partition: where step 1 begins. Its length is the partition count."""
    node_of: tuple[int, ...]
    """By partition: the node that reads it."""
    value_format: str
    """'raw', 'json' or 'avro'."""
    on_bad_record: BadRecords
    dead_letter_output: str
    """Name of the output that receives bad records, or ''."""
    partitioned_by: str
    """Column by which equal keys always share a partition, or ''."""


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """One Kafka output."""

    name: str
    topic: str
    topic_id: str
    partitions: int
    key: str
    """Column that becomes the record's key, or '' when rows bring their own `key` column or none."""
    value_format: str
    digest: str
    """'exact', 'count', or 'float:TOLERANCE'."""


@dataclass(frozen=True, slots=True)
class StepPolicySpec:
    """When a step is due and how much it holds."""

    min_records: int
    max_delay_ms: int
    max_records: int
    clock_ms: int
    """Period of the clock that makes steps of its own; 0: none."""


@dataclass(frozen=True, slots=True)
class LayoutSpec:
    """What the layout of a step is computed from, together with its division."""

    max_tasks: int
    records_per_task: int
    shuffle_partitions: int


@dataclass(frozen=True, slots=True)
class LimitsSpec:
    """Deadlines and retries. Each is a number that a user can set; none is infinite."""

    max_attempts: int
    """Attempts that fail by the query, in a row, before the pipeline halts."""
    max_lost: int
    """Attempts that fail because a Spark task, worker or executor was lost, in a row, before the pipeline halts."""
    backoff_ms: int
    """Wait before the second attempt; doubles with each, up to `max_backoff_ms`."""
    max_backoff_ms: int
    heartbeat_timeout_ms: int
    """A node that says nothing for so long is dead."""
    open_timeout_ms: int
    """A node must have opened by then."""
    step_timeout_ms: int
    """An attempt must have been written by then. Less than `transaction_timeout_ms`."""
    replay_timeout_ms: int
    """A replaying node must have finished another step by then."""
    transaction_timeout_ms: int


@dataclass(frozen=True, slots=True)
class CheckpointSpec:
    """Where and how often checkpoints are made; location '' means none."""

    location: str
    every_ms: int
    keep: int


@dataclass(frozen=True, slots=True)
class PipelineSpec:
    """`p/spec`: what runs under a pipeline's name."""

    pipeline: str
    fingerprint: str
    compatible_with: tuple[str, ...]
    """Fingerprints of earlier specs that this one may replace."""
    nodes: int
    queries: tuple[str, ...]
    stateful: bool
    inputs: tuple[InputSpec, ...]
    outputs: tuple[OutputSpec, ...]
    policy: StepPolicySpec
    layout: LayoutSpec
    limits: LimitsSpec
    checkpoint: CheckpointSpec


# --- control records: from the user -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Desired:
    """`p/desired`: running, paused or stopped."""

    pipeline: str
    mode: DesiredMode
    request_id: str


@dataclass(frozen=True, slots=True)
class Resume:
    """`p/resume`: go on after a halt."""

    pipeline: str
    request_id: str


# --- control records: from nodes --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeJoin:
    """`p/node/N/join/UUID`: a new life of a node; the record's offset is its incarnation."""

    pipeline: str
    node: int
    uuid: str
    host: str
    process_id: int


@dataclass(frozen=True, slots=True)
class NodeState:
    """`p/node/N/INC/state`: repeated every second; its absence is death.

    `step` is the last step that the node holds complete (0: none); while an attempt is under way `attempt` is its token.
    `command_epoch` and `command_serial` name the newest command that the node has carried out (a `step` counts from its
    start), so that the same command given twice is acknowledged twice.
    """

    pipeline: str
    node: int
    incarnation: int
    phase: NodePhase
    step: int
    attempt: Token | None
    claim_epoch: int
    """The newest claim that the node has read."""
    command_epoch: int
    command_serial: int
    openable: tuple[int, ...]
    """Steps that the node can open, newest first: its own directory's, and checkpoints."""
    error: str
    beat: int
    """Counts the repeats, so that no two are equal."""


@dataclass(frozen=True, slots=True)
class ReceivedPartition:
    """How far committed input reaches in one partition."""

    partition: int
    topic_id: str
    earliest: int
    """First offset still there; beyond what a step needs, the input has expired."""
    to: int
    """Never past the last stable offset."""


@dataclass(frozen=True, slots=True)
class Received:
    """`p/node/N/INC/received/I`: only grows while a topic is the same."""

    pipeline: str
    node: int
    incarnation: int
    input: str
    step: int
    """The step that this input is received for: the node's last complete one + 1."""
    partitions: tuple[ReceivedPartition, ...]
    records: int
    """Offsets that wait beyond the last complete step: an upper bound of the records."""
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Replaying:
    """`p/node/N/INC/replay`: the node is behind the log and replays this step by itself."""

    pipeline: str
    node: int
    incarnation: int
    step: int


@dataclass(frozen=True, slots=True)
class Written:
    """`p/node/N/INC/written`: the node's part of the attempt that `token` names, or why there is none."""

    pipeline: str
    node: int
    incarnation: int
    step: int
    token: Token
    inputs: tuple[InputSlice, ...]
    outputs: tuple[OutputSlice, ...]
    skipped: tuple[Skipped, ...]
    watermark_moved: bool
    """A stateful query's watermark moved: one empty step must follow for its last windows to come out."""
    failure: FailureKind | None
    error: str


# --- control records: from coordinators -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Claim:
    """`p/claim/UUID`: a coordinator takes over; the record's offset is its epoch."""

    pipeline: str
    uuid: str
    host: str
    process_id: int


@dataclass(frozen=True, slots=True)
class StepWork:
    """All that a node needs to make one attempt at a step, or to replay it."""

    step: int
    token: Token
    transactional_id: str
    now_ms: int
    reason: Reason
    division: tuple[InputRange, ...]
    layout: Layout
    writers: tuple[tuple[int, ...], ...]
    """By output in the order of the spec's outputs: the partitions of it that this node alone may write."""


@dataclass(frozen=True, slots=True)
class Command:
    """`p/command/EPOCH/N`: what node N shall do now. The newest of the newest epoch counts, the rest does not."""

    pipeline: str
    claim_epoch: int
    serial: int
    """Grows with each new command of one claim, over all nodes."""
    node: int
    incarnation: int
    """The life that is meant; others ignore it."""
    kind: CommandKind
    step: int
    """For open: the step to go back to. For step: the step to make. For pause and stop: the step to end at."""
    work: StepWork | None


@dataclass(frozen=True, slots=True)
class Status:
    """`p/status`: for people and the command line."""

    pipeline: str
    claim_epoch: int
    phase: PipelinePhase
    step: int
    """The last committed step."""
    reason: str
    """Why it halted or what it waits for: one sentence with what, where and what to do."""
    acknowledged: tuple[str, ...]
    """The newest request ids that were acted on, newest last; at most 16."""


# --- the log of steps ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StepBoundary:
    """`step/S` in the steps topic: the record that ends a committed step, written in the step's own transaction."""

    pipeline: str
    step: int
    token: Token
    now_ms: int
    reason: Reason
    fingerprint: str
    nodes: int
    inputs: tuple[InputSlice, ...]
    outputs: tuple[OutputSlice, ...]
    layout: Layout
    paused_inputs: tuple[str, ...]
    opened_ms: int
    committed_ms: int
    """The coordinator's clock just before it asked for the commit."""
    skipped: tuple[Skipped, ...]
    watermark_moved: bool
    """The next step is then due for the reason `watermark`; recorded so that a takeover knows it too."""


ControlRecord = (
    PipelineSpec | Desired | Resume | NodeJoin | NodeState | Received | Replaying | Written | Claim | Command | Status
)


# --- what a log gives back ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A key without a value: the record of that key is forgotten."""

    key: str


@dataclass(frozen=True, slots=True)
class Logged:
    """A control record with the offset that Kafka gave it."""

    offset: int
    timestamp_ms: int
    record: ControlRecord | Tombstone


@dataclass(frozen=True, slots=True)
class LoggedStep:
    """A record of the steps topic with its offset."""

    offset: int
    record: StepBoundary | Tombstone


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a Spark application found and wrote in one attempt, or recomputed in a replay."""

    inputs: tuple[InputSlice, ...]
    outputs: tuple[OutputSlice, ...]
    skipped: tuple[Skipped, ...]
    watermark_moved: bool
