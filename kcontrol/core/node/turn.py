"""One event's worth of work: a state of its own to change, and the one way from a state to the next."""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.core.events import Exit, NodeEffect, WakeAt
from kcontrol.core.model import ControlRecord
from kcontrol.core.node.state import NodeMachine
from kcontrol.core.node.table import ASKS, OCCASIONS, TABLE, NodeCause


class NodeTurn:
    """What handlers are given: what the engine shall do so far, what is said afterwards, and what comes last.

    occasion: the type of the event that is being handled, then `Look`.
    """

    __slots__ = ("effects", "exit", "occasion", "records", "state")

    def __init__(self, state: NodeMachine, occasion: type) -> None:
        self.state = state
        self.occasion = occasion
        self.effects: list[NodeEffect] = []
        self.records: list[ControlRecord] = []
        self.exit: Exit | None = None

    def go(self, cause: NodeCause, ask: NodeEffect | None = None) -> None:
        """Follow the table, and ask for what the new state begins with.

        Raises LookupError where the table has no such row, and where that state begins with something else.
        """
        row = self.state.at, cause
        if self.occasion not in OCCASIONS[row]:
            raise LookupError(f"{cause} while {self.state.at} on {self.occasion.__name__}")
        self.state.at = at = TABLE[row]
        if (None if ask is None else type(ask)) is not ASKS.get(at):
            raise LookupError(f"{at} does not begin with {ask}")
        if isinstance(ask, Exit):
            self.exit = ask
        elif ask is not None:
            self.effects.append(ask)

    def wake_at(self, at_ms: int) -> None:
        """Ask for a tick by then, unless an earlier one is to come."""
        state = self.state
        if state.wake_ms is None or at_ms < state.wake_ms:
            state.wake_ms = at_ms
            self.effects.append(WakeAt(at_ms))


@dataclass(frozen=True, slots=True)
class NodeDecision:
    """What `decide` gives back: the state that follows, and what the shell shall do, in order."""

    state: NodeMachine
    effects: tuple[NodeEffect, ...]
