"""The coordinator of one pipeline: events in, effects out.

`decide` is a pure function. It follows the table in table.py: a handler says only why the coordinator moves
on (`turn.go`), the table says where to, and what that state begins with. What is looked at between two
transactions is a list in between_steps.py; what nodes and attempts need is in node_progress.py and
attempt.py.
"""

from __future__ import annotations

from typing import assert_never

from kcontrol.core.coordinator import changing, checkpointing
from kcontrol.core.coordinator.attempt import begin_attempt, boundary_of, ends_ms, trouble, written_by
from kcontrol.core.coordinator.between_steps import rest
from kcontrol.core.coordinator.node_progress import count_failure
from kcontrol.core.coordinator.parts.arrivals import Arrivals
from kcontrol.core.coordinator.parts.stop import NO_STOP
from kcontrol.core.coordinator.parts.trouble import Failure
from kcontrol.core.coordinator.standing import all_take_steps, wake_before_silence
from kcontrol.core.coordinator.state import CoordinatorState
from kcontrol.core.coordinator.status import report
from kcontrol.core.coordinator.table import ANSWERS, RESTING, UNANSWERED, Cause, State
from kcontrol.core.coordinator.takeover import refuse_doubles, take_over
from kcontrol.core.coordinator.telling import LOOKING_ON, tell_next
from kcontrol.core.coordinator.turn import Decision, Turn
from kcontrol.core.coordinator.waiting import hear_received
from kcontrol.core.events import (
    Assigned,
    CheckpointCommitted,
    CommitCheckpoint,
    CommitStep,
    ControlSeen,
    CoordinatorEvent,
    EndProved,
    EndsReached,
    Following,
    PartitionsAdded,
    ProducerReady,
    Resign,
    StepCommitted,
    StepSeen,
    Tick,
    TransactionFailed,
)
from kcontrol.core.failures import of_step
from kcontrol.core.log import control_view, steps_view
from kcontrol.core.log.keys import claim_key
from kcontrol.core.machine import Look
from kcontrol.core.model import (
    Checkpoint,
    Claim,
    Command,
    Desired,
    FailureKind,
    LayoutReady,
    Logged,
    LoggedStep,
    NodeJoin,
    NodeState,
    PipelineSpec,
    Received,
    Replaying,
    Resume,
    Status,
    StepBoundary,
    Tombstone,
)

__all__ = ["CoordinatorState", "Decision", "decide"]

_WRITING = (State.PROVING, State.COMMITTING, State.RECORDING)
"""What is asked for there ends up in the log of steps."""


def decide(state: CoordinatorState, event: CoordinatorEvent) -> Decision:
    """What follows from one event. The given state is not changed.

    Raises DamagedRecordError when the log of steps is broken, and LookupError when an event comes in a state
    that it can't come in: then shell and core disagree, and going on would be a guess.
    """
    turn = Turn(state.copy(), type(event))
    turn.pass_time(event)
    if isinstance(event, ANSWERS) and turn.state.tenure.overdue_answers:
        _pass_over(turn)
    else:
        _handle(turn, event)
    if turn.state.at in RESTING and not _is_mere_echo(turn.state, event):
        turn.occasion = Look
        rest(turn)
    report(turn)
    return Decision(turn.state, tuple(turn.effects))


def _handle(turn: Turn, event: CoordinatorEvent) -> None:
    match event:
        case ControlSeen():
            _on_control(turn, event)
        case Tick():
            _on_tick(turn)
        case StepSeen():
            _on_step(turn, event)
        case ProducerReady():
            _on_producer_ready(turn, event)
        case EndsReached():
            _on_ends(turn, event)
        case PartitionsAdded():
            _on_partitions_added(turn)
        case StepCommitted() | CheckpointCommitted():
            _on_committed(turn, event)
        case EndProved():
            turn.state.transaction = turn.state.transaction.acknowledged()
            turn.go(Cause.PROVED)
        case TransactionFailed():
            _on_transaction_failed(turn, event)
        case Assigned():
            _on_assigned(turn, event)
        case _:
            assert_never(event)


def _is_mere_echo(state: CoordinatorState, event: CoordinatorEvent) -> bool:
    """Whether it is a record that no decision between two transactions depends on."""
    record = event.logged.record if isinstance(event, ControlSeen) else None
    return isinstance(record, Command | Status) or (
        isinstance(record, Replaying) and record.step <= state.steps.step
    )


