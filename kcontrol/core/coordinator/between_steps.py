"""What a coordinator does between two transactions: the user's wishes, halts, the nodes, the next step.

It is looked at anew after each event, and is a function of what is known now, never of how it came about; so it does not
matter which events were doubled or late.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kcontrol.core.coordinator import checkpointing
from kcontrol.core.coordinator.attempt import make_plan, output_partitions
from kcontrol.core.coordinator.clock import follow_clock, step_time
from kcontrol.core.coordinator.node_progress import LOST, Place, assemble, give, roll_back, standing, unread
from kcontrol.core.coordinator.state import CoordinatorState, Failure
from kcontrol.core.coordinator.stopping import (
    acknowledge,
    forget_stop,
    record_saved,
    saves_first,
    stop,
    stopping_reason,
    was_told,
)
from kcontrol.core.coordinator.table import RESTING, Cause, State
from kcontrol.core.coordinator.turn import Turn
from kcontrol.core.coordinator.waiting import arrived_ms, forget_inputs, note_waiting
from kcontrol.core.events import AddPartitions, Publish
from kcontrol.core.model import (
    CommandKind,
    DesiredMode,
    FailureKind,
    InputRange,
    NodePhase,
    PipelinePhase,
    PipelineSpec,
    Status,
)
from kcontrol.core.retry import Retry
from kcontrol.core.step.added_partitions import growth_refused
from kcontrol.core.step.division import gone_input, offsets_in, received_ranges
from kcontrol.core.step.due import due
from kcontrol.core.step.gaps import Seen, records_in
from kcontrol.core.step.offsets import arrived, paused_inputs, requests_offset
from kcontrol.core.step.skips import skips_due

_STATUS_EVERY_MS = 1000
STATUS_BEAT_MS = 2000
"""The status is said again after so long without news: a coordinator's silence means that nobody is in charge any more."""


def rest(turn: Turn) -> None:
    """Do what is to be done now; may leave the resting states for the next step."""
    state = turn.state
    spec = state.view.spec()
    nodes = 0 if spec is None else spec.nodes
    desired = state.view.desired()
    mode = DesiredMode.RUNNING if desired is None else desired.mode
    if missing := unread(state, nodes):
        _read_again(turn, missing)
        return
    _take_resume(turn)
    if spec is not None:
        _take_note_of_inputs(state, spec)
        checkpointing.tend(turn, spec)
        checkpointing.answer_request(turn, spec)
        if not state.halt:
            state.halt = _refused(state, spec) or growth_refused(spec, state.steps, state.view)
    if mode is not DesiredMode.STOPPED:
        forget_stop(state)
    if state.halt and mode is not DesiredMode.STOPPED:
        _move(turn, Cause.HALT, (State.HALTED,))
        roll_back(turn, nodes)
        checkpointing.refuse_request(
            state, f"pipeline {state.pipeline} has halted, and is not saved before it goes on: {state.halt}"
        )
        return
    match mode:
        case DesiredMode.PAUSED:
            _move(turn, Cause.PAUSE, (State.PAUSED,))
            acknowledge(state)
            roll_back(turn, nodes)
            if spec is None or not _is_saving(turn, spec):
                _tell_paused(turn, nodes)
        case DesiredMode.STOPPED:
            _move(turn, Cause.STOP, (State.STOPPING, State.STOPPED))
            if spec is None or not saves_first(turn, spec):
                stop(turn, nodes)
        case DesiredMode.RUNNING:
            _move(turn, Cause.RUN, (State.ASSEMBLING, State.READY))
            acknowledge(state)
            if spec is not None:
                _run(turn, spec)


def _read_again(turn: Turn, missing: str) -> None:
    """Nothing is decided by half of a log. No count: it is over as soon as the brokers agree."""
    state = turn.state
    state.failure = Failure(FailureKind.BROKER, f"{missing}: a broker that was behind has answered; reading again")
    state.retry = replace(state.retry, not_before_ms=state.now_ms + turn.limits().backoff_ms)
    turn.go(Cause.LOG_AHEAD)


def _move(turn: Turn, cause: Cause, there: tuple[State, ...]) -> None:
    if turn.state.at not in there:
        turn.go(cause)


