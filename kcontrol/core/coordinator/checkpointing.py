"""Checkpoints as the coordinator makes them: when one is due, what is waited for, and what goes into the log.

Between two steps every node is told to checkpoint the last committed one. The next step waits only until all
have pinned what that step needs; they save it while steps go on. When all parts are there, a transaction of
its own records the checkpoint and drops what it makes needless. Whatever goes wrong costs this one checkpoint
and nothing else: the ones before it stay as they are, and another is begun when it is due.

Where a pipeline has no state, nobody has anything to save: its checkpoint has no parts, no node is told of it, and it is
recorded between the next two transactions. It says where the log of steps may be read from, and what of it can go.
"""

from __future__ import annotations

from dataclasses import replace

from kcontrol.core.coordinator.node_progress import give
from kcontrol.core.coordinator.parts.checkpoint import Saving
from kcontrol.core.coordinator.standing import all_in_place, has_done
from kcontrol.core.coordinator.state import CoordinatorState
from kcontrol.core.coordinator.turn import Turn
from kcontrol.core.events import AddPartitions, Publish
from kcontrol.core.log.keys import checkpoint_key, step_key
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import (
    Checkpoint,
    CheckpointPart,
    CheckpointRequest,
    CheckpointSpec,
    CommandKind,
    LimitsSpec,
    PipelineSpec,
    SavedPart,
)

# --- requests -----------------------------------------------------------------------------------------------


def pending_request(state: CoordinatorState) -> CheckpointRequest | None:
    """The newest request for a checkpoint, unless it was answered."""
    request = state.view.checkpoint_request()
    return None if request is None or request.request_id in state.asked.acknowledged else request


def unread_by_request(state: CoordinatorState) -> str:
    """What shows that whoever asks for a checkpoint has read more of the log of steps, or ''."""
    request = pending_request(state)
    if request is None or request.committed <= state.steps.step:
        return ""
    return (
        f"step {request.committed} was committed when a checkpoint was asked for, and the log of steps was "
        f"read to step {state.steps.step} only"
    )


def answer_request(turn: Turn, spec: PipelineSpec) -> None:
    """Answer the pending request, if there is nothing to save for it, or nothing any more."""
    state = turn.state
    request = pending_request(state)
    if request is None:
        return
    unread = unread_by_request(state)
    if unread:
        # All that is committed is known, and there is no such step.
        _answer(state, request.request_id, 0, f"{unread}: nothing was saved; ask again")
        return
    saved = next((one.step for one in state.steps.checkpoints if one.request_id == request.request_id), 0)
    has_one = 0 < state.steps.step == state.steps.checkpoint
    if saved or (has_one and (not spec.stateful or state.steps.checkpoints[-1].parts)):
        _answer(state, request.request_id, saved or state.steps.checkpoint, "")
    elif has_one:
        _answer(
            state,
            request.request_id,
            0,
            f"the checkpoint of step {state.steps.step}, the last one of pipeline {state.pipeline}, was made while it kept no "
            "state: there is nothing to save before the next step",
        )
    elif not spec.checkpoint.location:
        _answer(
            state,
            request.request_id,
            0,
            f"pipeline {state.pipeline} has no place for checkpoints: give its definition "
            "checkpoint=kcontrol.Checkpoint(LOCATION) and start it again",
        )
    elif state.steps.is_reset:
        _answer(
            state,
            request.request_id,
            0,
            f"the last step of pipeline {state.pipeline}, {state.steps.step}, is a reset to step "
            f"{state.steps.made_by(state.steps.step)}, and holds what that does: there is nothing to save before the next one",
        )
    elif state.steps.step == 0:
        _answer(
            state,
            request.request_id,
            0,
            f"pipeline {state.pipeline} has no committed step yet: there is nothing to save",
        )


def refuse_request(state: CoordinatorState, why: str) -> None:
    """Answer the pending request, if there is one: nothing will be saved for it."""
    request = pending_request(state)
    if request is not None:
        _answer(state, request.request_id, 0, why)


def _answer(state: CoordinatorState, request_id: str, step: int, error: str) -> None:
    state.asked = state.asked.answering(request_id, step, error)


# --- one checkpoint -----------------------------------------------------------------------------------------


def start_timer(state: CoordinatorState) -> None:
    """At the beginning of a tenure: the interval goes on from the newest checkpoint, as far as clocks
    agree."""
    wall_ms = state.wall(state.now_ms)
    made_ms = state.steps.checkpoints[-1].now_ms if state.steps.checkpoints else wall_ms
    state.checkpointing = state.checkpointing.counting_from(state.now_ms - max(0, wall_ms - made_ms))


