"""What a coordinator looks at between two transactions: the user's wishes, halts, the nodes, the next step.

It is looked at anew after each event, and is a function of what is known now, never of how it came about; so it does not
matter which events were doubled or late.

`LOOK` is all of it, in the order in which it is gone through, once. A guard belongs to the states that it names; where it
holds, its cause leads on, as table.py says, and what comes after it in the list is for the state that was led to. A guard
without a cause holds back: the look ends there. A duty is what is done in a state, and found out for the guards after it.
Those of the states in which no step is to be made are in without_steps.py.
"""

from __future__ import annotations

from kcontrol.core.coordinator import (
    changing,
    checkpointing,
    holding,
    rebalancing,
    stopping,
    told_step,
    without_steps,
)
from kcontrol.core.coordinator.attempt import begin_attempt, make_plan, touched_partitions
from kcontrol.core.coordinator.clock import follow_clock, step_time
from kcontrol.core.coordinator.definition import not_submitted_yet, refused
from kcontrol.core.coordinator.doubts import failed_behind
from kcontrol.core.coordinator.look import Duty, Findings, Guard
from kcontrol.core.coordinator.node_progress import assemble, roll_back, unread, without_beginning
from kcontrol.core.coordinator.parts.arrivals import arrived_ms
from kcontrol.core.coordinator.parts.trouble import TroubleState
from kcontrol.core.coordinator.state import CoordinatorState
from kcontrol.core.coordinator.table import RESTING, TABLE, Cause, State
from kcontrol.core.coordinator.turn import Turn
from kcontrol.core.coordinator.waiting import note_waiting, take_note_of_inputs
from kcontrol.core.events import AddPartitions, CoordinatorEffect, ProveEnd
from kcontrol.core.model import DesiredMode, NodePhase
from kcontrol.core.step.division import gone_input, offsets_in, received_ranges
from kcontrol.core.step.due import due
from kcontrol.core.step.gaps import records_in
from kcontrol.core.step.offsets import arrived
from kcontrol.core.step.skips import skips_due


def rest(turn: Turn) -> None:
    """Go through the list once; may leave the resting states for the next transaction."""
    at, found = turn.state.at, Findings(turn)
    for check in LOOK:
        if at not in check.states:
            continue
        if isinstance(check, Duty):
            check.do(found)
        elif check.holds(found):
            if check.cause is None:
                return
            turn.go(check.cause, None if check.leave is None else check.leave(found))
            at = turn.state.at


# --- what the nodes were told while the last step was being committed ---------------------------------------


def _was_told_in_vain(found: Findings) -> bool:
    state = found.turn.state
    return state.current.told is not None and not told_step.stands(state)


def _was_told(found: Findings) -> bool:
    return told_step.stands(found.turn.state)


def _go_on_as_told(found: Findings) -> CoordinatorEffect:
    """All that a look finds out for a step; the rest of it was nothing when the nodes were told."""
    _note_waiting(found)
    _note_in_place(found)
    state = found.turn.state
    state.current = state.current.begun_as_told(state.now_ms)
    return _open_outputs(found)


# --- whether anything may be decided, and what the user wants -----------------------------------------------


def _is_log_ahead(found: Findings) -> bool:
    found.missing = unread(found.turn.state, found.nodes)
    return found.missing != ""


def _read_again(found: Findings) -> None:
    """Nothing is decided by half of a log. No count: it is over as soon as the brokers agree."""
    turn, state = found.turn, found.turn.state
    text = f"{found.missing}: a broker that was behind has answered; reading again"
    state.trouble = state.trouble.put_off(text, state.now_ms + turn.limits().backoff_ms)


def _is_request_ahead(found: Findings) -> bool:
    """Nothing older than what its asker has read may answer a request."""
    state = found.turn.state
    return _is_unproved(found, checkpointing.unread_by_request(state) or changing.unread_by_change(state))


def _is_refusal_unproved(found: Findings) -> bool:
    """The last step that was read was made by another definition, and need not be the last."""
    state = found.turn.state
    halts = found.spec is not None and not state.trouble.halt
    return _is_unproved(found, refused(state, found.defined) if halts else "")


def _is_unproved(found: Findings, why: str) -> bool:
    """Whether a person is to be told something that rests on what was read, and nothing proves yet that this was
    all."""
    return why != "" and not found.turn.state.transaction.proved


def _prove(found: Findings) -> CoordinatorEffect:
    """Coordinator and node may both have been told of an old end of the log."""
    return ProveEnd(*found.turn.state.transaction.owner())