def _refused(state: CoordinatorState, spec: PipelineSpec) -> str:
    last = state.steps.last
    if last is not None and spec.stateful and last.nodes != spec.nodes:
        return (
            f"pipeline {state.pipeline} keeps state, and its log was made by {last.nodes} nodes up to step {last.step}; the "
            f"definition submitted has nodes = {spec.nodes}. State is divided over the nodes and can't be divided anew yet: "
            f"submit it with nodes = {last.nodes}, then resume the pipeline, or give it a new name"
        )
    if last is None or last.fingerprint == spec.fingerprint or last.fingerprint in spec.compatible_with:
        return ""
    return (
        f"pipeline {state.pipeline} has changed: its log was made by definition {last.fingerprint} up to step {last.step}, the "
        f"one submitted is {spec.fingerprint}. Submit the old definition, declare the new one compatible with it, or give it a "
        "new name; then resume the pipeline"
    )


# --- what the user wants ------------------------------------------------------------------------------------------------


def _take_resume(turn: Turn) -> None:
    """Go on after a halt, with all counters at zero; a broken node is given one more chance."""
    state = turn.state
    resume = state.view.resume()
    if resume is None or resume.request_id in state.acknowledged:
        return
    checkpointing.remember_request(state, resume.request_id)
    state.halt = ""
    state.failure = None
    state.retry = Retry()
    state.forgiven = {
        node: (said.command_epoch, said.command_serial)
        for node in state.view.lives
        if (said := state.view.node_state(node)) is not None and said.phase is NodePhase.FAILED
    }


def _take_note_of_inputs(state: CoordinatorState, spec: PipelineSpec) -> None:
    """Every step from here on goes by what users want of inputs now. A plan that was made by something else is given up.

    No attempt at it is under way, and none can begin before every node has rolled back from the last one; so it is as if it
    had never been made, as it is after a takeover.
    """
    paused = paused_inputs(spec, state.view)
    plan = state.plan
    if plan is not None and (plan.paused, plan.skips) != (paused, skips_due(spec, state.steps, state.view)):
        state.plan = None
    if paused != state.paused:
        state.paused = paused
        forget_inputs(state, paused)
    state.inputs_offset = requests_offset(spec, state.view)


def _is_saving(turn: Turn, spec: PipelineSpec) -> bool:
    """Save what a paused pipeline has not saved yet, if it is due; whether its nodes are to be told nothing else."""
    state, limits = turn.state, turn.limits()
    places = [standing(state, node, limits) for node in range(spec.nodes)]
    missing = next((now.text for now in places if now.place in LOST), "")
    if missing:
        checkpointing.refuse_request(
            state, f"pipeline {state.pipeline} is paused, and {missing}; a paused pipeline opens no node: resume it first"
        )
    if any(now.place is not Place.IN_PLACE for now in places):
        return state.saving is not None
    return record_saved(turn) or checkpointing.must_pin(turn, spec) or state.saving is not None


def _tell_paused(turn: Turn, nodes: int) -> None:
    state, limits = turn.state, turn.limits()
    commands = [
        give(turn, node, CommandKind.PAUSE, state.steps.step)
        for node in range(nodes)
        if standing(state, node, limits).place is Place.IN_PLACE and not was_told(state, node, CommandKind.PAUSE)
    ]
    if commands:
        turn.effects.append(Publish(tuple(commands)))


# --- the next step --------------------------------------------------------------------------------------------------------


def _run(turn: Turn, spec: PipelineSpec) -> None:
    state, producer = turn.state, turn.state.producer
    waiting = assemble(turn, spec.nodes)
    if not waiting and not state.halt:
        # Only now is it known how far all input reaches: a node that is not in place may not have said so for long.
        state.halt = gone_input(spec, state.steps, state.view)
    if state.halt:
        turn.go(Cause.HALT)
        roll_back(turn, spec.nodes)
        return
    received = received_ranges(spec, state.steps, state.view)
    seen = {item.name: arrived(spec, item, state.view) for item in spec.inputs}
    note_waiting(state, received, seen)
    if waiting:
        _move(turn, Cause.OUT_OF_PLACE, (State.ASSEMBLING,))
        return
    _move(turn, Cause.IN_PLACE, (State.READY,))
    state.assembled = True
    follow_clock(state, spec)
    if state.producer_timeout_ms != spec.limits.transaction_timeout_ms:
        turn.go(Cause.LIMITS_CHANGED)
    elif state.now_ms < state.retry.not_before_ms:
        turn.wake_at(state.retry.not_before_ms)
    elif record_saved(turn):
        return
    elif not checkpointing.must_pin(turn, spec) and _has_plan(turn, spec, received, seen) and producer is not None:
        turn.go(Cause.DUE, AddPartitions(*producer, output_partitions(state, spec)))


