"""What a node does when it is told to: open, step, save, close, end; and when it may be interrupted for
that."""

from __future__ import annotations

from typing import assert_never

from kcontrol.core.events import CancelAttempt, CloseEngine, Exit, MakeReady, PinStep, RunStep
from kcontrol.core.model import Command, CommandKind, StepWork
from kcontrol.core.node.announce import say_replaying, speak
from kcontrol.core.node.checkpoints import opening, refuse
from kcontrol.core.node.state import SHUT_DOWN, NodeMachine
from kcontrol.core.node.table import AT_WORK, CANCELLED, UNANSWERED, NodeCause, NodeStage
from kcontrol.core.node.turn import NodeTurn


def obey(turn: NodeTurn) -> None:
    """Carry out the newest command of the newest claim, if it is meant for this incarnation
    and was not carried out before."""
    state = turn.state
    command = state.view.command(state.node)
    if command is None or command.incarnation != state.incarnation or state.at is NodeStage.EXITED:
        return
    if (command.claim_epoch, command.serial) <= state.done or command == state.obeying:
        return
    if state.at in (NodeStage.OPENING, NodeStage.CLOSING) and not _interrupts(state, command):
        return
    match command.kind:
        case CommandKind.CREATE | CommandKind.OPEN if state.steps.void_by(command.step) is not None:
            _refuse_void(turn, command)
        case CommandKind.CREATE | CommandKind.OPEN:
            state.obeying = command
            open_at(turn, NodeCause.OPEN, command.step, create=command.kind is CommandKind.CREATE)
        case CommandKind.STEP:
            _step(turn, command)
        case CommandKind.SHUTDOWN if state.at is NodeStage.CLOSING:
            # It was told twice, or does not close: there is nothing that must be waited for.
            done(state, command)
            end(turn, SHUT_DOWN)
        case CommandKind.STOP if _goes_on(state, command):
            pass
        case CommandKind.STOP | CommandKind.SHUTDOWN:
            state.obeying = command
            _close(turn)
        case CommandKind.CHECKPOINT:
            _pin(turn, command)
        case CommandKind.PAUSE:
            if state.at not in UNANSWERED:
                done(state, command)
        case _:
            assert_never(command.kind)


def _interrupts(state: NodeMachine, command: Command) -> bool:
    """Whether it is heard although the engine is opening or closing, which may take long, or for ever."""
    if command.kind is CommandKind.SHUTDOWN:
        return True
    opens = command.kind in (CommandKind.CREATE, CommandKind.OPEN, CommandKind.STOP)
    return opens and state.at is NodeStage.OPENING


def _goes_on(state: NodeMachine, command: Command) -> bool:
    """Whether the step to stop at is still to come, by replaying it or as its own
    attempt; the command waits for that."""
    return state.at in (NodeStage.OPENING, *AT_WORK) and state.step < command.step


def done(state: NodeMachine, command: Command) -> None:
    """It is carried out: the next `NodeState` says so."""
    state.done = (command.claim_epoch, command.serial)
    state.obeying = None


def _refuse_void(turn: NodeTurn, command: Command) -> None:
    """Whoever asks has not read the reset. That this node has is said, so that he reads again before anything else."""
    state = turn.state
    reset = state.steps.void_by(command.step)
    assert reset is not None
    say_replaying(turn, reset)
    done(state, command)
    state.error = f"step {command.step} is void since step {reset}, and is not opened"


def open_at(turn: NodeTurn, cause: NodeCause, step: int, create: bool) -> None:
    """Give up what runs, and have the engine open `step`, the last one that it is to hold complete; for a reset that whose
    state it has."""
    step = turn.state.steps.made_by(step)
    _cancel(turn)
    turn.go(cause, opening(turn.state, step, create))
    turn.state.go_back(step)
    turn.state.openable = () if create else tuple(one for one in turn.state.openable if one <= step)


def _cancel(turn: NodeTurn) -> None:
    """Nothing of what runs may be written or recorded any more; its answer, if one is
    owed, will come and mean nothing."""
    state = turn.state
    if state.at in CANCELLED:
        turn.effects.append(CancelAttempt())
    if state.at in UNANSWERED:
        state.overdue_answers += 1
    state.work = state.ready_for = None


def _close(turn: NodeTurn) -> None:
    if turn.state.at in (NodeStage.OPENING, *AT_WORK):
        _cancel(turn)
        turn.go(NodeCause.CLOSE, CloseEngine())
    else:
        closed(turn, turn.state.error)


