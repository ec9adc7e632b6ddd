"""What a look between two transactions is made of: guards, duties, and what was found so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kcontrol.core.coordinator.holding import HeldInput
from kcontrol.core.coordinator.table import Cause, State
from kcontrol.core.coordinator.turn import Turn
from kcontrol.core.events import CoordinatorEffect
from kcontrol.core.model import DesiredMode, InputRange, PipelineSpec
from kcontrol.core.step.gaps import Seen


class Findings:
    """What one look has found so far."""

    def __init__(self, turn: Turn) -> None:
        view = turn.state.view
        desired = view.desired()
        self.turn = turn
        self.spec = view.spec()
        self.nodes = 0 if self.spec is None else self.spec.nodes
        self.mode = DesiredMode.RUNNING if desired is None else desired.mode
        self.missing = ""
        """What shows that the log of steps holds more than was read."""
        self.gone = ""
        """Which input the next step begins with and is not there any more, by what was read."""
        self.in_place = False
        """All nodes are, so that they can make a step or save one."""
        self.saves = False
        """The nodes have to stay open, because the last step is to be saved before the stop."""
        self.left = 0
        """How many nodes have not ended."""
        self.waiting: Sequence[str] = ()
        """What nodes are waited for, as clauses."""
        self.received: tuple[InputRange, ...] = ()
        self.held = HeldInput(())
        """How a hold narrows that."""
        self.seen: Seen = {}
        """What the next step would read, and what is known of each input."""

    @property
    def defined(self) -> PipelineSpec:
        """The definition, after the guard that holds back without one."""
        if self.spec is None:
            raise LookupError("there is no definition")
        return self.spec


@dataclass(frozen=True, slots=True)
class Guard:
    """Where it holds in one of these states, the cause leads on; without a cause, the look ends.

    leave: what is done before, and what the next state is to ask for.
    """

    states: tuple[State, ...]
    name: str
    holds: Callable[[Findings], bool]
    cause: Cause | None
    leave: Callable[[Findings], CoordinatorEffect | None] | None = None


@dataclass(frozen=True, slots=True)
class Duty:
    """What is done in these states."""

    states: tuple[State, ...]
    name: str
    do: Callable[[Findings], None]
