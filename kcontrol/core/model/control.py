"""The records of the control topic, by who writes them."""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.core.model.checkpoints import CheckpointAnswer, CheckpointPart, CheckpointRequest
from kcontrol.core.model.environment import Environment
from kcontrol.core.model.exchanges import EventTimes, ExchangeSlice, ExchangeTaken
from kcontrol.core.model.holds import Hold, HoldStatus
from kcontrol.core.model.layouts import LayoutReady, LayoutRequest, LayoutStatus
from kcontrol.core.model.spec import PipelineSpec
from kcontrol.core.model.times import EndTimes, WorkTimes
from kcontrol.core.model.values import (
    AgentPlacement,
    InputRange,
    InputSlice,
    LateRows,
    Layout,
    OutputSlice,
    Skipped,
    Token,
)
from kcontrol.core.model.words import CommandKind, DesiredMode, FailureKind, NodePhase, PipelinePhase, Reason

# --- control records: from the user -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Desired:
    """`p/desired`: running, paused or stopped."""

    pipeline: str
    mode: DesiredMode
    request_id: str
    wish: AgentPlacement | None = None
    """`p/desired/end/...`: of agents, who have it stopped: by which entry of their log its job has ended. It counts until a
    node has joined that was placed by a later one; None: it is of no agent."""


@dataclass(frozen=True, slots=True)
class Resume:
    """`p/resume`: go on after a halt."""

    pipeline: str
    request_id: str


@dataclass(frozen=True, slots=True)
class InputDesired:
    """`p/input/I/desired`: whether steps may read an input."""

    pipeline: str
    input: str
    paused: bool
    request_id: str


@dataclass(frozen=True, slots=True)
class SkipRequest:
    """`p/skip/I/P`: pass over offsets [from_, to) of a partition of an input.

    It holds for the one step that would begin at `from_`, and for no other: once a step has gone on from
    there it means nothing any more, so that it can't be carried out twice or too late, whoever reads it and
    whenever.
    """

    pipeline: str
    input: str
    partition: int
    from_: int
    to: int
    by: str
    """Who asked, for people."""
    asked_ms: int
    request_id: str


# --- control records: from nodes ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeJoin:
    """`p/node/N/join/UUID`: a new incarnation of a node; the record's offset is its incarnation.

    It takes the place of the one before, unless it was placed by an agent and one of a newer placement has
    joined: then it comes late, and nobody goes by it.
    """

    pipeline: str
    node: int
    uuid: str
    host: str
    process_id: int
    listens: str = ""
    """URL at which the process answers for its metrics and profiles; '' if it does not listen."""
    environment: Environment | None = None
    """What it computes with."""
    planning: str = ""
    """When Spark plans its queries: `once`, or `each step`, with the reason; '' if it does not say."""
    placement: AgentPlacement | None = None
    """By which an agent has started it; None if somebody else has."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """`p/node/N/INC/state`: repeated every second; its absence is death.

    Open(s) is phase `open` with step s; Running(s), a step that is attempted or replayed, is phase `running`
    with step s - 1: when it is complete, the node holds s. `step` is the last step that the node holds
    complete (0: none); while an attempt is under way `attempt` is its token. `command_epoch` and
    `command_serial` name the newest command that the node has carried out (a `step` counts from its start),
    so that the same command given twice is acknowledged twice.
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
    checkpoint: int
    """The newest checkpoint that the node has found in the log of steps; 0 for none.
    `openable` is known up to there."""
    ended: EndTimes | None = None
    """When `step` ended here; None if this incarnation did not take part in it."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Of offsets [from_, to) so many hold no record: markers of transactions, aborted records, compacted
    ones."""

    from_: int
    to: int
    offsets: int
    """All of them, unless several gaps were merged, or compaction left a batch with holes."""