def closed(turn: NodeTurn, error: str) -> None:
    """The queries have stopped: acknowledge, and end the process if that was asked for."""
    state = turn.state
    command = state.obeying
    turn.go(NodeCause.CLOSED)
    state.error = error
    if command is not None:
        done(state, command)
        if command.kind is CommandKind.SHUTDOWN:
            end(turn, SHUT_DOWN)


def end(turn: NodeTurn, reason: str, *, relaid: bool = False) -> None:
    """This incarnation is over. reason: for people. relaid: the layout was changed, and the process goes on by that."""
    state = turn.state
    speak(turn)
    if state.at in AT_WORK:
        _cancel(turn)
    state.error = reason
    replaced = state.is_replaced
    turn.go(NodeCause.EXIT, Exit(reason, replaced, reason == SHUT_DOWN, relaid and not replaced))


def end_if_outdated(turn: NodeTurn) -> None:
    """Another definition, or another layout while the pipeline runs, has taken the place of what this incarnation goes by: no
    step by that follows any more, and no command that comes is meant for it.

    The two come from two logs. A definition by a change that was not read yet says nothing of how to go on; the record lies
    before it and will come, and says that.
    """
    state = turn.state
    spec, made = state.view.spec(), state.steps.assignment
    number = 0 if made is None else made.number
    if spec is None:
        return
    if made is not None and made.live and number > state.assignment:
        end(
            turn,
            f"the layout of pipeline {state.pipeline} was changed after step {made.step}: there are {made.nodes} nodes since",
            relaid=True,
        )
    elif spec.fingerprint == state.fingerprint:
        state.ahead_ms = -1
    elif spec.assignment <= number:
        end(
            turn,
            f"the definition of pipeline {state.pipeline} was changed, to nodes = {spec.nodes} and "
            f"fingerprint {spec.fingerprint}, while node {state.node} ran by {state.fingerprint}: start "
            "the node again",
        )
    elif state.ahead_ms < 0:
        state.ahead_ms = state.now_ms
    elif state.now_ms - state.ahead_ms >= spec.limits.open_timeout_ms:
        end(
            turn,
            f"the definition of pipeline {state.pipeline} is one by change {spec.assignment} of its layout, which node "
            f"{state.node} has not read in the log of steps within {spec.limits.open_timeout_ms} ms: start the node again",
        )


def _step(turn: NodeTurn, command: Command) -> None:
    """Begin an attempt: only at the end of the log, and only at the step that follows what the engine
    holds."""
    state, work = turn.state, command.work
    if work is None:
        return
    if state.at is NodeStage.WRITTEN and state.work is not None and work.step == state.work.step + 1:
        _make_ready(turn, command, work)
        return
    if state.at is not NodeStage.IDLE or not work.step == state.step + 1 == state.steps.step + 1:
        return
    if takes_back(turn, work):
        return
    done(state, command)
    state.work, state.stage = work, 0
    state.begun_ms = state.now_ms if state.ready_for is None else state.ready_ms
    state.ready_for = None
    turn.go(NodeCause.STEP, RunStep(work, None))


def takes_back(turn: NodeTurn, work: StepWork | None) -> bool:
    """Whether the engine was made ready for something else than this, and may be at work for it: it is opened anew."""
    state = turn.state
    if state.ready_for is None or state.ready_for.work == work:
        return False
    open_at(turn, NodeCause.OPEN, state.step, create=state.step == 0)
    return True


def _make_ready(turn: NodeTurn, command: Command, work: StepWork) -> None:
    """The step after the one that this node has written: what need not wait for that to be committed can be done by then."""
    state = turn.state
    if state.ready_for is None:
        state.ready_for, state.ready_ms = command, state.now_ms
        turn.effects.append(MakeReady(work))


def _pin(turn: NodeTurn, command: Command) -> None:
    """Between two steps, and at exactly the step that is asked for; later steps wait until it is done."""
    state = turn.state
    if state.at in UNANSWERED:
        return
    if state.at is NodeStage.IDLE and state.step == command.step:
        state.obeying = command
        turn.go(NodeCause.PIN, PinStep(command.step))
        return
    done(state, command)
    refuse(turn, command, f"it was {state.at} at step {state.step} when asked to save step {command.step}")