def _take_resume(found: Findings) -> None:
    """Go on after a halt, with all counters at zero; a broken node is given one more chance."""
    state, resume = found.turn.state, found.turn.state.view.resume()
    if resume is None or resume.request_id in state.asked.acknowledged:
        return
    state.asked = state.asked.acknowledging(resume.request_id)
    state.trouble = TroubleState()
    failed = {
        node: (said.command_epoch, said.command_serial)
        for node in state.view.incarnations
        if (said := state.view.node_state(node)) is not None and said.phase is NodePhase.FAILED
    }
    state.nodes = state.nodes.forgiving(failed)


def _take_note(found: Findings) -> None:
    turn, state, spec = found.turn, found.turn.state, found.spec
    if spec is not None:
        holding.tend(turn)
        take_note_of_inputs(state, spec)
        checkpointing.tend(turn, spec)
        checkpointing.answer_request(turn, spec)
        if not state.trouble.halt:
            _halt_if(state, refused(state, spec))
        changing.tend(turn, spec, found.mode)
    if found.mode is not DesiredMode.STOPPED:
        stopping.forget_stop(state)


def _halt_if(state: CoordinatorState, why: str) -> None:
    """Halt, unless there is no reason to."""
    if why:
        state.trouble = state.trouble.halted(why)


def _is_halted(found: Findings) -> bool:
    return found.turn.state.trouble.halt != "" and found.mode is not DesiredMode.STOPPED


def _is_to_pause(found: Findings) -> bool:
    return found.mode is DesiredMode.PAUSED and not found.turn.state.trouble.halt


def _is_to_stop(found: Findings) -> bool:
    return found.mode is DesiredMode.STOPPED


def _is_to_run(found: Findings) -> bool:
    return found.mode is DesiredMode.RUNNING and not found.turn.state.trouble.halt


def _acknowledge(found: Findings) -> None:
    stopping.acknowledge(found.turn.state)


# --- a checkpoint, and another layout -----------------------------------------------------------------------


def _is_saved(found: Findings) -> bool:
    return found.in_place and checkpointing.can_record(found.turn)


def _switch(found: Findings) -> None:
    changing.switch(found.turn, found.defined)


def _is_recordable(found: Findings) -> bool:
    return _is_saved(found) or (found.in_place and changing.can_record_alone(found.turn, found.defined))


def _is_switching(found: Findings) -> bool:
    return changing.is_switching(found.turn.state)


def _open_log(found: Findings) -> CoordinatorEffect:
    return checkpointing.open_log(found.turn.state)


# --- the next step ------------------------------------------------------------------------------------------


def _is_undefined(found: Findings) -> bool:
    return found.spec is None or not_submitted_yet(found.turn.state, found.spec) != ""


def _is_beginning_missing(found: Findings) -> bool:
    return _is_unproved(found, without_beginning(found.turn.state, found.defined))


def _is_failure_unproved(found: Findings) -> bool:
    return _is_unproved(found, failed_behind(found.turn.state, found.defined))


def _assemble(found: Findings) -> None:
    state, spec = found.turn.state, found.defined
    found.waiting = assemble(found.turn, spec.nodes)
    if found.waiting:
        changing.release(state)
    if not found.waiting and not state.trouble.halt:
        # Only now is it known how far all input reaches: a node that is not in place may not have said it.
        found.gone = gone_input(spec, state.steps, state.view)
        if state.transaction.proved:
            _halt_if(state, found.gone)


def _is_gone_unproved(found: Findings) -> bool:
    """What is gone may have been read in a step that was not seen."""
    return _is_unproved(found, found.gone)


def _must_halt(found: Findings) -> bool:
    return found.turn.state.trouble.halt != ""


def _roll_back(found: Findings) -> None:
    roll_back(found.turn, found.nodes)


def _note_waiting(found: Findings) -> None:
    state, spec = found.turn.state, found.defined
    found.received = received_ranges(spec, state.steps, state.view)
    found.seen = {item.name: arrived(spec, item, state.view) for item in spec.inputs}
    note_waiting(state, found.received, found.seen)
    found.held = holding.held(state, spec, found.received)
    found.received = found.held.ranges


def _is_a_node_awaited(found: Findings) -> bool:
    return len(found.waiting) > 0


def _are_all_in_place(found: Findings) -> bool:
    return not found.waiting


def _note_in_place(found: Findings) -> None:
    state, found.in_place = found.turn.state, True
    state.nodes = state.nodes.whole()
    follow_clock(state, found.defined)


def _balance(found: Findings) -> None:
    rebalancing.tend(found.turn, found.defined)


def _is_timeout_changed(found: Findings) -> bool:
    return found.turn.state.transaction.timeout_ms != found.defined.limits.transaction_timeout_ms