def _pass_over(turn: Turn) -> None:
    """An answer to what an earlier tenure asked for; the new one has waited for it
    before it asks for anything itself."""
    state = turn.state
    state.tenure = state.tenure.answered_late()
    if state.at is State.CLAIMING and state.tenure.epoch >= 0:
        turn.go(Cause.CLAIM_SEEN)


# --- what the logs say --------------------------------------------------------------------------------------


def _on_control(turn: Turn, event: ControlSeen) -> None:
    state, before = turn.state, turn.state.view.spec()
    logged = event.logged
    state.view = control_view.evolve(state.view, logged)
    record = logged.record
    if isinstance(record, Claim) and record.pipeline == state.pipeline:
        _on_claim(turn, record, logged.offset)
    elif isinstance(record, Tombstone):
        _on_forgotten(turn, record)
    elif isinstance(record, PipelineSpec) and record.pipeline == state.pipeline:
        # It may be for a layout that was changed while this coordinator rested, by whoever has fenced it for that.
        state.transaction = state.transaction.overtaken(writing=state.at in _WRITING)
        if before is not None and before.fingerprint != record.fingerprint:
            state.nodes = state.nodes.outdated_below(logged.offset)
    elif isinstance(record, NodeState | NodeJoin) and record.pipeline == state.pipeline:
        if isinstance(record, NodeJoin):
            # It may have read a reset that was made while this coordinator rested.
            state.transaction = state.transaction.overtaken(writing=state.at in _WRITING)
        _on_sign_of_life(turn, record, logged)
    elif isinstance(record, LayoutReady) and record.pipeline == state.pipeline:
        changing.hear_ready(state, record)
    elif isinstance(record, Received) and record.pipeline == state.pipeline:
        hear_received(state, record)
    elif (
        isinstance(record, Status)
        and record.pipeline == state.pipeline
        and record.claim_epoch != state.tenure.epoch
    ):
        state.shown = state.shown.displaced()
    if state.at is State.ATTEMPTING:
        _look_at_attempt(turn)
    elif (
        state.at is State.DENIED
        and isinstance(record, Resume | Desired)
        and record.pipeline == state.pipeline
    ):
        turn.go(Cause.ASKED)


def _on_claim(turn: Turn, claim: Claim, offset: int) -> None:
    state = turn.state
    if state.at in (State.IDLE, State.RESIGNED):
        return
    if claim.uuid == state.tenure.claim_uuid:
        _on_own_claim(turn, offset)
    elif state.tenure.epoch >= 0:
        _resign(turn, f"coordinator {claim.uuid} on {claim.host}")


def _on_forgotten(turn: Turn, gone: Tombstone) -> None:
    """Whoever takes over forgets the claims before its own. Where compaction has removed this coordinator's claim
    before it was read here, nothing else tells of that."""
    state, tenure = turn.state, turn.state.tenure
    unseen = state.at is State.CLAIMING and tenure.epoch < 0
    if unseen and gone.key == claim_key(state.pipeline, tenure.claim_uuid):
        _resign(turn, "another coordinator")


def _on_own_claim(turn: Turn, offset: int) -> None:
    """A claim that was written twice moves the epoch: nodes go by the newest claim that they read."""
    state = turn.state
    state.tenure = state.tenure.claimed(offset)
    if state.at is State.CLAIMING:
        if not state.tenure.overdue_answers:
            turn.go(Cause.CLAIM_SEEN)
        return
    state.nodes = state.nodes.all_untold()
    state.checkpointing = state.checkpointing.dropped()
    state.stop = state.stop.saving(0)
    if state.at is State.ATTEMPTING:
        _end_attempt(turn, FailureKind.BROKER, "the claim was written to Kafka twice")


def _resign(turn: Turn, who: str) -> None:
    state = turn.state
    if state.at in UNANSWERED:
        state.tenure = state.tenure.left_unanswered()
    reason = f"{who} has claimed pipeline {state.pipeline} since"
    turn.go(Cause.NEWER_CLAIM, Resign(reason))
    state.current, state.transaction = state.current.given_up(), state.transaction.gone()
    state.checkpointing = state.checkpointing.dropped()


def _on_sign_of_life(turn: Turn, record: NodeState | NodeJoin, logged: Logged) -> None:
    state = turn.state
    incarnation = state.view.incarnation(record.node)
    said_by = logged.offset if isinstance(record, NodeJoin) else record.incarnation
    if incarnation is not None and said_by == incarnation:
        state.hearing = state.hearing.heard_from(record.node, incarnation, state.now_ms, logged.timestamp_ms)