@dataclass(frozen=True, slots=True)
class ReceivedPartition:
    """How far committed input reaches in one partition."""

    partition: int
    topic_id: str
    earliest: int
    """First offset still there; beyond what a step needs, the input has expired."""
    to: int
    """Never past the last stable offset."""
    gaps: tuple[Gap, ...] = ()
    """Those that are known beyond the last complete step, in order of offsets."""


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
    """Offsets that wait beyond the last complete step, less those of the gaps: an upper bound of the
    records."""
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
    """`p/node/N/INC/written`, and `p/node/N/INC/written/K` for a stage K that more stages follow: the node's part of the
    attempt that `token` names, or why there is none."""

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
    times: WorkTimes | None = None
    """When it was done; None if it failed."""
    late_rows: tuple[LateRows, ...] = ()
    """Of each query with state and a watermark, on this node."""
    stage: int = 0
    """Of the step that has ended with this: the last one, unless queries exchange rows."""
    early: bool = False
    """More stages of the step follow; then nothing but `sent` is told, or why the stage has failed."""
    sent: tuple[ExchangeSlice, ...] = ()
    """To other nodes and to itself, in this stage."""
    taken: tuple[ExchangeTaken, ...] = ()
    """Of what was sent to it, in all stages of the step."""
    event_times: tuple[EventTimes, ...] = ()
    """Of each query with a watermark, where nodes share one."""


# --- control records: from coordinators ---------------------------------------------------------------------


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
    """`p/command/EPOCH/N`: what node N shall do now. The newest of the newest epoch counts, the rest does
    not."""

    pipeline: str
    claim_epoch: int
    serial: int
    """Grows with each new command of one claim, over all nodes."""
    node: int
    incarnation: int
    """The incarnation that is meant; others ignore it."""
    kind: CommandKind
    step: int
    """For open: the step to go back to. For step: the step to make. For pause and stop: the step to end
    at."""
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
    checkpoint: int
    """The newest checkpoint's step; 0 for none."""
    checkpoint_failure: str
    """Why the last try at a checkpoint was given up; '' when it succeeded."""
    answers: tuple[CheckpointAnswer, ...]
    """To the newest requests for a checkpoint, newest last; at most 16."""
    inputs_offset: int = -1
    """Control offset of the newest `InputDesired` or `SkipRequest` that is taken note
    of: every later step goes by it."""
    clock_difference_ms: int = 0
    """The coordinator's wall clock less the time that steps go by, when that is worth a
    word: one of them is wrong. Else 0."""
    layout: LayoutStatus | None = None
    """How far the newest request to change the layout is, or what became of it; None: there was none."""
    hold: HoldStatus | None = None
    """How far it is with the newest `Hold`; None: there was none."""
    balance: str = ""
    """How unevenly state is divided over the nodes, where the pipeline has it divided anew by itself, and what is done about
    it; '': it is even, or the pipeline does not."""


# --- control records: what a registry of schemas has said -----------------------------------------------------


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """A schema that another one needs, whole. name: by which it is needed there."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class InputSchema:
    """`p/schema/in/ID/N`: what the registry knows under an id that node N has met in the values of an input. It is in
    the log before a step that needs it is committed, so that the step can be run again without the registry."""

    pipeline: str
    node: int
    schema_id: int
    known_from: int
    """The first step in which the node knew it. In a step before it the id was unknown, and so it is when that is run
    again."""
    kind: str
    """'AVRO', 'JSON' or 'PROTOBUF', as the registry says."""
    text: str
    references: tuple[SchemaReference, ...]
    """Of the schemas that it needs: each comes after those that it needs itself."""


@dataclass(frozen=True, slots=True)
class OutputSchema:
    """`p/schema/out/O/ID`: under which id the registry keeps the schema by which values of an output are written."""

    pipeline: str
    output: str
    schema_id: int
    subject: str
    kind: str
    """'AVRO', 'JSON' or 'PROTOBUF'."""
    text: str


ControlRecord = (
    PipelineSpec
    | Desired
    | Resume
    | CheckpointRequest
    | InputDesired
    | SkipRequest
    | Hold
    | LayoutRequest
    | LayoutReady
    | NodeJoin
    | NodeState
    | Received
    | Replaying
    | Written
    | CheckpointPart
    | Claim
    | Command
    | Status
    | InputSchema
    | OutputSchema
)