def _is_backing_off(found: Findings) -> bool:
    turn, not_before_ms = found.turn, found.turn.state.trouble.retry.not_before_ms
    if turn.state.now_ms >= not_before_ms:
        return False
    turn.wake_at(not_before_ms)
    return True


def _is_pinning(found: Findings) -> bool:
    return checkpointing.must_pin(found.turn, found.defined)


def _plan(found: Findings) -> None:
    """Make the plan of the next step, if one is due.

    All nodes are in place, so none holds an attempt at another plan of the same step. A plan that failed is
    kept as it is; only a new definition, which every attempt of the old one has made room for, ends it.
    """
    turn, spec = found.turn, found.defined
    state, received, seen = turn.state, found.received, found.seen
    if state.current.plan is not None and state.current.plan.spec == spec:
        return
    last, waiting = state.steps.last, records_in(received, seen)
    state.arrivals = state.arrivals.holding_gaps_alone(not waiting and offsets_in(received) > 0, state.now_ms)
    next_step = due(
        spec.policy,
        waiting=waiting,
        arrived_ms=arrived_ms(state.arrivals, received),
        only_gaps_ms=state.arrivals.only_gaps_ms,
        last_now_ms=state.steps.now_ms,
        watermark_moved=last is not None and last.watermark_moved,
        skips=bool(skips_due(spec, state.steps, state.view)),
        hurries=found.held.hurries,
        settles=found.held.settles,
        now_ms=state.now_ms,
        step_now_ms=step_time(state),
    )
    plan = None if next_step.reason is None else make_plan(state, spec, next_step.reason, received)
    if plan is not state.current.plan:
        state.current = state.current.planned(plan)
    holding.tell(state, stands=found.held.settles and plan is None)
    if next_step.reason is None and next_step.wake_ms is not None:
        turn.wake_at(next_step.wake_ms)


def _is_due(found: Findings) -> bool:
    return found.turn.state.current.plan is not None and found.turn.state.transaction.producer is not None


def _show_early(found: Findings) -> None:
    """Kafka takes no partition before the marker of the last commit lies in all of that: the nodes need not wait for it
    as well. A writer that comes first asks again."""
    turn, state = found.turn, found.turn.state
    if _is_due(found) and state.transaction.followed:
        assert state.current.plan is not None
        begin_attempt(turn, state.current.plan, state.transaction.owner())


def _open_outputs(found: Findings) -> CoordinatorEffect:
    state = found.turn.state
    assert state.current.plan is not None
    return AddPartitions(*state.transaction.owner(), touched_partitions(state, state.current.plan))


# --- the list -----------------------------------------------------------------------------------------------


def _where(cause: Cause) -> tuple[State, ...]:
    """Every resting state that has a row for the cause."""
    return tuple(state for state in RESTING if (state, cause) in TABLE)


_S, _C = State, Cause
_RUNNING = (_S.ASSEMBLING, _S.READY)

