"""A pipeline that is held: between two steps the coordinator takes note of the newest `Hold`, and gives it up when it is not
renewed. What it means for what the next step reads is in step/limits.py.

As for other requests about inputs, an attempt under way is not touched: what the status says counts for every step after the
one that it names.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.core.coordinator.state import CoordinatorState
from kcontrol.core.coordinator.turn import Turn
from kcontrol.core.model import HoldPhase, InputRange, PipelineSpec
from kcontrol.core.step.limits import Limits, has_come, nothing_of, waits_below, within


def tend(turn: Turn) -> None:
    """Take note of a new order, and give up one that is too old."""
    state, newest = turn.state, turn.state.view.hold()
    if newest is None:
        if state.holding.told is not None:
            state.holding = state.holding.unread()
        return
    offset, hold = newest
    if offset != state.holding.offset:
        state.holding = state.holding.noting(offset, hold, state.now_ms + hold.timeout_ms)
    if state.holding.counts and state.now_ms >= state.holding.until_ms:
        state.holding = state.holding.saying(HoldPhase.GIVEN_UP)
    if state.holding.counts:
        turn.wake_at(state.holding.until_ms)


def limits_of(state: CoordinatorState) -> Limits:
    """What the next step goes by."""
    return state.holding.limits if state.holding.counts else None


@dataclass(frozen=True, slots=True)
class HeldInput:
    """What the next step may read. settles: all limits are reached, and nothing may be read any more. hurries: what may
    still be read of the topics that are limited is there."""

    ranges: tuple[InputRange, ...]
    settles: bool = False
    hurries: bool = False


def held(state: CoordinatorState, spec: PipelineSpec, received: tuple[InputRange, ...]) -> HeldInput:
    """received: what it could read if nobody held it."""
    limits = limits_of(state)
    if limits is None:
        return HeldInput(received)
    if has_come(spec, state.steps, limits):
        return HeldInput(nothing_of(received), settles=True)
    ranges = within(received, limits)
    return HeldInput(ranges, hurries=waits_below(ranges, limits))


def tell(state: CoordinatorState, *, stands: bool) -> None:
    """Whether all limits are reached, and no step is due of what was read."""
    if state.holding.counts:
        held = (HoldPhase.HELD, state.steps.step) if stands else (HoldPhase.NOTED, 0)
        state.holding = state.holding.saying(*held)
