"""One attempt at a step: its plan, the nodes' work, what can go wrong with it, and the boundary that ends it.

Nothing that a node says about an attempt counts unless it carries exactly the attempt's token.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcontrol.core.coordinator.clock import step_time
from kcontrol.core.coordinator.holding import limits_of
from kcontrol.core.coordinator.node_progress import give
from kcontrol.core.coordinator.parts.arrivals import arrived_ms
from kcontrol.core.coordinator.parts.current import Attempt, Plan
from kcontrol.core.coordinator.standing import has_done, is_silent
from kcontrol.core.coordinator.state import CoordinatorState
from kcontrol.core.coordinator.turn import Turn
from kcontrol.core.events import Publish
from kcontrol.core.failures import without_step
from kcontrol.core.model import (
    EMPTY_DIGEST,
    CommandKind,
    EndTimes,
    ExchangeSlice,
    ExchangeTaken,
    FailureKind,
    InputRange,
    InputSlice,
    LateRowsPolicy,
    LimitsSpec,
    NodePhase,
    PipelineSpec,
    Reason,
    Skipped,
    StepBoundary,
    StepEnd,
    StepWork,
    Token,
    WorkTimes,
    Written,
)
from kcontrol.core.step.division import clipped, offsets_in
from kcontrol.core.step.environments import made_in
from kcontrol.core.step.exchange import (
    MOST_RUNS,
    early_report,
    in_order,
    sent_through,
    slots,
    stages_of,
    wrong_slices,
    wrong_taken,
)
from kcontrol.core.step.layout import layout_of, writers_of
from kcontrol.core.step.offsets import node_of, paused_inputs
from kcontrol.core.step.skips import skips_due
from kcontrol.core.step.watermarks import after_step, moved, wrong_event_times

_UNKNOWN = WorkTimes(0, 0, 0, 0)


def make_plan(
    state: CoordinatorState, spec: PipelineSpec, reason: Reason, received: Sequence[InputRange]
) -> Plan:
    """What the next step holds: everything received, up to the policy's limit, at a time later than the step
    before."""
    division = clipped(received, _most_records(state, spec))
    paused, skips = paused_inputs(spec, state.view), skips_due(spec, state.steps, state.view)
    return Plan(
        state.steps.step + 1,
        spec,
        reason,
        step_time(state),
        division,
        layout_of(spec, division),
        paused,
        skips,
        limits_of(state),
    )


def _most_records(state: CoordinatorState, spec: PipelineSpec) -> int:
    """In the first step by another layout nodes open state that they did not have. What has come since the last step, which is
    long ago by then, waits for the next one: the first is as large as the last was."""
    steps, policy = state.steps, spec.policy
    if steps.last is None or steps.assignment is None or steps.assignment.step != steps.step:
        return policy.max_records
    return min(policy.max_records, max(policy.min_records, offsets_in(steps.last.inputs), 1))


def make_attempt(state: CoordinatorState, plan: Plan, producer: tuple[int, int]) -> Attempt:
    """The next attempt at the plan, by the nodes as they are now, under the producer
    epoch whose transaction is open."""
    incarnations = tuple(state.view.incarnations[node] for node in range(plan.spec.nodes))
    token = Token(state.tenure.epoch, state.current.attempts + 1, *producer, incarnations)
    works = tuple(
        StepWork(
            plan.step,
            token,
            state.transactional_id,
            plan.now_ms,
            plan.reason,
            plan.division,
            plan.layout,
            writers_of(plan.spec, plan.layout, node),
        )
        for node in range(plan.spec.nodes)
    )
    return Attempt(token, works, state.now_ms, state.now_ms)


def begin_attempt(turn: Turn, plan: Plan, producer: tuple[int, int]) -> None:
    """Show the next attempt at the plan to the nodes."""
    state = turn.state
    attempt = make_attempt(state, plan, producer)
    state.current = state.current.tried(attempt)
    commands = tuple(
        give(turn, node, CommandKind.STEP, plan.step, work) for node, work in enumerate(attempt.works)
    )
    turn.effects.append(Publish(commands))


def touched_partitions(state: CoordinatorState, plan: Plan) -> tuple[tuple[str, int], ...]:
    """Every partition that a step's transaction may touch, each once: those of the outputs, what its nodes may send each
    other, and the log of steps."""
    found = {
        (output.topic, partition): None
        for output in plan.spec.outputs
        for partition in range(output.partitions)
    }
    return (*found, *slots(plan.spec, plan.layout), (state.steps_topic, 0))


def written_by(state: CoordinatorState, attempt: Attempt, node: int) -> Written | None:
    """What a node says about exactly this attempt."""
    written = state.view.written(node)
    if written is None or written.token != attempt.token or written.step != attempt.works[node].step:
        return None
    return written


def trouble(
    state: CoordinatorState, plan: Plan, attempt: Attempt, limits: LimitsSpec
) -> tuple[FailureKind, str] | None:
    """Why the attempt can't be committed any more, or None while it can."""
    slow: dict[int, int] = {}
    taken = []
    for node, incarnation in enumerate(attempt.token.incarnations):
        if state.view.incarnation(node) != incarnation:
            return FailureKind.LOST, f"node {node} was restarted"
        failed = _failed_stage(state, plan, attempt, node)
        if failed is not None:
            return failed
        written = written_by(state, attempt, node)
        if written is None:
            lost = _lost(state, attempt, node, limits)
            if lost:
                return FailureKind.LOST, lost
            slow[node] = _stages_told(state, plan, attempt, node)
        elif written.failure is not None:
            return written.failure, f"node {node}: {without_step(plan.step, written.error)}"
        else:
            wrong = _wrong(plan, node, written)
            if wrong:
                return FailureKind.LOST, f"node {node} {wrong}"
            late = _late(state, written)
            if late:
                return FailureKind.REFUSED, f"step {plan.step}: {late}"
            taken.append(written.taken)
    if not slow:
        return _wrong_together(state, plan, attempt, taken)
    if state.now_ms < ends_ms(state, attempt, limits):
        return None
    # Who has told fewer stages is waited for by the others.
    who = ", ".join(str(node) for node, told in slow.items() if told == min(slow.values()))
    if state.now_ms - attempt.opened_ms - attempt.stood_ms >= limits.step_timeout_ms:
        return FailureKind.LOST, f"node {who} has not written within {limits.step_timeout_ms} ms"
    # Nobody was slow: it does not count towards a halt.
    return FailureKind.BROKER, (
        f"node {who} has not written, and the transaction is over after {state.transaction.timeout_ms} ms, for "
        f"{attempt.stood_ms} of which the coordinator stood still"
    )


