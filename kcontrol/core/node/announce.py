"""What a node says of itself: its state at every change and every second, what input it has, and that it
replays.

The state is what coordinators go by, so it is said at once when anything in it changes, and again and again,
because silence means death. Input is said when it grows, and now and then; not while the node is behind the
log, since it can't be used then.

Where steps follow each other closely, most of that is news of a moment: that a step is finished, that the next one is begun,
how much input there is for one that nobody decides yet. Such news waits a little for what is said anyway when the attempt is
written: see docs/decisions/095-said-together.md.
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter

from kcontrol.core.events import InputArrived
from kcontrol.core.model import (
    FailureKind,
    NodePhase,
    NodeState,
    Received,
    ReceivedPartition,
    Replaying,
    StepResult,
    StepWork,
    WorkTimes,
    Written,
)
from kcontrol.core.node.checkpoints import all_openable
from kcontrol.core.node.state import NodeMachine, Said, SeenInput
from kcontrol.core.node.table import ATTEMPTING, UNWRITTEN, NodeStage
from kcontrol.core.node.turn import NodeTurn
from kcontrol.core.step.gaps import gaps_after, records_between
from kcontrol.core.step.offsets import next_offset

STATE_EVERY_MS = 1000
RECEIVED_EVERY_MS = 5000
FINISHED_WAITS_MS = 10
"""How long a node keeps to itself that it has finished a step of its own: as a rule the next command is on its way."""
BEGUN_WAITS_MS = 100
"""How long it keeps to itself that it has begun an attempt."""
INPUT_WAITS_MS = 50
"""Least time between two reports of input while queries work: the next step is decided when they have written."""

_RUNNING = (*ATTEMPTING, NodeStage.FINISHING, NodeStage.REPLAYING, NodeStage.OPENING)
"""A step is under way, the one after `step`: attempted, replayed, or to be replayed once
its own attempt is taken back."""
_STANDING = attrgetter("claim_epoch", "command_epoch", "error", "checkpoint")
"""What does not change from step to step while all is well."""
_SAYS_INPUT = (NodeStage.IDLE, *ATTEMPTING, NodeStage.FAILED)
"""A failed node says it too: it may have failed for want of input, and how far that reaches
now is what a person must know."""


def speak(turn: NodeTurn) -> None:
    """Add what is due to the records of this turn."""
    state = turn.state
    if state.at in (NodeStage.JOINING, NodeStage.EXITED):
        return
    _say_received(turn)
    _say_state(turn)


def _say_state(turn: NodeTurn, *, again: bool = False) -> None:
    """If there is news that can't wait, or it was said long ago, or `again`."""
    state = turn.state
    attempt = state.work.token if state.work is not None and _attempts(state) else None
    openable, checkpoint = all_openable(state), state.steps.checkpoint
    now = Said(
        _phase(state), state.step, attempt, state.view.epoch, *state.done, openable, state.error, checkpoint
    )
    due_ms = min(state.said_ms + STATE_EVERY_MS, _waits_until_ms(state, now))
    if again or state.now_ms >= due_ms:
        state.said = now
        state.said_ms = state.now_ms
        state.beat += 1
        who = state.pipeline, state.node, state.incarnation
        turn.records.append(NodeState(*who, **now._asdict(), beat=state.beat, ended=state.ended))
        due_ms = state.now_ms + STATE_EVERY_MS
    turn.wake_at(due_ms)


def _attempts(state: NodeMachine) -> bool:
    """Whether the step under way is an attempt of this incarnation, from its command until it is finished; a replay is none,
    though it has the token of the attempt that was committed."""
    return state.at in ATTEMPTING or (state.at is NodeStage.FINISHING and state.seen_ms > 0)


def _waits_until_ms(state: NodeMachine, now: Said) -> int:
    """Until when what there is to say may be kept back: for ever if it is what was said last. Nobody waits to hear that a step
    which the node is known to have written is finished, nor that the next one is begun."""
    before = state.said
    if now == before:
        return state.said_ms + STATE_EVERY_MS
    if before is None or _STANDING(now) != _STANDING(before):
        return state.now_ms
    if state.at is NodeStage.WRITING:
        return state.begun_ms + BEGUN_WAITS_MS
    finished = state.ended is not None and before.attempt is not None and now.step == before.step + 1
    if state.at is NodeStage.IDLE and finished and now.command_serial == before.command_serial:
        return state.finished_ms + FINISHED_WAITS_MS
    return state.now_ms


def _phase(state: NodeMachine) -> NodePhase:
    if state.at is NodeStage.FAILED:
        return NodePhase.FAILED
    if state.at is NodeStage.CLOSED or (state.at is NodeStage.OPENING and state.obeying is not None):
        return NodePhase.CLOSED
    return NodePhase.RUNNING if state.at in _RUNNING else NodePhase.OPEN


