"""One event's worth of work: a state to change, the effects so far, and the one way from a state to the
next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from kcontrol.core.coordinator.state import CoordinatorState
from kcontrol.core.coordinator.table import ASKS, OCCASIONS, TABLE, Cause, State
from kcontrol.core.events import (
    Assigned,
    CoordinatorEffect,
    CoordinatorEvent,
    InitProducer,
    Publish,
    ReadToEnds,
    Tick,
    WakeAt,
)
from kcontrol.core.model import Claim, LimitsSpec
from kcontrol.core.retry import DEFAULT_LIMITS

_GAP_DIVISOR = 4
"""A gap between events of more than this part of the heartbeat timeout: the
coordinator itself did not run."""


class Turn:
    """What handlers are given.

    occasion: the type of the event that is being handled, then `Look`.
    """

    __slots__ = ("effects", "occasion", "state")

    def __init__(self, state: CoordinatorState, occasion: type) -> None:
        self.state = state
        self.occasion = occasion
        self.effects: list[CoordinatorEffect] = []

    def go(self, cause: Cause, ask: CoordinatorEffect | None = None) -> None:
        """Follow the table, and ask for what the new state begins with.

        ask: that, where it takes more than the state to make it. Raises LookupError
        where the table has no such row.
        """
        state = self.state
        row = state.at, cause
        if self.occasion not in OCCASIONS[row]:
            raise LookupError(f"{cause} while {state.at} on {self.occasion.__name__}")
        state.at = at = TABLE[row]
        asked = self._on_entry(at) if ask is None else ask
        if (None if asked is None else type(asked)) is not ASKS.get(at):
            raise LookupError(f"{at} does not begin with {asked}")
        if isinstance(asked, WakeAt):
            self.wake_at(asked.at_ms)
        elif asked is not None:
            self.effects.append(asked)

    def _on_entry(self, at: State) -> CoordinatorEffect | None:
        """What is made of the state alone. The other effects in `ASKS` come with the cause."""
        state = self.state
        match at:
            case State.CLAIMING:
                return self._claim()
            case State.FENCING:
                state.current = state.current.aborted()
                state.transaction = state.transaction.fencing(self.limits().transaction_timeout_ms)
                return InitProducer(state.transaction.timeout_ms)
            case State.READING:
                return ReadToEnds(settled=True)
            case State.CHECKING_CLAIM:
                return ReadToEnds(settled=False)
            case State.BACKING_OFF | State.BACKING_OFF_FENCED:
                return WakeAt(state.trouble.retry.not_before_ms)
            case (
                State.ADDING
                | State.ATTEMPTING
                | State.COMMITTING
                | State.ADDING_LOG
                | State.RECORDING
                | State.PROVING
                | State.RESIGNED
            ):
                return None
            case State.IDLE | State.DENIED | State.ASSEMBLING | State.READY:
                return None
            case State.PAUSED | State.STOPPING | State.STOPPED | State.HALTED:
                return None
            case _:
                assert_never(at)

    def _claim(self) -> Publish:
        state = self.state
        state.tenure = tenure = state.tenure.claiming()
        state.nodes, state.hearing = state.nodes.claiming(), state.hearing.deaf()
        state.current, state.transaction = state.current.aborted(), state.transaction.gone()
        state.checkpointing, state.stop = state.checkpointing.dropped(), state.stop.saving(0)
        state.changing = state.changing.claiming()
        return Publish((Claim(state.pipeline, tenure.claim_uuid, tenure.host, tenure.process_id),))

    def pass_time(self, event: CoordinatorEvent) -> None:
        """Read the clocks, as of the event."""
        state, now_ms = self.state, event.now_ms
        gap_ms = now_ms - state.now_ms
        if gap_ms > self.limits().heartbeat_timeout_ms // _GAP_DIVISOR and state.hearing.caught_up_ms >= 0:
            # What was said meanwhile is yet to be read: neither silence nor a wait is judged by that time.
            state.hearing = state.hearing.caught_up(now_ms)
            self._stood_still(gap_ms)
        state.now_ms = max(state.now_ms, now_ms)
        if isinstance(event, Tick | Assigned):
            state.wall_ahead_ms = event.wall_ms - state.now_ms
        if state.wake_ms is not None and state.wake_ms <= state.now_ms:
            state.wake_ms = None

    def _stood_still(self, gap_ms: int) -> None:
        """For so long nobody listened: that is not a part of any wait for others. What is not before a time
        (a back-off, a checkpoint that is due, a rebalancing) waits for nobody, and comes late at worst."""
        state = self.state
        state.nodes = state.nodes.waiting_later(gap_ms)
        state.current = state.current.waiting_later(gap_ms)
        state.checkpointing = state.checkpointing.waiting_later(gap_ms)
        state.changing, state.stop = state.changing.waiting_later(gap_ms), state.stop.waiting_later(gap_ms)
        state.holding = state.holding.waiting_later(gap_ms)

    def limits(self) -> LimitsSpec:
        """The limits in force."""
        spec = self.state.view.spec()
        return DEFAULT_LIMITS if spec is None else spec.limits

    def wake_at(self, at_ms: int) -> None:
        """Ask for a tick by then, unless an earlier one is to come."""
        state = self.state
        if state.wake_ms is None or at_ms < state.wake_ms:
            state.wake_ms = at_ms
            self.effects.append(WakeAt(at_ms))


@dataclass(frozen=True, slots=True)
class Decision:
    """What `decide` gives back: the state that follows, and what the shell shall do, in order."""

    state: CoordinatorState
    effects: tuple[CoordinatorEffect, ...]
