"""A node of a pipeline: obeys the newest coordinator, drives its engine, and never gets ahead of the log.

`decide` is a pure function that follows the table of node_table.py. What the node says of itself is in node_voice.py.
Answers of the engine come in the order in which it was asked; those to what was cancelled meanwhile are counted off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kcontrol.core import pipeline_view, steps_view
from kcontrol.core.events import (
    AttemptWritten,
    CancelAttempt,
    CloseEngine,
    ControlSeen,
    EngineClosed,
    EngineFailed,
    EngineOpened,
    Exit,
    FinishStep,
    InputArrived,
    Joined,
    NodeEvent,
    PartSaved,
    PinStep,
    Publish,
    RunStep,
    StepFinished,
    StepPinned,
    StepSeen,
    Tick,
)
from kcontrol.core.model import (
    Command,
    CommandKind,
    PipelineSpec,
    StepBoundary,
    StepResult,
    StepWork,
)
from kcontrol.core.node_checkpoints import all_openable, drop_parts, on_log, on_part_saved, opening, refuse, save
from kcontrol.core.node_state import SHUT_DOWN, NodeDecision, NodeMachine, NodeTurn
from kcontrol.core.node_table import AT_WORK, TABLE, UNANSWERED, Cause, State
from kcontrol.core.node_voice import hear_arrivals, report, say_ended, say_replaying, speak
from kcontrol.core.recorded_work import can_rerun, work_of
from kcontrol.core.retry import NEVER_RETRIED

__all__ = ["NodeDecision", "NodeMachine", "decide"]

_NO_RESULT = StepResult((), (), (), False)


def decide(state: NodeMachine, event: NodeEvent) -> NodeDecision:
    """What follows from one event. The given state is not changed.

    Raises DamagedRecordError when the log of steps is broken, and LookupError when an event comes in a state that it can't
    come in.
    """
    if state.at is State.EXITED:
        return NodeDecision(state, ())
    turn = NodeTurn(state.copy())
    turn.state.now_ms = now_ms = max(state.now_ms, event.now_ms)
    turn.state.wall_ahead_ms = event.wall_ms - now_ms if isinstance(event, Tick | Joined) else state.wall_ahead_ms
    if state.wake_ms is not None and state.wake_ms <= turn.state.now_ms:
        turn.state.wake_ms = None
    _HANDLERS[type(event)](turn, event)
    if turn.state.at is not State.JOINING:
        _obey(turn)
        _replay(turn)
        speak(turn)
    if turn.records:
        turn.effects.append(Publish(tuple(turn.records)))
    if turn.state.at is State.EXITED:
        replaced = turn.state.view.lives.get(turn.state.node, -1) > turn.state.incarnation
        turn.effects.append(Exit(turn.state.error, replaced, turn.state.error == SHUT_DOWN))
    return NodeDecision(turn.state, tuple(turn.effects))


def _go(turn: NodeTurn, cause: Cause) -> None:
    turn.state.at = TABLE[turn.state.at, cause]


# --- what the logs say ------------------------------------------------------------------------------------------------


def _on_control(turn: NodeTurn, event: ControlSeen) -> None:
    state = turn.state
    state.view = pipeline_view.evolve(state.view, event.logged)
    record = event.logged.record
    if state.at is State.JOINING:
        return
    if isinstance(record, PipelineSpec) and record.pipeline == state.pipeline and record.fingerprint != state.fingerprint:
        # Its queries, and which partitions it reads, are those of the old one; no command that follows is meant for them.
        _exit(
            turn,
            f"the definition of pipeline {state.pipeline} was changed, to nodes = {record.nodes} and fingerprint "
            f"{record.fingerprint}, while node {state.node} ran by {state.fingerprint}: start the node again",
        )
    elif state.view.lives.get(state.node, -1) > state.incarnation:
        _exit(turn, f"node {state.node} of pipeline {state.pipeline} runs elsewhere since: this process was replaced")


def _on_step(turn: NodeTurn, event: StepSeen) -> None:
    state = turn.state
    state.steps = steps_view.evolve(state.steps, event.logged)
    boundary = event.logged.record
    if not isinstance(boundary, StepBoundary):
        if state.at is not State.JOINING:
            on_log(turn, boundary)
        return
    state.boundaries = state.boundaries.extended(boundary)
    if state.at in (State.WRITING, State.WRITTEN) and state.work is not None and boundary.step == state.work.step:
        _on_boundary(turn, boundary, state.work)


def _on_boundary(turn: NodeTurn, boundary: StepBoundary, work: StepWork) -> None:
    """The step that this node attempts is committed: by this attempt, or by another, which is then the one that happened."""
    if boundary.token == work.token and turn.state.at is State.WRITTEN:
        _go(turn, Cause.OWN_BOUNDARY)
        turn.state.seen_ms = turn.state.now_ms
        turn.effects.append(FinishStep(boundary.step))
    else:
        _open(turn, Cause.OTHER_BOUNDARY, turn.state.step, create=turn.state.step == 0)


# --- commands -----------------------------------------------------------------------------------------------------------


def _obey(turn: NodeTurn) -> None:
    """Carry out the newest command of the newest claim, if it is meant for this life and was not carried out before."""
    state = turn.state
    command = state.view.command(state.node)
    if command is None or command.incarnation != state.incarnation or state.at in (State.OPENING, State.CLOSING, State.EXITED):
        return
    if (command.claim_epoch, command.serial) <= state.done:
        return
    match command.kind:
        case CommandKind.CREATE | CommandKind.OPEN:
            state.obeying = command
            _open(turn, Cause.OPEN, command.step, create=command.kind is CommandKind.CREATE)
        case CommandKind.STEP:
            _step(turn, command)
        case CommandKind.STOP | CommandKind.SHUTDOWN:
            state.obeying = command
            _close(turn)
        case CommandKind.CHECKPOINT:
            _pin(turn, command)
        case CommandKind.PAUSE:
            if state.at not in UNANSWERED:
                _done(state, command)


def _done(state: NodeMachine, command: Command) -> None:
    state.done = (command.claim_epoch, command.serial)
    state.obeying = None


def _open(turn: NodeTurn, cause: Cause, step: int, create: bool) -> None:
    _cancel(turn)
    _go(turn, cause)
    turn.state.go_back(step)
    turn.state.openable = () if create else tuple(one for one in turn.state.openable if one <= step)
    turn.effects.append(opening(turn.state, step, create))


def _cancel(turn: NodeTurn) -> None:
    """Nothing of what runs may be written or recorded any more; its answer, if one is owed, will come and mean nothing."""
    state = turn.state
    if state.at in (State.REPLAYING, State.WRITING, State.WRITTEN, State.FINISHING):
        turn.effects.append(CancelAttempt())
    if state.at in UNANSWERED:
        state.overdue_answers += 1
    state.work = None


def _close(turn: NodeTurn) -> None:
    if turn.state.at in AT_WORK:
        _cancel(turn)
        _go(turn, Cause.CLOSE)
        turn.effects.append(CloseEngine())
    else:
        _closed(turn, turn.state.error)


def _closed(turn: NodeTurn, error: str) -> None:
    """The queries have stopped: acknowledge, and end the process if that was asked for."""
    state = turn.state
    command = state.obeying
    _go(turn, Cause.CLOSED)
    state.error = error
    if command is not None:
        _done(state, command)
        if command.kind is CommandKind.SHUTDOWN:
            _exit(turn, SHUT_DOWN)


def _exit(turn: NodeTurn, reason: str) -> None:
    speak(turn)
    if turn.state.at in AT_WORK:
        _cancel(turn)
    turn.state.error = reason
    _go(turn, Cause.EXIT)


def _step(turn: NodeTurn, command: Command) -> None:
    """Begin an attempt: only at the end of the log, and only at the step that follows what the engine holds."""
    state, work = turn.state, command.work
    if state.at is not State.IDLE or work is None or not work.step == state.step + 1 == state.steps.step + 1:
        return
    _done(state, command)
    state.work, state.begun_ms = work, state.now_ms
    _go(turn, Cause.STEP)
    turn.effects.append(RunStep(work, None))


def _pin(turn: NodeTurn, command: Command) -> None:
    """Between two steps, and at exactly the step that is asked for; later steps wait until it is done."""
    state = turn.state
    if state.at in UNANSWERED:
        return
    if state.at is State.IDLE and state.step == command.step:
        state.obeying = command
        _go(turn, Cause.PIN)
        turn.effects.append(PinStep(command.step))
        return
    _done(state, command)
    refuse(turn, command, f"it was {state.at} at step {state.step} when asked to save step {command.step}")


def _replay(turn: NodeTurn) -> None:
    """Behind the log and idle: run the next logged step again, writing nothing."""
    state = turn.state
    if state.at is not State.IDLE or state.step >= state.steps.step:
        return
    boundary = state.boundaries.get(state.step + 1)
    if boundary is None:
        _without_boundary(turn)
        return
    spec = state.view.spec()
    if spec is None:
        return
    if not can_rerun(boundary, spec.nodes):
        # Said although it can't be done: a coordinator that has not read this step told the node to begin before it.
        say_replaying(turn, boundary.step)
        made = f"step {boundary.step} was made by {boundary.nodes} nodes, not {spec.nodes}"
        _exit(turn, f"{made}: node {state.node} runs by a definition that was changed since; start it again")
        return
    state.work = work_of(boundary, spec, state.node)
    _go(turn, Cause.BEHIND)
    say_replaying(turn, boundary.step)
    turn.effects.append(RunStep(state.work, boundary))


def _without_boundary(turn: NodeTurn) -> None:
    state = turn.state
    if state.steps.can_replay_after(state.step):
        # This process has forgotten it, or began to read behind it.
        _exit(turn, f"node {state.node} must read the log of pipeline {state.pipeline} again to replay step {state.step + 1}")
        return
    state.error = f"step {state.step + 1} is no longer in the log of pipeline {state.pipeline}, so it can't be replayed"
    _go(turn, Cause.BROKEN)


# --- what the engine answers --------------------------------------------------------------------------------------------


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
    state.fingerprint = "" if spec is None else spec.fingerprint
    _go(turn, Cause.JOINED)
    state.unreadable = frozenset(one.step for one in state.steps.checkpoints).difference(event.restorable)
    _now_openable(state, event.openable)
    drop_parts(turn)
    if state.view.lives.get(state.node, -1) > state.incarnation:
        _exit(turn, f"node {state.node} of pipeline {state.pipeline} runs elsewhere since: this process was replaced")


def _now_openable(state: NodeMachine, openable: tuple[int, ...]) -> None:
    state.openable = openable
    reachable = all_openable(state)
    if reachable:
        oldest = min(reachable)
        state.boundaries = state.boundaries.without(oldest)


def _on_opened(turn: NodeTurn, event: EngineOpened) -> None:
    """Answers come in order, so whatever was cancelled before this opening can't answer any more."""
    state = turn.state
    state.overdue_answers = 0
    if state.at is not State.OPENING or event.step != state.step:
        return
    _go(turn, Cause.OPENED)
    state.error = ""
    if state.step > 0 and state.step not in state.openable:
        state.openable = (state.step, *state.openable)
    if state.obeying is not None:
        _done(state, state.obeying)