def ends_ms(state: CoordinatorState, attempt: Attempt, limits: LimitsSpec) -> int:
    """When an attempt that is not written is over: what the coordinator stood still is no part of the nodes' time, but
    it is of Kafka's, which aborts the transaction by itself."""
    patience_ms = min(attempt.stood_ms + limits.step_timeout_ms, state.transaction.timeout_ms)
    return attempt.opened_ms + max(patience_ms, limits.step_timeout_ms)


def _stages_told(state: CoordinatorState, plan: Plan, attempt: Attempt, node: int) -> int:
    stages = range(stages_of(plan.spec) - 1)
    return sum(early_report(state.view, attempt.token, node, stage) is not None for stage in stages)


def _failed_stage(
    state: CoordinatorState, plan: Plan, attempt: Attempt, node: int
) -> tuple[FailureKind, str] | None:
    """What is wrong with a stage of the attempt that is not the last."""
    for stage in range(stages_of(plan.spec) - 1):
        early = early_report(state.view, attempt.token, node, stage)
        if early is None:
            continue
        if early.failure is not None:
            return early.failure, f"node {node}: {without_step(plan.step, early.error)}"
        wrong = wrong_slices(plan.spec, plan.layout, node, stage, early.sent)
        if wrong:
            return FailureKind.LOST, f"node {node} {wrong}"
    return None