def _on_step(turn: Turn, event: StepSeen) -> None:
    state = turn.state
    if _take_in(state, event.logged) and state.at is State.ATTEMPTING:
        _on_fenced(turn, "another coordinator has committed the step")


def _take_in(state: CoordinatorState, logged: LoggedStep) -> bool:
    """One record of the log of steps; whether it is a step that was not known yet, by the answer to its commit or by
    reading."""
    before = state.steps.last_offset
    if isinstance(logged.record, StepBoundary) and logged.offset <= before:
        return False
    state.steps = steps_view.evolve(state.steps, logged)
    if isinstance(logged.record, Checkpoint):
        checkpointing.on_recorded(state, logged.record)
    if state.steps.last_offset == before:
        return False
    if state.steps.is_reset:
        give_up_void(state)
    state.current, state.trouble = state.current.over(), state.trouble.progressed()
    state.arrivals = state.arrivals.committed(state.steps.next_from)
    return True


def give_up_void(state: CoordinatorState) -> None:
    """What was being saved, and since when input waits, is of steps that are void now."""
    state.checkpointing, state.arrivals = state.checkpointing.dropped(), Arrivals()


# --- the tenure and its transaction -------------------------------------------------------------------------


def _on_assigned(turn: Turn, event: Assigned) -> None:
    state = turn.state
    state.tenure = state.tenure.assigned(event.uuid, event.host, event.process_id)
    state.current, state.trouble = state.current.over(), state.trouble.progressed()
    state.nodes, state.hearing = state.nodes.forgiving({}), state.hearing.without_witnesses()
    state.asked, state.holding, state.stop = state.asked.unread(), state.holding.unread(), NO_STOP
    state.shown, state.step_clock = state.shown.displaced(), state.step_clock.unset()
    state.balancing = state.balancing.off()
    turn.go(Cause.ASSIGNED)


def _on_producer_ready(turn: Turn, event: ProducerReady) -> None:
    turn.state.transaction = turn.state.transaction.ready(event.producer_id, event.producer_epoch)
    turn.go(Cause.PRODUCER_READY)


def _on_ends(turn: Turn, event: EndsReached) -> None:
    """Had there been a newer claim, it would have come before this event and ended the tenure."""
    state = turn.state
    state.transaction = state.transaction.read_to(event.steps_end)
    if state.at is State.CHECKING_CLAIM:
        turn.go(Cause.CLAIM_HOLDS)
        return
    if state.steps.doubles:
        refuse_doubles(turn)
        turn.go(Cause.DENIED)
        return
    turn.go(Cause.ENDS_REACHED)
    if state.hearing.caught_up_ms < 0:
        state.hearing = state.hearing.caught_up(state.now_ms)
    if not state.tenure.cleared:
        take_over(turn)


def _on_partitions_added(turn: Turn) -> None:
    """Only now may anything be written, so only now is the attempt shown to the nodes, unless it was before."""
    state = turn.state
    if state.at is State.ADDING_LOG:
        _record_checkpoint(turn)
        return
    plan, producer = state.current.plan, state.transaction.producer
    if plan is None or producer is None:
        _on_fenced(turn, "another coordinator has committed the step")
        return
    spec = state.view.spec()
    if state.current.attempt is None:
        if spec is None or spec.fingerprint != plan.spec.fingerprint or not all_take_steps(state, plan.spec):
            turn.go(Cause.OUT_OF_PLACE)
            return
        begin_attempt(turn, plan, producer)
    turn.go(Cause.PARTITIONS_ADDED)
    _look_at_attempt(turn)


def _record_checkpoint(turn: Turn) -> None:
    """All parts were there when the transaction was opened; a node that was restarted since takes its part
    back."""
    state, spec = turn.state, turn.state.view.spec()
    saving = state.checkpointing.saving
    if state.transaction.producer is None or spec is None:
        _on_fenced(turn, "another coordinator has recorded a checkpoint")
        return
    assignment = changing.due_assignment(state, spec)
    made: Checkpoint | None = None
    gone: tuple[str, ...] = ()
    if saving is not None:
        if not checkpointing.is_saved(state) or len(saving.commands) != checkpointing.parts_wanted(spec):
            turn.go(Cause.OUT_OF_PLACE)
            return
        saved = checkpointing.saved_checkpoint(state, saving)
        made, gone = checkpointing.making_room(state.steps, saved, spec.checkpoint, spec.limits)
    elif assignment is None:
        change = state.changing.now
        if change is None or change.switched != state.steps.step:
            _on_fenced(turn, "another coordinator has recorded a checkpoint")
        else:
            turn.go(Cause.OUT_OF_PLACE)
        return
    turn.go(
        Cause.PARTITIONS_ADDED,
        CommitCheckpoint(*state.transaction.producer, made, state.transaction.steps_end, gone, assignment),
    )