LOOK: tuple[Guard | Duty, ...] = (
    # --- whether anything may be decided, and what the user wants
    Guard(
        RESTING,
        "a node has read more of the log of steps than was read here",
        _is_log_ahead,
        _C.LOG_AHEAD,
        _read_again,
    ),
    Guard(
        (_S.ASSEMBLING,),
        "nodes were told of a step, while the last one was committed, that is not to be made so",
        _was_told_in_vain,
        _C.UNTAKEN,
    ),
    Guard(
        (_S.ASSEMBLING,),
        "the step that nodes were told of is to be made",
        _was_told,
        _C.TOLD,
        _go_on_as_told,
    ),
    Guard(
        RESTING,
        "who asks for a checkpoint has read more of the log of steps, and its end is not proved",
        _is_request_ahead,
        _C.UNPROVED,
        _prove,
    ),
    Duty(RESTING, "a request to resume lifts a halt and sets all counts to zero", _take_resume),
    Guard(
        RESTING,
        "by what was read the definition is refused, and the end of the log is not proved",
        _is_refusal_unproved,
        _C.UNPROVED,
        _prove,
    ),
    Duty(
        RESTING,
        "requests about inputs, the checkpoint under way and the definition are looked at",
        _take_note,
    ),
    Guard(_where(_C.HALT), "something halts it, and nobody wants it stopped", _is_halted, _C.HALT),
    Guard(_where(_C.PAUSE), "it is to pause, and nothing halts it", _is_to_pause, _C.PAUSE),
    Guard(_where(_C.STOP), "it is to stop", _is_to_stop, _C.STOP),
    Guard(_where(_C.RUN), "it is to run, and nothing halts it", _is_to_run, _C.RUN),
    Duty((*_RUNNING, _S.PAUSED), "the wish is acknowledged", _acknowledge),
    # --- halted, paused
    Duty(
        (_S.HALTED,),
        "attempts are taken back, and a request for a checkpoint is refused",
        without_steps.stay_halted,
    ),
    Duty(
        (_S.PAUSED,),
        "attempts are taken back; without all nodes a request for a checkpoint is refused",
        without_steps.stay_paused,
    ),
    Guard((_S.PAUSED,), "all nodes have saved the checkpoint", _is_saved, _C.SAVED, _open_log),
    Duty(
        (_S.PAUSED,),
        "a checkpoint is begun if one is due and all nodes are in place",
        without_steps.begin_in_pause,
    ),
    Guard((_S.PAUSED,), "a checkpoint is being saved", without_steps.is_saving, None),
    Duty((_S.PAUSED,), "nodes are told to pause", without_steps.tell_paused),
    # --- stopping
    Duty(
        (_S.STOPPING,),
        "it is seen to whether the last step can be saved before the stop",
        without_steps.save_first,
    ),
    Guard((_S.STOPPING,), "all nodes have saved the last step", _is_saved, _C.SAVED, _open_log),
    Duty((_S.STOPPING,), "its checkpoint is begun once all nodes are in place", without_steps.begin_last),
    Guard((_S.STOPPING,), "the last step can be saved, and is not yet", without_steps.is_last_awaited, None),
    Duty(
        (_S.STOPPING, _S.STOPPED),
        "every node is closed, then its process is ended",
        without_steps.close_nodes,
    ),
    Guard((_S.STOPPED,), "a node has not ended", without_steps.is_any_left, _C.OUT_OF_PLACE),
    Guard((_S.STOPPING,), "all nodes have ended", without_steps.is_none_left, _C.CLOSED),
    Duty(
        (_S.STOPPED,),
        "the wish is acknowledged, and a halt and all counts are forgotten",
        without_steps.stopped,
    ),
    # --- the next step
    Guard(_RUNNING, "there is no definition, or none for the layout", _is_undefined, None),
    Guard(
        _RUNNING,
        "what was read of the log opens no node, and its end is not proved",
        _is_beginning_missing,
        _C.UNPROVED,
        _prove,
    ),
    Guard(
        _RUNNING,
        "a node failed for good while it ran steps again, and the end of the log is not proved",
        _is_failure_unproved,
        _C.UNPROVED,
        _prove,
    ),
    Duty(
        _RUNNING,
        "every node is told what it needs; once all are in place, it is seen to whether input is gone",
        _assemble,
    ),
    Guard(
        _RUNNING,
        "by what was read input is gone, and the end of the log is not proved",
        _is_gone_unproved,
        _C.UNPROVED,
        _prove,
    ),
    Guard(_RUNNING, "a node, or input that is gone, halts it", _must_halt, _C.HALT, _roll_back),
    Duty(_RUNNING, "it is noted since when input waits", _note_waiting),
    Guard((_S.READY,), "a node is not in place", _is_a_node_awaited, _C.OUT_OF_PLACE),
    Guard((_S.ASSEMBLING,), "a node is not in place", _is_a_node_awaited, None),
    Guard((_S.ASSEMBLING,), "all nodes are in place", _are_all_in_place, _C.IN_PLACE),
    Duty((_S.READY,), "it is noted that all are in place, and the clock of steps is set", _note_in_place),
    Duty((_S.READY,), "state that is unevenly divided is asked to be divided anew", _balance),
    Guard((_S.READY,), "the transaction timeout was changed", _is_timeout_changed, _C.LIMITS_CHANGED),
    Guard((_S.READY,), "the back-off after a failure is not over", _is_backing_off, None),
    Duty((_S.READY,), "once all have copied what the new layout gives them, the last step is saved", _switch),
    Guard(
        (_S.READY,),
        "all nodes have saved the checkpoint, or the new layout needs none",
        _is_recordable,
        _C.SAVED,
        _open_log,
    ),
    Guard((_S.READY,), "a checkpoint was due, and not all nodes have pinned it", _is_pinning, None),
    Guard((_S.READY,), "the new layout is not in the log yet", _is_switching, None),
    Duty((_S.READY,), "a step is planned if one is due", _plan),
    Duty(
        (_S.READY,), "under an epoch that a commit has told a planned step is shown to the nodes", _show_early
    ),
    Guard((_S.READY,), "a step is planned", _is_due, _C.DUE, _open_outputs),
)
"""What the resting states look at, in this order."""
