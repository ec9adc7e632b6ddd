"""A node of a pipeline: obeys the newest coordinator, drives its engine, and never gets ahead of the log.

`decide` is a pure function that follows the table in table.py. First the event is handled, then what is known
is looked at: the newest command, and the log, if the node is behind it. What the node says of itself is in
announce.py. Answers of the engine come in the order in which it was asked; those to what was cancelled
meanwhile are counted off.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from kcontrol.core.events import (
    AttemptWritten,
    ControlSeen,
    EngineClosed,
    EngineFailed,
    EngineOpened,
    FinishStep,
    InputArrived,
    Joined,
    NodeEvent,
    PartSaved,
    Publish,
    RunStage,
    RunStep,
    StepFinished,
    StepPinned,
    StepSeen,
    Tick,
)
from kcontrol.core.failures import of_step
from kcontrol.core.log import control_view, steps_view
from kcontrol.core.machine import Look
from kcontrol.core.model import (
    Assignment,
    FailureKind,
    PipelineSpec,
    StepBoundary,
    StepResult,
    StepWork,
)
from kcontrol.core.node.announce import hear_arrivals, report, say_ended, say_replaying, speak
from kcontrol.core.node.checkpoints import all_openable, drop_parts, on_log, on_part_saved, refuse, save
from kcontrol.core.node.commands import closed, done, end, end_if_outdated, obey, open_at, takes_back
from kcontrol.core.node.replay import can_rerun, work_of
from kcontrol.core.node.state import NodeMachine
from kcontrol.core.node.table import AT_WORK, ATTEMPTING, UNANSWERED, UNWRITTEN, NodeCause, NodeStage
from kcontrol.core.node.turn import NodeDecision, NodeTurn
from kcontrol.core.retry import NEVER_RETRIED
from kcontrol.core.step.exchange import ready, runs_for, sent_through, stages_of

__all__ = ["NodeDecision", "NodeMachine", "decide"]

_NO_RESULT = StepResult((), (), (), False)


def decide(state: NodeMachine, event: NodeEvent) -> NodeDecision:
    """What follows from one event. The given state is not changed.

    Raises DamagedRecordError when the log of steps is broken, and LookupError when an event comes in
    a state that it can't come in.
    """
    if state.at is NodeStage.EXITED:
        return NodeDecision(state, ())
    turn = NodeTurn(state.copy(), type(event))
    turn.state.now_ms = now_ms = max(state.now_ms, event.now_ms)
    turn.state.wall_ahead_ms = (
        event.wall_ms - now_ms if isinstance(event, Tick | Joined) else state.wall_ahead_ms
    )
    if state.wake_ms is not None and state.wake_ms <= turn.state.now_ms:
        turn.state.wake_ms = None
    _handle(turn, event)
    if turn.state.at is not NodeStage.JOINING:
        turn.occasion = Look
        if turn.state.ahead_ms < 0:
            obey(turn)
            _pass_over_dropped(turn)
            _go_on(turn)
            _replay(turn)
        elif turn.state.at is not NodeStage.EXITED:
            end_if_outdated(turn)
        speak(turn)
    if turn.records:
        turn.effects.append(Publish(tuple(turn.records)))
    if turn.exit is not None:
        turn.effects.append(turn.exit)
    return NodeDecision(turn.state, tuple(turn.effects))


def _handle(turn: NodeTurn, event: NodeEvent) -> None:
    match event:
        case ControlSeen():
            _on_control(turn, event)
        case Tick():
            pass  # Time alone: what is due is said by `speak`.
        case StepSeen():
            _on_step(turn, event)
        case InputArrived():
            hear_arrivals(turn.state, event)
        case EngineOpened():
            _on_opened(turn, event)
        case AttemptWritten():
            _on_written(turn, event)
        case StepFinished():
            _on_finished(turn, event)
        case StepPinned():
            _on_pinned(turn, event)
        case PartSaved():
            on_part_saved(turn, event)
        case EngineFailed():
            _on_failed(turn, event)
        case EngineClosed():
            _on_closed(turn)
        case Joined():
            _on_joined(turn, event)
        case _:
            assert_never(event)


# --- what the logs say --------------------------------------------------------------------------------------


def _on_control(turn: NodeTurn, event: ControlSeen) -> None:
    state = turn.state
    state.view = control_view.evolve(state.view, event.logged)
    record = event.logged.record
    if state.at is NodeStage.JOINING:
        return
    if isinstance(record, PipelineSpec) and record.pipeline == state.pipeline:
        end_if_outdated(turn)
    if state.at is not NodeStage.EXITED and state.is_replaced:
        end(turn, state.replaced_reason)


def _on_step(turn: NodeTurn, event: StepSeen) -> None:
    state = turn.state
    state.steps = steps_view.evolve(state.steps, event.logged)
    boundary = event.logged.record
    if not isinstance(boundary, StepBoundary):
        if state.at is not NodeStage.JOINING:
            on_log(turn, boundary)
            if isinstance(boundary, Assignment):
                end_if_outdated(turn)
        return
    state.boundaries = state.boundaries.extended(boundary)
    if boundary.reset is not None and ends_with(state):
        end(
            turn,
            f"step {boundary.step} of pipeline {state.pipeline} is a reset to step {boundary.reset.to_step}: node "
            f"{state.node}, which was there before, begins anew",
        )
        return
    if state.at in ATTEMPTING and state.work is not None and boundary.step == state.work.step:
        _on_boundary(turn, boundary, state.work)


def ends_with(state: NodeMachine) -> bool:
    """Whether a reset ends the incarnation: what it holds, and has seen of its inputs, may be of steps that are void."""
    return state.at is not NodeStage.JOINING


def _on_boundary(turn: NodeTurn, boundary: StepBoundary, work: StepWork) -> None:
    """The step that this node attempts is committed: by this attempt, or by another, which
    is then the one that happened."""
    if boundary.token == work.token and turn.state.at is NodeStage.WRITTEN:
        turn.state.seen_ms = turn.state.now_ms
        turn.go(NodeCause.OWN_BOUNDARY, FinishStep(boundary.step, boundary.watermarks))
    else:
        open_at(turn, NodeCause.OTHER_BOUNDARY, turn.state.step, create=turn.state.step == 0)


# --- from stage to stage ------------------------------------------------------------------------------------


def _is_last(state: NodeMachine, stage: int) -> bool:
    spec = state.view.spec()
    return spec is None or stage + 1 >= stages_of(spec)


def _go_on(turn: NodeTurn) -> None:
    """Between two stages: the next one begins on the rows that all nodes have sent to this one, once every life in the token
    is seen to have written the stage before."""
    state, work = turn.state, turn.state.work
    if state.at is not NodeStage.AWAITING or work is None or not ready(state.view, work.token, state.stage):
        return
    received = runs_for(sent_through(state.view, work.token, state.stage), state.node)
    state.stage += 1
    turn.go(NodeCause.PEERS_WROTE, RunStage(work.step, state.stage, received))


# --- behind the log -----------------------------------------------------------------------------------------


def _replay(turn: NodeTurn) -> None:
    """Behind the log and idle: run the next logged step again, writing nothing."""
    state = turn.state
    if state.at is NodeStage.IDLE:
        _pass_over_void(state)
    if state.at is not NodeStage.IDLE or state.step >= state.steps.step:
        return
    boundary = state.boundaries.get(state.step + 1)
    if boundary is None:
        _without_boundary(turn)
        return
    spec = state.view.spec()
    if spec is None:
        return
    if not can_rerun(boundary, spec, state.steps):
        # Said although it can't be done: a coordinator that has not read this step told the node to begin
        # before it.
        say_replaying(turn, boundary.step)
        made = f"step {boundary.step} was made by {boundary.nodes} nodes, not {spec.nodes}"
        if boundary.nodes == spec.nodes:
            made = f"step {boundary.step} was made before or after the layout was changed"
        end(turn, f"{made}: node {state.node} runs by a definition that was changed since; start it again")
        return
    if takes_back(turn, None):
        return
    state.work = work_of(boundary, spec, state.node)
    turn.go(NodeCause.BEHIND, RunStep(state.work, boundary))
    say_replaying(turn, boundary.step)


def _pass_over_void(state: NodeMachine) -> None:
    """A reset holds what the step does that it goes back to: to run it again is to count on."""
    while (reset := state.steps.reset_after(state.step)) is not None:
        state.go_back(reset)


def _pass_over_dropped(turn: NodeTurn) -> None:
    """The step that it could not run again is needed by nobody any more: a checkpoint has taken its place, and what was
    exchanged in it was deleted for that. The node was opened by an old end of the log, and can be opened anew."""
    state, checkpoints = turn.state, turn.state.steps.checkpoints
    if state.at is NodeStage.FAILED and checkpoints and 0 < state.gone_step < checkpoints[-1].first_step:
        turn.go(NodeCause.DROPPED)


def _without_boundary(turn: NodeTurn) -> None:
    state = turn.state
    if state.steps.can_replay_after(state.step):
        # This process has forgotten it, or began to read behind it.
        end(
            turn,
            f"node {state.node} must read the log of pipeline {state.pipeline} again to replay step "
            f"{state.step + 1}",
        )
        return
    state.error = (
        f"step {state.step + 1} is no longer in the log of pipeline {state.pipeline}, so it can't be replayed"
    )
    state.gone_step = 0
    turn.go(NodeCause.BROKEN)


# --- what the engine answers --------------------------------------------------------------------------------


def _overdue(state: NodeMachine) -> bool:
    """Whether this answer is to something that was cancelled."""
    if not state.overdue_answers:
        return False
    state.overdue_answers -= 1
    return True


def _on_joined(turn: NodeTurn, event: Joined) -> None:
    state = turn.state
    state.incarnation = event.incarnation
    spec = state.view.spec()
    state.fingerprint, state.assignment = ("", 0) if spec is None else (spec.fingerprint, spec.assignment)
    turn.go(NodeCause.JOINED)
    state.unreadable = frozenset(one.step for one in state.steps.checkpoints).difference(event.restorable)
    _now_openable(state, event.openable)
    drop_parts(turn)
    if state.is_replaced:
        end(turn, state.replaced_reason)
    else:
        end_if_outdated(turn)


def _now_openable(state: NodeMachine, openable: tuple[int, ...]) -> None:
    state.openable = openable
    reachable = all_openable(state)
    if reachable:
        oldest = min(reachable)
        state.boundaries = state.boundaries.without(oldest)


def _on_opened(turn: NodeTurn, event: EngineOpened) -> None:
    """Answers come in order, so whatever was cancelled before this opening can't answer any more."""
    state = turn.state
    if state.at is NodeStage.OPENING and _overdue(state):
        return
    state.overdue_answers = 0
    if state.at is not NodeStage.OPENING or event.step != state.step:
        return
    turn.go(NodeCause.OPENED)
    state.error = ""
    if state.step > 0 and state.step not in state.openable:
        state.openable = (state.step, *state.openable)
    if state.obeying is not None:
        done(state, state.obeying)