def _look_at_attempt(turn: Turn) -> None:
    """Commit it, end it, or wait on."""
    state = turn.state
    plan, attempt = state.current.plan, state.current.attempt
    if plan is None or attempt is None:
        raise LookupError("attempting without a plan")
    limits = plan.spec.limits
    wrong = trouble(state, plan, attempt, limits)
    if wrong is not None:
        _end_attempt(turn, *wrong)
        return
    nodes = range(plan.spec.nodes)
    reports = [written for node in nodes if (written := written_by(state, attempt, node)) is not None]
    if len(reports) == plan.spec.nodes:
        boundary, token = boundary_of(state, plan, attempt, reports), attempt.token
        turn.go(
            Cause.ALL_WRITTEN,
            CommitStep(token.producer_id, token.producer_epoch, boundary, state.transaction.steps_end),
        )
        state.current = state.current.written(state.now_ms)
        return
    turn.wake_at(ends_ms(state, attempt, limits))
    for node in nodes:
        wake_before_silence(turn, node, limits)


def _end_attempt(turn: Turn, kind: FailureKind, text: str) -> None:
    """Abort: nothing of the attempt is committed, and the same step is tried again, or the pipeline halts."""
    state = turn.state
    step = state.steps.step + 1
    text = of_step(step, text, f", attempt {state.current.attempts}")
    if kind is FailureKind.FENCED:
        _on_fenced(turn, text)
        return
    count_failure(turn, kind, text)
    turn.go(Cause.ATTEMPT_FAILED)


def _on_committed(turn: Turn, event: StepCommitted | CheckpointCommitted) -> None:
    state = turn.state
    state.transaction = state.transaction.acknowledged()
    if isinstance(event, StepCommitted):
        state.current = state.current.acknowledged(event.step, state.wall(state.now_ms))
        if event.following is not None:
            _follow(turn, event.following)
            return
    turn.go(Cause.COMMITTED)


def _follow(turn: Turn, following: Following) -> None:
    """Begin the next transaction without fencing and reading: the log of steps ends with this owner's boundary."""
    state = turn.state
    state.transaction = state.transaction.following(
        following.producer_id, following.producer_epoch, following.steps_end
    )
    turn.go(Cause.FOLLOWED)
    state.current = state.current.committed()
    _take_in(state, following.logged)


def _on_transaction_failed(turn: Turn, event: TransactionFailed) -> None:
    state = turn.state
    if event.kind is FailureKind.FENCED and state.at is not State.CHECKING_CLAIM:
        _on_fenced(turn, event.error)
        return
    state.hearing = state.hearing.deaf()
    if state.at in (State.COMMITTING, State.RECORDING):
        state.transaction = state.transaction.in_doubt()
    if event.kind is FailureKind.DENIED:
        # The control log is read before the log of steps, and who may not read it can't come here.
        if state.at in (State.READING, State.CHECKING_CLAIM):
            state.transaction = state.transaction.read_control()
        state.trouble = state.trouble.refused(event.kind, event.error)
        turn.go(Cause.DENIED)
        return
    failure = Failure(event.kind, event.error)
    state.trouble = state.trouble.passing(failure, FailureKind.BROKER, turn.limits(), state.now_ms)
    turn.go(Cause.BROKER_FAILED)


def _on_fenced(turn: Turn, text: str) -> None:
    """Somebody took the transaction: read who is in charge before anything else; go slowly
    if it happens again and again."""
    state = turn.state
    state.current, state.transaction = state.current.aborted(), state.transaction.gone()
    failure = Failure(FailureKind.FENCED, text)
    state.trouble = state.trouble.passing(failure, FailureKind.FENCED, turn.limits(), state.now_ms)
    turn.go(Cause.FENCED if state.trouble.retry.passing <= 1 else Cause.FENCED_AGAIN)


def _on_tick(turn: Turn) -> None:
    state = turn.state
    if state.at in (State.BACKING_OFF, State.BACKING_OFF_FENCED):
        if state.now_ms >= state.trouble.retry.not_before_ms:
            turn.go(Cause.BACKED_OFF)
        else:
            turn.wake_at(state.trouble.retry.not_before_ms)
    elif state.at is State.ATTEMPTING:
        _look_at_attempt(turn)
    if state.at in LOOKING_ON:
        tell_next(turn)
