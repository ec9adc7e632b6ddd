"""Another number of nodes for a pipeline that runs, as the coordinator makes it.

Whoever asks names the change by its number. All processes that are to be nodes, new ones and those that are nodes
already, say that they are there and copy from a checkpoint what they will own, while steps go on. Once all have, no step is
made; the last one is saved, of which they lack little; and one transaction records its checkpoint and the new layout. From
that record on, and not before, everything is otherwise: the processes read it and go on by it by themselves.

Until then nothing has changed, so whatever goes wrong ends the change and nothing else. A coordinator that takes over finds
the request unanswered, or the record in the log. That all have copied keeps the pause short and is no condition of
anything being right: who lacks something takes it from the checkpoint that the record came with.
"""

from __future__ import annotations

from dataclasses import replace

from kcontrol.core.coordinator import checkpointing
from kcontrol.core.coordinator.parts.changing import LiveChange
from kcontrol.core.coordinator.standing import all_in_place
from kcontrol.core.coordinator.state import CoordinatorState
from kcontrol.core.coordinator.turn import Turn
from kcontrol.core.model import (
    Assignment,
    DesiredMode,
    LayoutPhase,
    LayoutReady,
    LayoutRequest,
    LayoutStatus,
    LimitsSpec,
    PipelineSpec,
)
from kcontrol.core.step.layout_change import changed, left_out, refused_live

_OVER = (LayoutPhase.DONE, LayoutPhase.REFUSED, LayoutPhase.GIVEN_UP)


def pending_change(state: CoordinatorState) -> LayoutRequest | None:
    """The newest request for another layout, unless it was answered."""
    request, told = state.view.layout_request(), state.changing.told
    if request is None:
        return None
    answered = told is not None and told.request_id == request.request_id and told.phase in _OVER
    return None if answered else request


def unread_by_change(state: CoordinatorState) -> str:
    """What shows that whoever asks for another layout has read more of the log of steps, or ''."""
    request = pending_change(state)
    if request is None or request.number <= next_number(state):
        return ""
    return f"change {request.number} of the layout was asked for, and {next_number(state) - 1} were read in the log of steps"


def next_number(state: CoordinatorState) -> int:
    """Of the next change of the layout, as far as was read."""
    assignment = state.steps.assignment
    return 1 if assignment is None else assignment.number + 1


# --- looked at between two steps ----------------------------------------------------------------------------


def tend(turn: Turn, spec: PipelineSpec, mode: DesiredMode) -> None:
    """Look at what is asked for: begin it, go on with it, or answer it."""
    state = turn.state
    request = pending_change(state)
    if request is None:
        state.changing = state.changing.at(None)
        return
    made = state.steps.assignment
    if made is not None and made.request_id == request.request_id:
        state.nodes = state.nodes.not_whole()
        _answer(state, request, LayoutPhase.DONE, "", made)
        return
    # To ask for nothing is right at any time.
    why = "" if request.nodes == 0 else _doubted(state, request) or _not_now(state, mode)
    why = why or _refused(state, spec, request)
    if why:
        _answer(
            state, request, LayoutPhase.REFUSED if state.changing.now is None else LayoutPhase.GIVEN_UP, why
        )
        return
    change = state.changing.now
    if change is None or change.request_id != request.request_id:
        target = changed(spec, request.nodes, left_out(request), owners=request.owners)
        change = LiveChange(request.request_id, spec.fingerprint, target, state.now_ms, request.replaced)
        state.changing = state.changing.at(change)
    why = _lost(state, spec, change, request)
    if why:
        _answer(state, request, LayoutPhase.GIVEN_UP, f"{why}. Nothing was changed")
        return
    turn.wake_at(change.begun_ms + request.timeout_ms)
    if change.held:
        turn.wake_at(change.held_ms + spec.limits.open_timeout_ms)
    _go_on(state, spec, change)
    _tell(state, spec)


def _doubted(state: CoordinatorState, request: LayoutRequest) -> str:
    """Whoever asked may have been told that it is given up, and must not find it made afterwards."""
    if request.request_id != state.changing.doubted:
        return ""
    return "a coordinator that had been replaced has written over what was said of it: nothing was changed; ask again"


def _not_now(state: CoordinatorState, mode: DesiredMode) -> str:
    """Why no pipeline that runs has its layout changed now, or ''."""
    if state.trouble.halt:
        return f"pipeline {state.pipeline} has halted: {state.trouble.halt}"
    if mode is not DesiredMode.RUNNING:
        return f"pipeline {state.pipeline} is {mode.value}: let it run, or ask when it is stopped"
    if state.steps.is_reset:
        # It is no checkpoint's step, and a change begins with a checkpoint of the last one.
        return f"the last step of pipeline {state.pipeline}, {state.steps.step}, is a reset: ask again after the next one"
    return ""


