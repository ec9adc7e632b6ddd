"""What a coordinator remembers between two events, as a value: `decide` works on a copy and never on what it was given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kcontrol.core.coordinator.table import State
from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import (
    Checkpoint,
    CheckpointAnswer,
    CheckpointSpec,
    Command,
    FailureKind,
    InputRange,
    Layout,
    PipelineSpec,
    Reason,
    SkippedRange,
    Status,
    StepWork,
    Token,
)
from kcontrol.core.retry import Retry


@dataclass(frozen=True, slots=True)
class Plan:
    """What a step holds. Made once for a step and kept for all attempts of one claim, whatever arrives meanwhile."""

    step: int
    spec: PipelineSpec
    reason: Reason
    now_ms: int
    division: tuple[InputRange, ...]
    layout: Layout
    paused: tuple[str, ...] = ()
    """Inputs that it reads nothing of because they are paused."""
    skips: tuple[SkippedRange, ...] = ()
    """What it passes over."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at the plan, from its `step` commands on."""

    token: Token
    works: tuple[StepWork, ...]
    """By node."""
    opened_ms: int
    """When its transaction was opened, by the monotonic clock."""


@dataclass(frozen=True, slots=True)
class Saving:
    """A checkpoint under way: from the commands to the nodes until it is in the log, or given up."""

    step: int
    boundary_offset: int
    """Of the step's boundary in the log of steps."""
    policy: CheckpointSpec
    commands: tuple[Command, ...]
    """By node: each one's part answers exactly this command."""
    begun_ms: int
    request_id: str
    """The request that it answers; '' for none."""
    pinned: bool = False
    """All nodes hold fast what the step needs, so that later steps can't take it away."""


@dataclass(frozen=True, slots=True)
class Wait:
    """What a node is waited for, and since when. Another `what` is another wait and starts anew."""

    what: tuple[str | int, ...]
    since_ms: int


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong last, for the status."""

    kind: FailureKind
    text: str


@dataclass
class CoordinatorState:
    """All of it. The parts are frozen or mappings that are replaced, never changed, so a shallow copy is a copy."""

    pipeline: str
    transactional_id: str
    steps_topic: str
    view: PipelineView
    steps: StepsView
    at: State = State.IDLE
    now_ms: int = 0
    """The newest reading of the monotonic clock."""
    wall_ahead_ms: int = 0
    """What the wall clock showed more than the monotonic clock at the last tick: stamps are made of it, and nothing else."""
    step_ahead_ms: int | None = None
    """The same of the clock of steps, see clock.py; None until all nodes were in place."""
    clock_difference_ms: int = 0
    """Wall clock less clock of steps, if that is worth a word; else 0."""
    wake_ms: int | None = None
    """The `WakeAt` that is still to come."""

    # --- the tenure: from one assignment to the resignation
    uuid: str = ""
    host: str = ""
    process_id: int = 0
    claims: int = 0
    """How many claims this tenure has published; the second and later ones have the count in their uuid."""
    epoch: int = -1
    """Offset of the own claim; -1 while it has not been seen."""
    overdue_answers: int = 0
    """Answers to effects of an earlier tenure that are still to come and mean nothing any more."""
    cleared: bool = False
    """The predecessors' commands have been forgotten."""
    inherited: bool = False
    """What the predecessors' status says has been taken over."""

    # --- the transaction
    producer: tuple[int, int] | None = None
    """(producer id, producer epoch) from the last InitProducer."""
    producer_timeout_ms: int = 0
    """The transaction timeout that it was asked for with."""
    looked: bool = True
    """The control log was read to its end since the last InitProducer, so that a newer claim would be known."""
    steps_end: int = 0
    """Up to which offset the log of steps was read after the last InitProducer: where the next record has to come to lie."""
    plan: Plan | None = None
    attempt: Attempt | None = None
    attempts: int = 0
    """Tries at the current step under this claim."""
    retry: Retry = field(default_factory=Retry)
    arrivals: Mapping[tuple[str, int], tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """By (input, partition): since when what lies beyond the last committed step waits, see waiting.py."""
    only_gaps_ms: int | None = None
    """Since when nothing but offsets without a record waits; None if there are none, or records beside them."""
    answered: tuple[int, int] = (0, 0)
    """(step, when Kafka said so, by the wall clock) of the last step that this coordinator has committed."""

    # --- the nodes
    serial: int = 0
    commands: Mapping[int, Command] = field(default_factory=dict)
    """By node, the newest command of this claim."""
    heard: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """By node: (incarnation, when its newest state came in)."""
    witnesses: Mapping[int, int] = field(default_factory=dict)
    """By node: what the log's timestamp of its newest state is ahead of the monotonic clock when that came in."""
    caught_up_ms: int = -1
    """Since when silence of a node means something; -1: it means nothing, its records may just not have been read yet."""
    waits: Mapping[int, Wait] = field(default_factory=dict)
    assembled: bool = False
    """All nodes have been in place at once, and none has been lost since."""
    forgiven: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """By node, the (epoch, serial) of the failed state that a resume request lifted."""

    # --- checkpoints
    saving: Saving | None = None
    saving_ms: int = 0
    """When a checkpoint was last begun or given up, by this coordinator's clock: steps get their turn in between."""
    saving_failure: str = ""
    """Why the last one was given up; '' if it is in the log."""
    answers: tuple[CheckpointAnswer, ...] = ()
    """To the newest requests for one, newest last."""

    # --- a stop
    stop_ms: int = -1
    """Since when the stop waits for the last step to be saved; -1: it does not."""
    stop_saves: int = 0
    """The step whose checkpoint was begun for the stop, under this claim."""
    unsaved: str = ""
    """Why the pipeline was stopped without it."""

    # --- inputs
    paused: tuple[str, ...] = ()
    """Those that the next plan reads nothing of."""
    inputs_offset: int = -1
    """Control offset of the newest request about an input that the next plan goes by."""

    # --- what people see
    halt: str = ""
    """Why the pipeline halted, '' if it has not."""
    failure: Failure | None = None
    """What is being retried."""
    acknowledged: tuple[str, ...] = ()
    status: Status | None = None
    status_ms: int = 0

    @staticmethod
    def initial(pipeline: str, *, transactional_id: str, steps_topic: str) -> CoordinatorState:
        """Before anything was read. The two names are those of the pipeline's transaction and of its log of steps."""
        return CoordinatorState(pipeline, transactional_id, steps_topic, PipelineView.empty(pipeline), StepsView(pipeline))

    def begun_at(self, newest: Checkpoint) -> CoordinatorState:
        """The same, for a reader of the log of steps that begins at a checkpoint: see `StepsView.begun_at`."""
        twin = self.copy()
        twin.steps = StepsView.begun_at(self.pipeline, newest)
        return twin

    def copy(self) -> CoordinatorState:
        """A value of its own."""
        twin = object.__new__(CoordinatorState)
        twin.__dict__.update(self.__dict__)
        return twin

    def wall(self, at_ms: int) -> int:
        """The stamp for a reading of the monotonic clock: milliseconds since the Unix epoch, by this machine."""
        return at_ms + self.wall_ahead_ms

    @property
    def claim_uuid(self) -> str:
        """The uuid in the newest claim of this tenure."""
        return self.uuid if self.claims <= 1 else f"{self.uuid}.{self.claims}"
