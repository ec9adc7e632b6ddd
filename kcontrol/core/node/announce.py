"""What a node says of itself: its state at every change and every second, what input it has, and that it
replays.

The state is what coordinators go by, so it is said at once when anything in it changes, and again and again,
because silence means death. Input is said when it grows, and now and then; not while the node is behind the
log, since it can't be used then.
"""

from __future__ import annotations

from dataclasses import replace

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
from kcontrol.core.node.table import ATTEMPTING, NodeStage
from kcontrol.core.node.turn import NodeTurn
from kcontrol.core.step.gaps import gaps_after, records_between
from kcontrol.core.step.offsets import next_offset

STATE_EVERY_MS = 1000
RECEIVED_EVERY_MS = 5000

_ATTEMPTING = (*ATTEMPTING, NodeStage.FINISHING)
_RUNNING = (*_ATTEMPTING, NodeStage.REPLAYING, NodeStage.OPENING)
"""A step is under way, the one after `step`: attempted, replayed, or to be replayed once
its own attempt is taken back."""
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
    turn.wake_at(state.said_ms + STATE_EVERY_MS)


def _say_state(turn: NodeTurn, *, again: bool = False) -> None:
    """If there is news, or it was said long ago, or `again`."""
    state = turn.state
    attempt = state.work.token if state.work is not None and state.at in _ATTEMPTING else None
    openable, checkpoint = all_openable(state), state.steps.checkpoint
    now = Said(
        _phase(state), state.step, attempt, state.view.epoch, *state.done, openable, state.error, checkpoint
    )
    if again or now != state.said or state.now_ms >= state.said_ms + STATE_EVERY_MS:
        state.said = now
        state.said_ms = state.now_ms
        state.beat += 1
        who = state.pipeline, state.node, state.incarnation
        turn.records.append(NodeState(*who, **now._asdict(), beat=state.beat, ended=state.ended))


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
    return WorkTimes(begun_ms, begun_ms + result.plan_ms, begun_ms + result.run_ms, state.wall(state.now_ms))


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
    names = state.unsaid
    if state.now_ms >= state.received_ms + RECEIVED_EVERY_MS:
        names = tuple(state.arrivals)
    if not names:
        return
    turn.records.extend(_received(state, name) for name in names)
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