def _refused(state: CoordinatorState, spec: PipelineSpec, request: LayoutRequest) -> str:
    number = next_number(state)
    if request.number != number:
        return f"change {request.number} of the layout was asked for, and the next one would be {number}: ask again"
    if request.nodes == 0:
        return "what was asked for before is withdrawn"
    if request.why and spec.rebalance is None:
        return "the definition does not ask for rebalancing any more"
    step = state.steps.step
    return refused_live(spec, request.nodes, step, request.replaced, left_out(request), request.owners)


def _lost(state: CoordinatorState, spec: PipelineSpec, change: LiveChange, request: LayoutRequest) -> str:
    """Why it comes to nothing, or ''."""
    if spec.fingerprint != change.fingerprint:
        return "another definition was submitted"
    said = [_ready(state, change, node) for node in range(change.target.nodes)]
    wrong = next((each for each in said if each is not None and each.error), None)
    if wrong is not None:
        return (
            f"node {wrong.node} (process {wrong.process_id} on {wrong.host}) can't go on by it: {wrong.error}"
        )
    if change.held:
        gone = [
            node for node in range(change.target.nodes) if not _is_there(state, change, node, spec.limits)
        ]
        if gone:
            return f"node {', '.join(map(str, gone))} fell silent when all had copied"
    if change.switched and state.checkpointing.saving is None and not _is_over(state, spec, change):
        return state.checkpointing.failure or f"the checkpoint of step {change.switched} could not be made"
    if change.held and state.now_ms - change.held_ms >= spec.limits.open_timeout_ms:
        # A node that is started anew may keep steps waiting for as long.
        return f"the last step was not saved within {spec.limits.open_timeout_ms} ms when all had copied"
    if state.now_ms - change.begun_ms >= request.timeout_ms:
        return f"it was not ready within {request.timeout_ms} ms ({_awaited(state, spec, change)})"
    return ""


def _go_on(state: CoordinatorState, spec: PipelineSpec, change: LiveChange) -> None:
    """What has come about since: all are there, there is a checkpoint to copy."""
    there = all(_is_there(state, change, node, spec.limits) for node in range(change.target.nodes))
    if change.from_step < 0 and there:
        change = replace(change, from_step=state.steps.step)
    if not change.copying_ms and change.from_step >= 0 and state.steps.checkpoint >= change.from_step:
        change = replace(change, copying_ms=state.now_ms)
    state.changing = state.changing.at(change)


def switch(turn: Turn, spec: PipelineSpec) -> None:
    """With nothing in flight: once all have copied, make no more steps, and have the last one saved."""
    state = turn.state
    change = state.changing.now
    if change is None:
        return
    if not change.held:
        if state.checkpointing.saving is not None or _awaited(state, spec, change):
            return
        change = replace(change, held_ms=state.now_ms)
    if not change.switched and all_in_place(state, spec):
        if spec.stateful and state.steps.step > state.steps.checkpoint:
            checkpointing.begin(turn, spec)
        change = replace(change, switched=state.steps.step)
    state.changing = state.changing.at(change)
    _tell(state, spec)


def release(state: CoordinatorState) -> None:
    """A node is not in place any more: steps go on when it is, and then all of it is looked at again."""
    change = state.changing.now
    if change is not None and change.held:
        state.changing = state.changing.at(replace(change, held_ms=-1, switched=0))


def is_switching(state: CoordinatorState) -> bool:
    """Whether no step may be made."""
    return state.changing.now is not None and state.changing.now.held


def can_record_alone(turn: Turn, spec: PipelineSpec) -> bool:
    """Whether the change may be put into the log now, over a checkpoint that is there or, without state, over none."""
    state = turn.state
    change = state.changing.now
    if change is None or state.transaction.producer is None or state.checkpointing.saving is not None:
        return False
    if not _is_over(state, spec, change):
        return False
    if state.now_ms < state.trouble.retry.not_before_ms:
        turn.wake_at(state.trouble.retry.not_before_ms)
        return False
    return True


def _is_over(state: CoordinatorState, spec: PipelineSpec, change: LiveChange) -> bool:
    """Whether the last step is one that it may be made over."""
    saved = not spec.stateful or state.steps.saved_of(change.switched) is not None
    return change.switched == state.steps.step > 0 and saved