def _on_written(turn: NodeTurn, event: AttemptWritten) -> None:
    state, work = turn.state, turn.state.work
    if _overdue(state) or work is None:
        return
    if state.at is State.REPLAYING:
        _go(turn, Cause.AGREED)
        state.seen_ms = 0
        turn.effects.append(FinishStep(work.step))
    elif state.at is State.WRITING:
        _go(turn, Cause.WROTE)
        say_ended(turn, event.result)
        turn.records.append(report(state, work, event.result, None, ""))


def _on_finished(turn: NodeTurn, event: StepFinished) -> None:
    state = turn.state
    if _overdue(state) or state.at is not State.FINISHING:
        return
    _go(turn, Cause.FINISHED)
    state.work = None
    state.go_on(event.step)
    _now_openable(state, event.openable)


def _on_pinned(turn: NodeTurn, event: StepPinned) -> None:
    state, command = turn.state, turn.state.obeying
    if _overdue(state) or state.at is not State.PINNING or command is None:
        return
    _go(turn, Cause.PINNED)
    _done(state, command)
    if event.error:
        refuse(turn, command, event.error)
    else:
        save(turn, command)


def _on_failed(turn: NodeTurn, event: EngineFailed) -> None:
    """The queries are down. An attempt that was already written needs them no more, so its report stands."""
    state = turn.state
    if state.at in UNANSWERED and _overdue(state):
        return
    if state.at is State.CLOSING:
        _closed(turn, event.error)
        return
    if state.at not in (State.OPENING, *AT_WORK):
        return
    if state.at is State.WRITING and state.work is not None:
        turn.records.append(report(state, state.work, _NO_RESULT, event.kind, event.error))
    if state.at is State.PINNING and state.obeying is not None:
        refuse(turn, state.obeying, event.error)
    what = f"step {state.work.step}: " if state.work is not None else ""
    state.error = f"{what}{event.error}"
    state.work = None
    if event.openable is not None:
        _now_openable(state, event.openable)
    if state.obeying is not None:
        _done(state, state.obeying)
    _go(turn, Cause.BROKEN if event.kind in NEVER_RETRIED else Cause.FAILED)


def _on_closed(turn: NodeTurn, _event: EngineClosed) -> None:
    turn.state.overdue_answers = 0
    if turn.state.at is State.CLOSING:
        _closed(turn, "")


def _on_tick(_turn: NodeTurn, _event: Tick) -> None:
    """Time alone: what is due is said by `speak`."""


def _on_input(turn: NodeTurn, event: InputArrived) -> None:
    hear_arrivals(turn.state, event)


_HANDLERS: dict[type, Callable[[NodeTurn, Any], None]] = {
    Tick: _on_tick,
    ControlSeen: _on_control,
    StepSeen: _on_step,
    Joined: _on_joined,
    InputArrived: _on_input,
    EngineOpened: _on_opened,
    AttemptWritten: _on_written,
    StepFinished: _on_finished,
    StepPinned: _on_pinned,
    PartSaved: on_part_saved,
    EngineFailed: _on_failed,
    EngineClosed: _on_closed,
}