def must_pin(turn: Turn, spec: PipelineSpec) -> bool:
    """With all nodes in place: begin a checkpoint if one is due, and say whether the next step has to wait
    for it."""
    state = turn.state
    if state.checkpointing.saving is None and _is_due(turn, spec):
        if not all_in_place(state, spec):
            return True  # One has yet to read the boundary of the step that is to be saved.
        begin(turn, spec)
    saving = state.checkpointing.saving
    if saving is None or saving.pinned:
        return False
    turn.wake_at(saving.waits_from_ms + spec.limits.pin_timeout_ms)
    return True


def _is_due(turn: Turn, spec: PipelineSpec) -> bool:
    state = turn.state
    if not spec.checkpoint.location or not has_more_to_save(state):
        return False
    due_ms = state.checkpointing.turned_ms + spec.checkpoint.every_ms
    if state.changing.wants_checkpoint(state.steps.checkpoint) and not state.checkpointing.failure:
        return True
    if state.changing.keeps_checkpoint and pending_request(state) is None:
        return False
    if pending_request(state) is not None:
        # A request whose checkpoint was lost is tried again, but not so soon that steps would have no turn.
        due_ms = (
            min(due_ms, state.checkpointing.turned_ms + spec.limits.max_backoff_ms)
            if state.checkpointing.failure
            else state.now_ms
        )
    if state.now_ms >= due_ms:
        return True
    turn.wake_at(due_ms)
    return False


def has_more_to_save(state: CoordinatorState) -> bool:
    """Whether the last step holds anything that the newest checkpoint does not. A reset holds what another step does, and has
    no batch of its own that could be saved."""
    return state.steps.step > state.steps.checkpoint and not state.steps.is_reset


def parts_wanted(spec: PipelineSpec) -> int:
    """Of how many nodes a checkpoint has a part."""
    return spec.nodes if spec.stateful else 0


def begin(turn: Turn, spec: PipelineSpec) -> None:
    """Have all nodes save the last step, which all of them hold; nothing is being saved yet."""
    state = turn.state
    step = state.steps.step
    request = pending_request(state)
    commands = tuple(give(turn, node, CommandKind.CHECKPOINT, step) for node in range(parts_wanted(spec)))
    saving = Saving(
        step=step,
        boundary_offset=state.steps.last_offset,
        policy=spec.checkpoint,
        commands=commands,
        begun_ms=state.now_ms,
        request_id="" if request is None else request.request_id,
        pinned=not commands,
    )
    state.checkpointing = state.checkpointing.begun(saving)
    if commands:
        turn.effects.append(Publish(commands))
    else:
        turn.wake_at(state.now_ms + 1)  # It can be recorded at once, and nobody will say anything about it.


def tend(turn: Turn, spec: PipelineSpec) -> None:
    """Look at the checkpoint under way: is it pinned by now, or to be given up?"""
    state = turn.state
    _note_pinned(state)
    saving = state.checkpointing.saving
    if saving is None:
        return
    lost = _lost(state, saving, spec)
    failed = _failed(state, saving, spec.limits)
    if lost or failed:
        _give_up(state, saving, lost or failed, answer=not lost)
        return
    if not is_saved(state):
        # Once it is, nothing of it is over by itself: it is recorded when all nodes are in place.
        turn.wake_at(saving.waits_from_ms + spec.limits.save_timeout_ms)


def _note_pinned(state: CoordinatorState) -> None:
    saving = state.checkpointing.saving
    if saving is not None and not saving.pinned and not _unpinned(state, saving):
        state.checkpointing = state.checkpointing.pinned()


def _give_up(state: CoordinatorState, saving: Saving, why: str, answer: bool) -> None:
    why = f"the checkpoint of step {saving.step} was given up: {why}"
    state.checkpointing = state.checkpointing.given_up(state.now_ms, why)
    if answer and saving.request_id and saving.request_id not in state.asked.acknowledged:
        _answer(state, saving.request_id, 0, why)


def _unpinned(state: CoordinatorState, saving: Saving) -> list[int]:
    return [command.node for command in saving.commands if not _has_pinned(state, saving, command.node)]


def _has_pinned(state: CoordinatorState, saving: Saving, node: int) -> bool:
    """A node that was told something else before it answered may have left the checkpoint out."""
    command, said = saving.commands[node], state.view.node_state(node)
    return said is not None and has_done(said, command) and state.nodes.commands.get(node) == command


def _lost(state: CoordinatorState, saving: Saving, spec: PipelineSpec) -> str:
    """Why the checkpoint can't be completed, through nobody's fault; what asked for it stands, and begins it
    anew."""
    if saving.policy.location != spec.checkpoint.location or len(saving.commands) != parts_wanted(spec):
        return "the pipeline's definition was changed"
    for node, command in enumerate(saving.commands):
        if state.view.incarnation(node) != command.incarnation:
            return f"node {node} was restarted"
        if not saving.pinned and state.nodes.commands.get(node) != command:
            return f"node {node} was told something else before it had pinned the step"
    return ""