def due_assignment(state: CoordinatorState, spec: PipelineSpec) -> Assignment | None:
    """What is to be recorded with the checkpoint under way, or over the one that is there; None: no change, or not any
    more."""
    change, saving = state.changing.now, state.checkpointing.saving
    if change is None or not change.held or spec.fingerprint != change.fingerprint:
        return None
    saves = saving is not None and saving.step == change.switched == state.steps.step
    if not saves and not (saving is None and _is_over(state, spec, change)):
        return None
    target = change.target
    sizes = [0 if said is None else said.total_bytes for said in _all_ready(state, change)]
    return target.recorded(
        state.pipeline,
        next_number(state),
        change.switched,
        request_id=change.request_id,
        moved_bytes=-1 if min(sizes) < 0 else sum(sizes),
        now_ms=state.wall(state.now_ms),
        live=True,
        replaced=change.replaced,
    )


# --- who makes ready ----------------------------------------------------------------------------------------


def hear_ready(state: CoordinatorState, record: LayoutReady) -> None:
    """A sign of life of who is to be a node, if it may not be an old one."""
    if state.hearing.caught_up_ms >= 0:
        state.changing = state.changing.heard_from(record.node, record.uuid, state.now_ms)


def _ready(state: CoordinatorState, change: LiveChange, node: int) -> LayoutReady | None:
    """What was said for this very request."""
    said = state.view.layout_ready(node)
    return said if said is not None and said.request_id == change.request_id else None


def _all_ready(state: CoordinatorState, change: LiveChange) -> list[LayoutReady | None]:
    return [_ready(state, change, node) for node in range(change.target.nodes)]


def _is_there(state: CoordinatorState, change: LiveChange, node: int, limits: LimitsSpec) -> bool:
    """Whether who is to be the node has been heard under this claim, and not been silent since, for as long as was listened."""
    said, (uuid, heard_ms) = _ready(state, change, node), state.changing.heard.get(node, ("", 0))
    silent_ms = state.now_ms - max(heard_ms, state.hearing.caught_up_ms)
    return said is not None and said.uuid == uuid and silent_ms < limits.heartbeat_timeout_ms


def _awaited(state: CoordinatorState, spec: PipelineSpec, change: LiveChange) -> str:
    """What has to come about before it can be made, or ''."""
    nodes = range(change.target.nodes)
    missing = [node for node in nodes if not _is_there(state, change, node, spec.limits)]
    if missing:
        new = [node for node in missing if node >= spec.nodes]
        how = f": start kcontrol node --node {new[0]} --new" if new else ""
        if change.replaced and missing[0] in change.replaced:
            how = f": start kcontrol node --node {missing[0]} --instead"
            if change.target.renumbered is not None:
                how += f" on the host of node {change.target.renumbered[0]}, whose place it takes"
        return f"waiting for node {', '.join(map(str, missing))} to make ready{how}"
    if not spec.stateful:
        return ""
    if state.steps.checkpoint < max(change.from_step, 0):
        return "waiting for a checkpoint that can be copied"
    behind = [
        node
        for node, said in enumerate(_all_ready(state, change))
        if said is None or said.copied_step < change.from_step
    ]
    return f"node {', '.join(map(str, behind))} copies its state" if behind else ""


# --- what people are told -----------------------------------------------------------------------------------


def _answer(
    state: CoordinatorState,
    request: LayoutRequest,
    phase: LayoutPhase,
    text: str,
    made: Assignment | None = None,
) -> None:
    step, moved, size = (0, 0, -1) if made is None else (made.step, made.moved_shards, made.moved_bytes)
    nodes = request.nodes if made is None else made.nodes
    told = LayoutStatus(request.request_id, phase, nodes, step, moved, max(size, 0), size, 0, text)
    state.changing = state.changing.over(told)


def _tell(state: CoordinatorState, spec: PipelineSpec) -> None:
    change = state.changing.now
    if change is None:
        return
    text = _awaited(state, spec, change)
    phase = LayoutPhase.COPYING if change.copying_ms else LayoutPhase.WAITING
    if change.held:
        phase, text = LayoutPhase.SWITCHING, ""
    said = [each for each in _all_ready(state, change) if each is not None]
    copied = sum(each.copied_bytes for each in said)
    total = sum(each.total_bytes for each in said)
    known = len(said) == change.target.nodes and all(each.total_bytes >= 0 for each in said)
    state.changing = state.changing.telling(
        LayoutStatus(
            request_id=change.request_id,
            phase=phase,
            nodes=change.target.nodes,
            step=state.steps.checkpoint if change.copying_ms else 0,
            moved_shards=len(change.target.moves),
            copied_bytes=copied,
            total_bytes=total if known else -1,
            seconds_left=_seconds_left(copied, total, state.now_ms - change.copying_ms) if known else -1,
            text=text,
        )
    )


def _seconds_left(copied: int, total: int, elapsed_ms: int) -> int:
    if copied >= total:
        return 0
    return -1 if copied <= 0 else round((total - copied) * max(elapsed_ms, 1) / copied / 1000)