def _on_written(turn: NodeTurn, event: AttemptWritten) -> None:
    state, work = turn.state, turn.state.work
    if _overdue(state) or work is None:
        return
    if state.at is NodeStage.REPLAYING:
        boundary = state.boundaries.get(work.step)
        watermarks = () if boundary is None else boundary.watermarks
        turn.go(NodeCause.AGREED, FinishStep(work.step, watermarks))
        state.seen_ms = 0
    elif state.at in UNWRITTEN:
        _on_stage(turn, event, work)


def _on_stage(turn: NodeTurn, event: AttemptWritten, work: StepWork) -> None:
    state, result = turn.state, event.result
    last = _is_last(state, state.stage)
    turn.go(NodeCause.WROTE if last else NodeCause.STAGE_WROTE)
    if not state.stage:
        say_ended(turn, result)
    if not last:
        result = replace(_NO_RESULT, sent=result.sent)
    turn.records.append(report(state, work, result, None, "", state.stage, not last))


def _on_finished(turn: NodeTurn, event: StepFinished) -> None:
    state = turn.state
    if _overdue(state) or state.at is not NodeStage.FINISHING:
        return
    turn.go(NodeCause.FINISHED)
    state.work = None
    state.go_on(event.step)
    _now_openable(state, event.openable)


