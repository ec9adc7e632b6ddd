"""Guards and duties of the list in between_steps.py for the states in which no step is to be made: halted, paused, stopping,
stopped."""

from __future__ import annotations

from kcontrol.core.coordinator import checkpointing, stopping
from kcontrol.core.coordinator.look import Findings
from kcontrol.core.coordinator.node_progress import roll_back
from kcontrol.core.coordinator.standing import LOST, Readiness, all_in_place, standing

# --- halted, paused -----------------------------------------------------------------------------------------


def stay_halted(found: Findings) -> None:
    state = found.turn.state
    roll_back(found.turn, found.nodes)
    checkpointing.refuse_request(
        state,
        f"pipeline {state.pipeline} has halted, and is not saved before it goes on: {state.trouble.halt}",
    )


def stay_paused(found: Findings) -> None:
    turn, state, limits = found.turn, found.turn.state, found.turn.limits()
    roll_back(turn, found.nodes)
    places = [standing(state, node, limits) for node in range(found.nodes)]
    missing = next((now.text for now in places if now.place in LOST), "")
    if missing:
        checkpointing.refuse_request(
            state,
            f"pipeline {state.pipeline} is paused, and {missing}; a paused pipeline opens no node: "
            "resume it first",
        )
    found.in_place = found.spec is not None and all(now.place is Readiness.IN_PLACE for now in places)


def begin_in_pause(found: Findings) -> None:
    if found.in_place:
        checkpointing.must_pin(found.turn, found.defined)


def is_saving(found: Findings) -> bool:
    return found.turn.state.checkpointing.saving is not None


def tell_paused(found: Findings) -> None:
    stopping.tell_paused(found.turn, found.nodes)


# --- stopping -----------------------------------------------------------------------------------------------


def save_first(found: Findings) -> None:
    state, spec = found.turn.state, found.spec
    found.saves = spec is not None and stopping.saves_first(found.turn, spec)
    found.in_place = found.saves and all_in_place(state, found.defined)


def begin_last(found: Findings) -> None:
    if found.in_place:
        stopping.begin_last(found.turn, found.defined)


def is_last_awaited(found: Findings) -> bool:
    return found.saves


def close_nodes(found: Findings) -> None:
    found.left = stopping.close_nodes(found.turn, found.nodes)


def is_any_left(found: Findings) -> bool:
    return found.left > 0


def is_none_left(found: Findings) -> bool:
    return found.left == 0


def stopped(found: Findings) -> None:
    stopping.stopped(found.turn.state)
