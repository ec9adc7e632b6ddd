"""How a pipeline is stopped: its last step is saved, then every node closes its queries, then
its process ends its incarnation.

A stop waits for the checkpoint, so that whatever node opens the pipeline next, on whatever disk, has nothing
to run again. It does not wait for more than that: not for nodes that are away or behind, and not beyond a
limit. What is not saved is said in the status, and the stop goes on.
"""

from __future__ import annotations

from kcontrol.core.coordinator import checkpointing
from kcontrol.core.coordinator.node_progress import give, is_overdue, roll_back
from kcontrol.core.coordinator.parts.stop import NO_STOP
from kcontrol.core.coordinator.parts.trouble import TroubleState
from kcontrol.core.coordinator.standing import LOST, Readiness, standing
from kcontrol.core.coordinator.state import CoordinatorState
from kcontrol.core.coordinator.turn import Turn
from kcontrol.core.events import Publish
from kcontrol.core.model import Command, CommandKind, FailureKind, NodePhase, PipelineSpec


def acknowledge(state: CoordinatorState) -> None:
    """The newest wish is fulfilled."""
    desired = state.view.desired()
    if desired is not None and desired.request_id not in state.asked.acknowledged:
        state.asked = state.asked.acknowledging(desired.request_id)


def tell_paused(turn: Turn, nodes: int) -> None:
    """Every node that is in place, once."""
    state, limits = turn.state, turn.limits()
    commands = [
        give(turn, node, CommandKind.PAUSE, state.steps.step)
        for node in range(nodes)
        if standing(state, node, limits).place is Readiness.IN_PLACE
        and not was_told(state, node, CommandKind.PAUSE)
    ]
    if commands:
        turn.effects.append(Publish(tuple(commands)))


def was_told(state: CoordinatorState, node: int, kind: CommandKind) -> bool:
    """Whether the newest command to a node's newest incarnation is of this kind."""
    command = state.nodes.commands.get(node)
    return (
        command is not None and command.kind is kind and command.incarnation == state.view.incarnation(node)
    )


# --- the checkpoint before it -------------------------------------------------------------------------------


def forget_stop(state: CoordinatorState) -> None:
    """The pipeline is not to be stopped any more, or not yet."""
    state.stop = NO_STOP


def saves_first(turn: Turn, spec: PipelineSpec) -> bool:
    """Whether the last step is to be saved before anything is closed. If that can't be done, say why,
    once."""
    state = turn.state
    if not spec.stateful or not spec.checkpoint.location:
        return False
    if state.stop.unsaved or not checkpointing.has_more_to_save(state):
        return False
    state.stop = state.stop.waiting(state.now_ms)
    why = _why_unsaved(turn, spec)
    if why:
        state.checkpointing = state.checkpointing.dropped()
        state.stop = state.stop.without(f"step {state.steps.step} was not saved before the stop: {why}")
        checkpointing.refuse_request(state, state.stop.unsaved)
        return False
    turn.wake_at(state.stop.since_ms + spec.limits.stop_save_timeout_ms)
    roll_back(turn, spec.nodes)
    return True


def begin_last(turn: Turn, spec: PipelineSpec) -> None:
    """With all nodes in place: begin the checkpoint of the last step, unless it is under way."""
    if turn.state.checkpointing.saving is None:
        checkpointing.begin(turn, spec)
        turn.state.stop = turn.state.stop.saving(turn.state.steps.step)


def _why_unsaved(turn: Turn, spec: PipelineSpec) -> str:
    """Why the stop waits no longer for the checkpoint; '' if it does."""
    state, limits = turn.state, spec.limits
    if state.trouble.halt:
        return f"the pipeline had halted: {state.trouble.halt}"
    if state.stop.saves == state.steps.step and state.checkpointing.saving is None:
        return state.checkpointing.failure or "its checkpoint came to nothing"
    for node in range(spec.nodes):
        now = standing(state, node, limits)
        if now.place in LOST or now.what[:1] == ("replay",):
            return now.text
    if state.now_ms - state.stop.since_ms >= limits.stop_save_timeout_ms:
        return f"that took longer than {limits.stop_save_timeout_ms} ms (stop_save_timeout)"
    return ""


# --- the stop -----------------------------------------------------------------------------------------------


_GONE = (("join",), ("joining",), ("silent",), ("ended",))
"""Nothing is to be closed. A node that only slept is closed when it wakes up."""
_AWAITED = (("claim",), ("stop",), ("shutdown",))
"""Told already, or not listening yet; for so long as it may take, then it is told to end, again and again."""


def close_nodes(turn: Turn, nodes: int) -> int:
    """Close every node, then end it; how many have not ended. A halted pipeline can be
    stopped too, and starts afresh."""
    state, limits = turn.state, turn.limits()
    commands: list[Command] = []
    left = 0
    for node in range(nodes):
        said, now = state.view.node_state(node), standing(state, node, limits)
        if said is None or now.what[:1] in _GONE:
            continue
        left += 1
        if now.what[:1] in _AWAITED:
            if is_overdue(turn, node, now):
                text = f"{now.text}, for more than {now.limit_ms} ms: it is told to end"
                state.trouble = state.trouble.noted(FailureKind.LOST, text)
                commands.append(give(turn, node, CommandKind.SHUTDOWN, state.steps.step))
        elif said.phase in (NodePhase.CLOSED, NodePhase.FAILED):
            commands.append(give(turn, node, CommandKind.SHUTDOWN, state.steps.step))
        elif not was_told(state, node, CommandKind.STOP):
            commands.append(give(turn, node, CommandKind.STOP, state.steps.step))
    if commands:
        turn.effects.append(Publish(tuple(commands)))
    return left


def stopped(state: CoordinatorState) -> None:
    """All is over, and the pipeline starts afresh."""
    state.trouble = TroubleState()
    state.nodes = state.nodes.not_whole()
    acknowledge(state)
    checkpointing.refuse_request(
        state,
        f"pipeline {state.pipeline} is stopped, and its nodes are closed: there is nothing that could "
        "save it",
    )


def stopping_reason(state: CoordinatorState) -> str:
    """What a stop is about."""
    if state.stop.since_ms >= 0 and not state.stop.unsaved and state.steps.step > state.steps.checkpoint:
        return f"stopping, once step {state.steps.step} is saved"
    text = "stopping" if state.trouble.failure is None else f"stopping: {state.trouble.failure.text}"
    return f"{text}; {state.stop.unsaved}" if state.stop.unsaved else text
