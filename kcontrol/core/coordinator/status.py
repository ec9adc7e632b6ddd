"""What a coordinator tells people: the status, when it says something new and as a sign of life."""

from __future__ import annotations

from dataclasses import replace

from kcontrol.core.coordinator.definition import not_submitted_yet
from kcontrol.core.coordinator.standing import Readiness, standing
from kcontrol.core.coordinator.stopping import stopping_reason
from kcontrol.core.coordinator.table import RESTING, State
from kcontrol.core.coordinator.turn import Turn
from kcontrol.core.events import Publish
from kcontrol.core.model import PipelinePhase, Status

_STATUS_EVERY_MS = 1000
STATUS_BEAT_MS = 2000
"""The status is said again after so long without news: a coordinator's silence means
that nobody is in charge any more."""


def report(turn: Turn) -> None:
    """Publish the status when it says something new, a new step alone at most every second; and again after a
    while, as a sign of life for whoever looks on.

    Never while a new producer epoch has not been followed by a look at the logs:
    somebody else may be in charge.
    """
    state = turn.state
    may_say = state.at in (*RESTING, State.ADDING, State.ATTEMPTING) or (
        state.at is State.DENIED and state.transaction.looked
    )
    if not may_say:
        return
    status = _status(turn)
    before = state.shown.status
    if before is not None and _news(status) == _news(before):
        due_ms = state.shown.status_ms + (STATUS_BEAT_MS if status.step == before.step else _STATUS_EVERY_MS)
        if state.now_ms < due_ms:
            turn.wake_at(due_ms)
            return
    state.shown = state.shown.saying(status, state.now_ms)
    turn.effects.append(Publish((status,)))


def _news(status: Status) -> tuple[object, ...]:
    return (
        *(status.claim_epoch, status.phase, status.reason, status.acknowledged),
        *(status.checkpoint, status.checkpoint_failure, status.answers, status.inputs_offset),
        *(status.clock_difference_ms, _layout_news(status), status.hold),
        status.balance,
    )


def _layout_news(status: Status) -> tuple[object, ...]:
    """How many bytes are copied is told with the next sign of life."""
    layout = status.layout
    return () if layout is None else (layout.request_id, layout.phase, layout.step, layout.text)


def _status(turn: Turn) -> Status:
    state, last = turn.state, turn.state.view.status()
    phase, reason = PipelinePhase.RUNNING, "" if state.trouble.failure is None else state.trouble.failure.text
    if state.at is State.DENIED:
        phase = PipelinePhase.HALTED
        reason = state.trouble.halt
        if last is not None:
            # Steps may not have been read, nor what users asked for taken note of: all
            # that stays as it was said last.
            return replace(last, claim_epoch=state.tenure.epoch, phase=phase, reason=reason)
    match state.at:
        case State.HALTED:
            phase, reason = PipelinePhase.HALTED, state.trouble.halt
        case State.PAUSED:
            phase, reason = PipelinePhase.PAUSED, ""
        case State.STOPPED:
            phase, reason = PipelinePhase.STOPPED, state.stop.unsaved
        case State.STOPPING:
            reason = stopping_reason(state)
        case _ if not state.nodes.assembled and state.at is not State.DENIED:
            phase, reason = PipelinePhase.STARTING, _missing(turn)
    return Status(
        pipeline=state.pipeline,
        claim_epoch=state.tenure.epoch,
        phase=phase,
        step=state.steps.step,
        reason=reason,
        acknowledged=state.asked.acknowledged,
        checkpoint=state.steps.checkpoint,
        checkpoint_failure=state.checkpointing.failure,
        answers=state.asked.answers,
        inputs_offset=state.asked.inputs_offset,
        clock_difference_ms=state.step_clock.difference_ms,
        layout=state.changing.told,
        hold=state.holding.told,
        balance=state.balancing.text,
    )


def _missing(turn: Turn) -> str:
    """What a pipeline that has not started waits for."""
    state = turn.state
    spec = state.view.spec()
    if spec is None:
        return "waiting for the pipeline's definition"
    outdated = not_submitted_yet(state, spec)
    if outdated:
        return outdated
    limits = turn.limits()
    missing = [
        now.text
        for node in range(spec.nodes)
        if (now := standing(state, node, limits)).place is not Readiness.IN_PLACE
    ]
    parts = ["waiting: " + ", ".join(missing)] if missing else []
    if state.trouble.failure is not None:
        parts.append(state.trouble.failure.text)
    return "; ".join(parts)
