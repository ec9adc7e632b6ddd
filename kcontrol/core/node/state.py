"""What a node remembers between two events, as a value: `decide` works on a copy and never on what it was
given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.log.steps_view import Boundaries, StepsView
from kcontrol.core.model import (
    AgentPlacement,
    Checkpoint,
    Command,
    EndTimes,
    NodePhase,
    ReceivedPartition,
    StepWork,
    Token,
)
from kcontrol.core.node.table import NodeStage

SHUT_DOWN = "shut down by command"
"""Why an incarnation ends that nothing went wrong with."""


@dataclass(frozen=True, slots=True)
class SeenInput:
    """What a node's watchers have seen of one input."""

    partitions: tuple[ReceivedPartition, ...]
    size_bytes: int


class Said(NamedTuple):
    """What a `NodeState` says, but for who says it and how often. It is made at each
    event, and is far cheaper to make."""

    phase: NodePhase
    step: int
    attempt: Token | None
    claim_epoch: int
    command_epoch: int
    command_serial: int
    openable: tuple[int, ...]
    error: str
    checkpoint: int


@dataclass
class NodeMachine:
    """All of it. The parts are frozen or mappings that are replaced, never changed, so a shallow copy is a
    copy."""

    pipeline: str
    node: int
    view: PipelineView
    steps: StepsView
    boundaries: Boundaries
    """Of the steps that may have to be replayed."""
    at: NodeStage = NodeStage.JOINING
    now_ms: int = 0
    """The newest reading of the monotonic clock; so are all times here but those in records."""
    wall_ahead_ms: int = 0
    """What the wall clock showed more at the last tick."""
    wake_ms: int | None = None
    incarnation: int = -1
    placement: AgentPlacement | None = None
    """By which an agent has started this process; None if somebody else has."""
    fingerprint: str = ""
    """Of the definition that this incarnation was started with."""
    assignment: int = 0
    """The change of the layout that it is by; 0: before the first."""
    ahead_ms: int = -1
    """Since when there is a definition by a change of the layout that the log of steps has yet to show; -1: there is none."""

    # --- the engine
    openable: tuple[int, ...] = ()
    """Steps that the node's own directory holds, newest first."""
    unreadable: frozenset[int] = frozenset()
    """Checkpoints that were in the log when the node joined, and of which it can't read its part."""
    saving: Command | None = None
    """The command whose checkpoint is being saved."""
    step: int = 0
    """The last step that the engine holds complete."""
    work: StepWork | None = None
    """Of the attempt or the replay under way."""
    stage: int = 0
    """Of the attempt under way: the one that runs or, between two, that was written last."""
    begun_ms: int = 0
    """When the attempt under way was taken up, or made ready for."""
    ready_for: Command | None = None
    """The command for the step after the one under way, of which the engine was told."""
    ready_ms: int = 0
    """When it was."""
    seen_ms: int = 0
    """When its boundary was read; 0 for a replay."""
    ended: EndTimes | None = None
    """When `step` ended, if it was attempted here."""
    finished_ms: int = 0
    """When the engine had finished `step`."""
    overdue_answers: int = 0
    """Answers of the engine that are still to come to what was cancelled, and mean nothing any more."""
    error: str = ""
    gone_step: int = 0
    """The step that the node could not run again because what it reads is gone; 0 if it failed otherwise, or not."""

    # --- commands
    obeying: Command | None = None
    """Being carried out; done when the engine answers."""
    done: tuple[int, int] = (-1, -1)
    """(claim epoch, serial) of the newest command that was carried out."""

    # --- what is said
    arrivals: Mapping[str, SeenInput] = field(default_factory=dict)
    unsaid: tuple[str, ...] = ()
    """Inputs whose arrivals have grown since they were last said."""
    received_ms: int = 0
    input_said_ms: int = 0
    """When some input was said last."""
    received_step: int = 0
    """The newest step for which this incarnation has said that it has received input."""
    said: Said | None = None
    """What the newest `NodeState` says."""
    said_ms: int = 0
    beat: int = 0

    @staticmethod
    def initial(pipeline: str, node: int, placement: AgentPlacement | None = None) -> NodeMachine:
        """Before anything was read."""
        parts = PipelineView.empty(pipeline), StepsView(pipeline), Boundaries()
        return NodeMachine(pipeline, node, *parts, placement=placement)

    @property
    def is_replaced(self) -> bool:
        """Whether another process is this node since."""
        return self.view.is_replaced(self.node, self.incarnation, self.placement)

    @property
    def replaced_reason(self) -> str:
        """Why a process that is replaced ends, for people."""
        return f"node {self.node} of pipeline {self.pipeline} runs elsewhere since: this process was replaced"

    def begun_at(self, newest: Checkpoint) -> NodeMachine:
        """The same, for a reader of the log of steps that begins at a checkpoint: see
        `StepsView.begun_at`."""
        twin = self.copy()
        twin.steps = StepsView.begun_at(self.pipeline, newest)
        return twin

    def unread(self) -> NodeMachine:
        """The same before any step was read."""
        twin = self.copy()
        twin.steps, twin.boundaries = StepsView(self.pipeline), Boundaries()
        return twin

    def wall(self, at_ms: int) -> int:
        """The stamp for a reading of the monotonic clock: milliseconds since the Unix epoch, by this
        machine."""
        return at_ms + self.wall_ahead_ms

    def go_back(self, step: int) -> None:
        """The engine is to hold this step; how its last one ended says nothing of another."""
        self.ended = self.ended if step == self.step else None
        self.step = step

    def go_on(self, step: int) -> None:
        """The engine has finished this step."""
        self.ended = EndTimes(self.wall(self.seen_ms), self.wall(self.now_ms)) if self.seen_ms else None
        self.finished_ms = self.now_ms
        self.step = step

    def copy(self) -> NodeMachine:
        """A value of its own."""
        twin = object.__new__(NodeMachine)
        twin.__dict__.update(self.__dict__)
        return twin