def _failed(state: CoordinatorState, saving: Saving, limits: LimitsSpec) -> str:
    for node in range(len(saving.commands)):
        part = _part(state, saving, node)
        if part is not None and part.error:
            return f"node {node}: {part.error}"
    waited_ms = state.now_ms - saving.waits_from_ms
    if not saving.pinned and waited_ms >= limits.pin_timeout_ms:
        late = ", ".join(map(str, _unpinned(state, saving)))
        return f"node {late} has not pinned the step within {limits.pin_timeout_ms} ms"
    if waited_ms >= limits.save_timeout_ms and not is_saved(state):
        late = ", ".join(
            str(node) for node in range(len(saving.commands)) if _part(state, saving, node) is None
        )
        return f"node {late} has not saved its part within {limits.save_timeout_ms} ms"
    return ""


def _part(state: CoordinatorState, saving: Saving, node: int) -> CheckpointPart | None:
    """What a node says about exactly this checkpoint."""
    part, command = state.view.checkpoint_part(node), saving.commands[node]
    if part is None or (part.claim_epoch, part.command_serial) != (command.claim_epoch, command.serial):
        return None
    return part if part.incarnation == command.incarnation and part.step == saving.step else None


def is_saved(state: CoordinatorState) -> bool:
    """Whether all parts of the checkpoint under way are there."""
    saving = state.checkpointing.saving
    return saving is not None and saving.pinned and len(_parts(state, saving)) == len(saving.commands)


def can_record(turn: Turn) -> bool:
    """Whether all nodes have saved the checkpoint under way, and it may be put into the log now."""
    state = turn.state
    if state.transaction.producer is None or not is_saved(state):
        return False
    if state.now_ms < state.trouble.retry.not_before_ms:
        turn.wake_at(state.trouble.retry.not_before_ms)
        return False
    return True


def open_log(state: CoordinatorState) -> AddPartitions:
    """What the transaction that records it begins with."""
    return AddPartitions(*state.transaction.owner(), ((state.steps_topic, 0),))


def _parts(state: CoordinatorState, saving: Saving) -> tuple[SavedPart, ...]:
    parts = (_part(state, saving, node) for node in range(len(saving.commands)))
    return tuple(
        SavedPart(part.node, part.incarnation, part.manifest, part.files, part.size_bytes)
        for part in parts
        if part is not None and not part.error
    )


def saved_checkpoint(state: CoordinatorState, saving: Saving) -> Checkpoint:
    """The record that makes it count."""
    return Checkpoint(
        pipeline=state.pipeline,
        step=saving.step,
        claim_epoch=state.tenure.epoch,
        boundary_offset=saving.boundary_offset,
        location=saving.policy.location if saving.commands else "",
        parts=_parts(state, saving),
        begun_ms=state.wall(saving.begun_ms),
        now_ms=state.wall(state.now_ms),
        request_id=saving.request_id,
        first_step=0,
        resized_step=0,
        begin_offset=-1,
        assignment=state.steps.assignment,
    )


def making_room(
    steps: StepsView, made: Checkpoint, policy: CheckpointSpec, limits: LimitsSpec
) -> tuple[Checkpoint, tuple[str, ...]]:
    """The checkpoint, saying where the log begins from then on, and the keys of what the log can do without
    once it is there: checkpoints beyond `keep`, and steps that no kept one needs.

    Oldest first, so that whatever compaction has removed is always a beginning of the log.
    """
    checkpoints = (*steps.checkpoints, made)
    kept = checkpoints[-max(1, policy.keep) :]
    gone = [checkpoint_key(one.step) for one in checkpoints[: -len(kept)]]
    first = steps.first
    if policy.keep_steps >= 0:
        end = min(kept[0].step, steps.step - policy.keep_steps + 1, steps.first + limits.max_forgotten)
        gone.extend(step_key(step) for step in range(steps.first, end))
        first = max(first, end)
    old = (each.reset for each in steps.resets if each.reset <= kept[0].step)
    resized = max((steps.resized, *old))
    resized = resized if resized >= first else 0
    return replace(made, first_step=first, resized_step=resized, begin_offset=kept[0].boundary_offset), tuple(
        gone
    )


def on_recorded(state: CoordinatorState, made: Checkpoint) -> None:
    """A checkpoint is in the log, whoever made it."""
    state.checkpointing = state.checkpointing.recorded(made.step)