def report(
    state: NodeMachine,
    work: StepWork,
    result: StepResult,
    failure: FailureKind | None,
    error: str,
    stage: int = 0,
    early: bool = False,
) -> Written:
    """What came of an attempt, or of a stage of it that more stages follow."""
    return Written(
        state.pipeline,
        state.node,
        state.incarnation,
        work.step,
        work.token,
        result.inputs,
        result.outputs,
        result.skipped,
        result.watermark_moved,
        failure,
        error,
        _times(state, result) if failure is None and not early else None,
        result.late_rows,
        stage,
        early,
        result.sent,
        result.taken,
        result.event_times,
    )


def _times(state: NodeMachine, result: StepResult) -> WorkTimes:
    begun_ms = state.wall(state.begun_ms)
    planned_ms, ran_ms = begun_ms + result.plan_ms, begun_ms + result.run_ms
    return WorkTimes(begun_ms, planned_ms, ran_ms, state.wall(state.now_ms), result.held_ms)


def say_ended(turn: NodeTurn, result: StepResult) -> None:
    """Tell when Spark had recorded the step before, which is known only now: the next boundary is to hold
    it. The engine counts from when it took the call up, a little later than the node: what followed from the boundary is not
    before it for that."""
    state = turn.state
    if state.ended is not None and result.recorded_ms is not None:
        recorded_ms = max(state.ended.seen_ms, state.wall(state.begun_ms) + result.recorded_ms)
        state.ended = replace(state.ended, recorded_ms=recorded_ms)
        _say_state(turn, again=True)


def say_replaying(turn: NodeTurn, step: int) -> None:
    """Announce a replay, unless this incarnation has said that it received input for the
    very step: it is one or the other."""
    state = turn.state
    if step <= state.received_step:
        return
    turn.records.append(Replaying(state.pipeline, state.node, state.incarnation, step))


def hear_arrivals(state: NodeMachine, event: InputArrived) -> None:
    """Remember what a watcher saw. While a topic is the same, what was received only
    grows, whatever a broker says after."""
    before = state.arrivals.get(event.input)
    known = {} if before is None else {seen.partition: seen for seen in before.partitions}
    for seen in event.partitions:
        known[seen.partition] = _grown(known.get(seen.partition), seen)
    after = SeenInput(tuple(known[partition] for partition in sorted(known)), event.size_bytes)
    if before is None or before.partitions != after.partitions:
        state.arrivals = {**state.arrivals, event.input: after}
        state.unsaid = (*(name for name in state.unsaid if name != event.input), event.input)


def _grown(before: ReceivedPartition | None, seen: ReceivedPartition) -> ReceivedPartition:
    if before is None or before.topic_id != seen.topic_id:
        return seen
    further = seen if seen.to >= before.to else before
    return replace(further, earliest=max(before.earliest, seen.earliest))


def _say_received(turn: NodeTurn) -> None:
    state = turn.state
    if state.at not in _SAYS_INPUT or state.step != state.steps.step:
        return
    if state.at in UNWRITTEN and state.now_ms < state.input_said_ms + INPUT_WAITS_MS:
        if state.unsaid:
            turn.wake_at(state.input_said_ms + INPUT_WAITS_MS)
        return
    names = state.unsaid
    if state.now_ms >= state.received_ms + RECEIVED_EVERY_MS:
        names = tuple(state.arrivals)
    if not names:
        return
    turn.records.extend(_received(state, name) for name in names)
    state.input_said_ms = state.now_ms
    state.received_step = state.step + 1
    state.unsaid = ()
    if len(names) == len(state.arrivals):
        state.received_ms = state.now_ms


def _received(state: NodeMachine, name: str) -> Received:
    arrivals = state.arrivals[name]
    partitions = arrivals.partitions
    spec = state.view.spec()
    item = next((one for one in spec.inputs if one.name == name), None) if spec is not None else None
    waiting = 0
    if item is not None:
        begins = {seen.partition: next_offset(state.steps, item, seen.partition) for seen in partitions}
        partitions = tuple(
            replace(seen, gaps=gaps_after(seen.gaps, begins[seen.partition])) for seen in partitions
        )
        waiting = sum(records_between(seen.gaps, begins[seen.partition], seen.to) for seen in partitions)
    return Received(
        pipeline=state.pipeline,
        node=state.node,
        incarnation=state.incarnation,
        input=name,
        step=state.step + 1,
        partitions=partitions,
        records=waiting,
        size_bytes=arrivals.size_bytes,
    )
