"""What a coordinator remembers between two events, as a value: `decide` works on a copy
and never on what it was given.

All that belongs together is a part, frozen, and changed only by its own methods (parts/); so for each field
there is one module that says when it changes. `at` and the readings of the clocks are changed by the turn
(turn.py), the two folds by what is read (decide.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kcontrol.core.coordinator.parts.arrivals import Arrivals
from kcontrol.core.coordinator.parts.asked import Asked
from kcontrol.core.coordinator.parts.balancing import NOTHING_LOOKED_AT, Balancing
from kcontrol.core.coordinator.parts.changing import Changing
from kcontrol.core.coordinator.parts.checkpoint import Checkpointing
from kcontrol.core.coordinator.parts.current import CurrentStep
from kcontrol.core.coordinator.parts.holding import Holding
from kcontrol.core.coordinator.parts.nodes import Hearing, NodesState
from kcontrol.core.coordinator.parts.shown import Shown
from kcontrol.core.coordinator.parts.step_clock import StepClock
from kcontrol.core.coordinator.parts.stop import NO_STOP, Stop
from kcontrol.core.coordinator.parts.tenure import Tenure
from kcontrol.core.coordinator.parts.transaction import TransactionState
from kcontrol.core.coordinator.parts.trouble import TroubleState
from kcontrol.core.coordinator.table import State
from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import Checkpoint


@dataclass
class CoordinatorState:
    """All of it. The parts are replaced, never changed, so a shallow copy is a copy."""

    pipeline: str
    transactional_id: str
    steps_topic: str
    view: PipelineView
    """What was read of the control log."""
    steps: StepsView
    """What was read of the log of steps."""
    at: State = State.IDLE

    now_ms: int = 0
    """The newest reading of the monotonic clock."""
    wall_ahead_ms: int = 0
    """What the wall clock showed more than the monotonic clock at the last tick: stamps
    are made of it, and nothing else."""
    wake_ms: int | None = None
    """The `WakeAt` that is still to come."""

    tenure: Tenure = field(default_factory=Tenure)
    transaction: TransactionState = field(default_factory=TransactionState)
    current: CurrentStep = field(default_factory=CurrentStep)
    trouble: TroubleState = field(default_factory=TroubleState)
    arrivals: Arrivals = field(default_factory=Arrivals)
    nodes: NodesState = field(default_factory=NodesState)
    hearing: Hearing = field(default_factory=Hearing)
    checkpointing: Checkpointing = field(default_factory=Checkpointing)
    changing: Changing = field(default_factory=Changing)
    balancing: Balancing = NOTHING_LOOKED_AT
    holding: Holding = field(default_factory=Holding)
    stop: Stop = NO_STOP
    asked: Asked = field(default_factory=Asked)
    shown: Shown = field(default_factory=Shown)
    step_clock: StepClock = field(default_factory=StepClock)

    @staticmethod
    def initial(pipeline: str, *, transactional_id: str, steps_topic: str) -> CoordinatorState:
        """Before anything was read. The two names are those of the pipeline's
        transaction and of its log of steps."""
        return CoordinatorState(
            pipeline, transactional_id, steps_topic, PipelineView.empty(pipeline), StepsView(pipeline)
        )

    def begun_at(self, newest: Checkpoint) -> CoordinatorState:
        """The same, for a reader of the log of steps that begins at a checkpoint: see
        `StepsView.begun_at`."""
        twin = self.copy()
        twin.steps = StepsView.begun_at(self.pipeline, newest)
        return twin

    def copy(self) -> CoordinatorState:
        """A value of its own."""
        twin = object.__new__(CoordinatorState)
        twin.__dict__.update(self.__dict__)
        return twin

    def wall(self, at_ms: int) -> int:
        """The stamp for a reading of the monotonic clock: milliseconds since the Unix epoch, by this
        machine."""
        return at_ms + self.wall_ahead_ms