def _has_plan(turn: Turn, spec: PipelineSpec, received: Sequence[InputRange], seen: Seen) -> bool:
    """Whether there is a step to make. All nodes are in place, so none holds an attempt at another plan of the same step.

    A plan that failed is kept as it is; only a new definition, which every attempt of the old one has made room for, ends it.
    """
    state = turn.state
    if state.plan is not None and state.plan.spec == spec:
        return True
    last, waiting = state.steps.last, records_in(received, seen)
    if waiting or not offsets_in(received):
        state.only_gaps_ms = None
    elif state.only_gaps_ms is None:
        state.only_gaps_ms = state.now_ms
    found = due(
        spec.policy,
        waiting=waiting,
        arrived_ms=arrived_ms(state.arrivals, received),
        only_gaps_ms=state.only_gaps_ms,
        last_now_ms=state.steps.now_ms,
        watermark_moved=last is not None and last.watermark_moved,
        skips=bool(skips_due(spec, state.steps, state.view)),
        now_ms=state.now_ms,
        step_now_ms=step_time(state),
    )
    state.plan = None
    if found.reason is not None:
        state.plan = make_plan(state, spec, found.reason, received)
    elif found.wake_ms is not None:
        turn.wake_at(found.wake_ms)
    return state.plan is not None


# --- what people see ------------------------------------------------------------------------------------------------------


def report(turn: Turn) -> None:
    """Publish the status when it says something new, a new step alone at most every second; and again after a while, as a sign
    of life for whoever looks on.

    Never while a new producer epoch has not been followed by a look at the logs: somebody else may be in charge.
    """
    state = turn.state
    may_say = state.at in (*RESTING, State.ADDING, State.ATTEMPTING) or (state.at is State.DENIED and state.looked)
    if not may_say:
        return
    status = _status(turn)
    before = state.status
    if before is not None and _news(status) == _news(before):
        due_ms = state.status_ms + (STATUS_BEAT_MS if status.step == before.step else _STATUS_EVERY_MS)
        if state.now_ms < due_ms:
            turn.wake_at(due_ms)
            return
    state.status, state.status_ms = status, state.now_ms
    turn.effects.append(Publish((status,)))


def _news(status: Status) -> tuple[object, ...]:
    return (
        *(status.claim_epoch, status.phase, status.reason, status.acknowledged),
        *(status.checkpoint, status.checkpoint_failure, status.answers, status.inputs_offset),
        status.clock_difference_ms,
    )


def _status(turn: Turn) -> Status:
    state, last = turn.state, turn.state.view.status()
    phase, reason = PipelinePhase.RUNNING, "" if state.failure is None else state.failure.text
    if state.at is State.DENIED:
        phase = PipelinePhase.HALTED
        reason = state.halt
        if last is not None:
            # Steps may not have been read, nor what users asked for taken note of: all that stays as it was said last.
            return replace(last, claim_epoch=state.epoch, phase=phase, reason=reason)
    match state.at:
        case State.HALTED:
            phase, reason = PipelinePhase.HALTED, state.halt
        case State.PAUSED:
            phase, reason = PipelinePhase.PAUSED, ""
        case State.STOPPED:
            phase, reason = PipelinePhase.STOPPED, state.unsaved
        case State.STOPPING:
            reason = stopping_reason(state)
        case _ if not state.assembled and state.at is not State.DENIED:
            phase, reason = PipelinePhase.STARTING, _missing(turn)
    return Status(
        pipeline=state.pipeline,
        claim_epoch=state.epoch,
        phase=phase,
        step=state.steps.step,
        reason=reason,
        acknowledged=state.acknowledged,
        checkpoint=state.steps.checkpoint,
        checkpoint_failure=state.saving_failure,
        answers=state.answers,
        inputs_offset=state.inputs_offset,
        clock_difference_ms=state.clock_difference_ms,
    )


def _missing(turn: Turn) -> str:
    """What a pipeline that has not started waits for."""
    state = turn.state
    spec = state.view.spec()
    if spec is None:
        return "waiting for the pipeline's definition"
    limits = turn.limits()
    missing = [now.text for node in range(spec.nodes) if (now := standing(state, node, limits)).place is not Place.IN_PLACE]
    parts = ["waiting: " + ", ".join(missing)] if missing else []
    if state.failure is not None:
        parts.append(state.failure.text)
    return "; ".join(parts)