def _on_pinned(turn: NodeTurn, event: StepPinned) -> None:
    state, command = turn.state, turn.state.obeying
    if _overdue(state) or state.at is not NodeStage.PINNING or command is None:
        return
    turn.go(NodeCause.PINNED)
    done(state, command)
    if event.error:
        refuse(turn, command, event.error)
    else:
        save(turn, command)


def _on_failed(turn: NodeTurn, event: EngineFailed) -> None:
    """The queries are down. An attempt that was already written needs them no more, so its report stands."""
    state = turn.state
    if state.at in UNANSWERED and _overdue(state):
        return
    if state.at is NodeStage.CLOSING:
        closed(turn, event.error)
        return
    if state.at not in (NodeStage.OPENING, *AT_WORK):
        return
    if state.at in UNWRITTEN and state.work is not None:
        # Between two stages it is the next one that fails: the report of the one before stands.
        stage = state.stage + (state.at is NodeStage.AWAITING)
        early = not _is_last(state, stage)
        turn.records.append(report(state, state.work, _NO_RESULT, event.kind, event.error, stage, early))
    if state.at is NodeStage.PINNING and state.obeying is not None:
        refuse(turn, state.obeying, event.error)
    gone = state.at is NodeStage.REPLAYING and event.kind is FailureKind.INPUT_GONE
    state.gone_step = state.work.step if gone and state.work is not None else 0
    state.error = of_step(state.work.step, event.error) if state.work is not None else event.error
    state.work = state.ready_for = None
    if event.openable is not None:
        _now_openable(state, event.openable)
    if state.obeying is not None:
        done(state, state.obeying)
    turn.go(NodeCause.BROKEN if event.kind in NEVER_RETRIED else NodeCause.FAILED)


def _on_closed(turn: NodeTurn) -> None:
    turn.state.overdue_answers = 0
    if turn.state.at is NodeStage.CLOSING:
        closed(turn, "")