def _wrong_together(
    state: CoordinatorState, plan: Plan, attempt: Attempt, taken: Sequence[Sequence[ExchangeTaken]]
) -> tuple[FailureKind, str] | None:
    """What is wrong with reports of all nodes of which none is wrong by itself: what one has sent, another must have taken."""
    if not plan.spec.exchanges:
        return None
    token, nodes = attempt.token, range(plan.spec.nodes)
    for stage in range(stages_of(plan.spec) - 1):
        missing = [str(node) for node in nodes if early_report(state.view, token, node, stage) is None]
        if missing:
            return FailureKind.LOST, f"node {', '.join(missing)} has not said what it sent in stage {stage}"
    sent = _sent(state, plan, attempt)
    wrong = wrong_taken(sent, taken)
    if wrong:
        return FailureKind.LOST, wrong
    runs = sum(len(piece.runs) for piece in sent)
    if runs > MOST_RUNS:
        return FailureKind.REFUSED, (
            f"step {plan.step}: what its nodes sent each other lies in {runs} runs, and a step's record takes "
            f"{MOST_RUNS}: submit pipeline {state.pipeline} with smaller steps (max_records), fewer tasks (max_tasks) or "
            "fewer nodes"
        )
    return None


def _sent(state: CoordinatorState, plan: Plan, attempt: Attempt) -> tuple[ExchangeSlice, ...]:
    """What all nodes have sent in all stages of an attempt that all of them have written."""
    last = (written_by(state, attempt, node) for node in range(plan.spec.nodes))
    return in_order(
        (
            *sent_through(state.view, attempt.token, stages_of(plan.spec) - 2),
            *(piece for written in last if written is not None for piece in written.sent),
        )
    )


def _lost(state: CoordinatorState, attempt: Attempt, node: int, limits: LimitsSpec) -> str:
    if is_silent(state, node, limits):
        return f"node {node} said nothing for {limits.heartbeat_timeout_ms} ms"
    said = state.view.node_state(node)
    if said is None:
        return ""
    if said.phase in (NodePhase.CLOSED, NodePhase.FAILED):
        return f"node {node} closed: {said.error or 'no reason given'}"
    told = state.current.told
    command = (state.nodes.commands if told is None else told.before).get(node)
    if command is not None and has_done(said, command) and said.attempt != attempt.token:
        return f"node {node} dropped the attempt"
    return ""


def _late(state: CoordinatorState, written: Written) -> str:
    """One sentence about rows that watermarks dropped, if the newest spec does not let that pass, or ''."""
    spec = state.view.spec()
    dropped = [one for one in written.late_rows if one.rows]
    if not dropped or spec is None or spec.policy.late_rows is not LateRowsPolicy.HALT:
        return ""
    what = ", ".join(f"{one.rows} rows of query {one.query!r} on node {one.node}" for one in dropped)
    return (
        f"the watermark has passed {what}, which would be dropped, and late_rows='halt'; nothing was "
        "committed. Give the watermark a longer delay, or submit the pipeline with late_rows='count' to "
        f"have such rows dropped and counted, then kcontrol resume {state.pipeline}"
    )


def _wrong(plan: Plan, node: int, written: Written) -> str:
    """What is wrong with a report that says all is well, or ''. Such a step must not be
    committed, whoever is to blame."""
    read = {(piece.input, piece.partition): piece for piece in written.inputs}
    if len(read) != len(written.inputs):
        return "reports a partition of an input twice"
    for part in own_ranges(plan, node):
        piece = read.pop((part.input, part.partition), None)
        if piece is None and part.from_ == part.to:
            continue
        if piece is None or (piece.from_, piece.to, piece.topic_id) != (part.from_, part.to, part.topic_id):
            found = "nothing" if piece is None else f"[{piece.from_}, {piece.to})"
            return (
                f"read {found} of input {part.input} partition {part.partition}, not [{part.from_}, "
                f"{part.to})"
            )
    if read:
        name, partition = min(read)
        return f"read input {name} partition {partition}, which is not its own"
    may_write = {
        (output.name, output.topic, partition)
        for output, partitions in zip(
            plan.spec.outputs, writers_of(plan.spec, plan.layout, node), strict=True
        )
        for partition in partitions
    }
    for wrote in written.outputs:
        if (wrote.output, wrote.topic, wrote.partition) not in may_write:
            return (
                f"wrote output {wrote.output} partition {wrote.partition}, which is not its own, or "
                "wrote it twice"
            )
        may_write.discard((wrote.output, wrote.topic, wrote.partition))
    return wrong_slices(
        plan.spec, plan.layout, node, stages_of(plan.spec) - 1, written.sent
    ) or wrong_event_times(plan.spec, node, written.event_times)


def own_ranges(plan: Plan, node: int) -> list[InputRange]:
    """The part of the division that a node reads."""
    items = {item.name: item for item in plan.spec.inputs}
    return [
        part for part in plan.division if node_of(items[part.input], plan.spec.nodes, part.partition) == node
    ]


def boundary_of(
    state: CoordinatorState, plan: Plan, attempt: Attempt, reports: Sequence[Written]
) -> StepBoundary:
    """The record that ends the step, from the reports of all nodes."""
    read = {(piece.input, piece.partition): piece for written in reports for piece in written.inputs}
    inputs = tuple(
        read.get((part.input, part.partition))
        or InputSlice(
            part.input, part.topic, part.topic_id, part.partition, part.from_, part.to, 0, EMPTY_DIGEST
        )
        for part in plan.division
    )
    before = state.steps.last.watermarks if state.steps.last is not None else ()
    watermarks = after_step(plan.spec, before, (one for written in reports for one in written.event_times))
    first_ms = arrived_ms(state.arrivals, plan.division)
    order = {output.name: index for index, output in enumerate(plan.spec.outputs)}
    outputs = sorted(
        (piece for written in reports for piece in written.outputs),
        key=lambda o: (order[o.output], o.partition),
    )
    return StepBoundary(
        pipeline=state.pipeline,
        step=plan.step,
        token=attempt.token,
        now_ms=plan.now_ms,
        reason=plan.reason,
        fingerprint=plan.spec.fingerprint,
        nodes=plan.spec.nodes,
        inputs=inputs,
        outputs=tuple(outputs),
        layout=plan.layout,
        paused_inputs=plan.paused,
        opened_ms=state.wall(attempt.told_ms),
        committed_ms=state.wall(state.now_ms),
        skipped=_skipped(plan, reports),
        watermark_moved=moved(before, watermarks)
        if plan.spec.watermarks
        else any(written.watermark_moved for written in reports),
        skipped_ranges=plan.skips,
        received_ms=0 if first_ms is None else state.wall(first_ms),
        work=tuple(written.times or _UNKNOWN for written in reports),
        before=_end_of(state, plan.step - 1, plan.spec.nodes),
        late_rows=tuple(one for written in reports for one in written.late_rows),
        environments=made_in(state.view, attempt.token.incarnations),
        exchanges=_sent(state, plan, attempt) if plan.spec.exchanges else (),
        watermarks=watermarks,
    )


def _end_of(state: CoordinatorState, step: int, nodes: int) -> StepEnd | None:
    """How the step before ended, as far as this coordinator and the nodes that still hold it know."""
    said = (state.view.node_state(node) for node in range(nodes))
    ended = tuple(one.ended if one is not None and one.step == step else None for one in said)
    answered_ms = state.current.answered[1] if state.current.answered[0] == step else 0
    if step == 0 or (not answered_ms and not any(ended)):
        return None
    return StepEnd(answered_ms, tuple(one or EndTimes(0, 0) for one in ended))


def _skipped(plan: Plan, reports: Sequence[Written]) -> tuple[Skipped, ...]:
    counts = {item.name: 0 for item in plan.spec.inputs}
    for written in reports:
        for skipped in written.skipped:
            counts[skipped.input] = counts.get(skipped.input, 0) + skipped.records
    return tuple(Skipped(name, records) for name, records in counts.items() if records)
