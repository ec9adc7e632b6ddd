"""Bringing all nodes to the last committed step: what each is told by where it stands.

A node that holds the last committed step and has nothing in flight is left alone, so that a takeover restarts no process
and no query. Any other is told to open the newest step that it can, on its own disk or from a checkpoint, and replays by
itself what it lacks; nodes share no state, so they need not begin at the same step.

What a node may get over is tried again; one that does not even open, close or listen in time is told to end, as is one that
has been silent for long: whoever watches its process starts it anew. Where a process is not there, the status names it.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcontrol.core.coordinator.parts.nodes import Wait
from kcontrol.core.coordinator.standing import (
    LOST,
    Readiness,
    Standing,
    has_done,
    is_to_end,
    silent_ms,
    standing,
    wake_before_silence,
)
from kcontrol.core.coordinator.state import CoordinatorState
from kcontrol.core.coordinator.turn import Turn
from kcontrol.core.events import Publish
from kcontrol.core.model import (
    Command,
    CommandKind,
    FailureKind,
    LimitsSpec,
    NodePhase,
    NodeState,
    PipelineSpec,
    StepWork,
)

_OPENING = (CommandKind.CREATE, CommandKind.OPEN)


def give(turn: Turn, node: int, kind: CommandKind, step: int, work: StepWork | None = None) -> Command:
    """Make the next command for a node's newest incarnation and remember it; the caller publishes it."""
    state = turn.state
    incarnation = state.view.incarnations[node]
    command = Command(
        state.pipeline, state.tenure.epoch, state.nodes.serial + 1, node, incarnation, kind, step, work
    )
    state.nodes = state.nodes.told(command)
    return command


def assemble(turn: Turn, nodes: int) -> list[str]:
    """Look at every node once and tell it what it needs; what is still waited for, as
    clauses. None left: all are in place.

    May set `halt`, when a node is broken or was lost once too often.
    """
    limits = turn.limits()
    waiting: list[str] = []
    commands: list[Command] = []
    for node in range(nodes):
        _count_losses(turn, node)
        now = standing(turn.state, node, limits)
        if now.place is Readiness.IN_PLACE:
            turn.state.nodes = turn.state.nodes.not_waiting(node)
            wake_before_silence(turn, node, limits)
            continue
        if now.place is not Readiness.FINISHING:
            waiting.append(now.text)
        if now.place in LOST:
            turn.state.nodes = turn.state.nodes.not_whole()
        if now.place is Readiness.BROKEN:
            turn.state.trouble = turn.state.trouble.halted(now.text)
        elif now.what[0] == "silent":
            commands.extend(end_if_silent(turn, node, limits))
        elif not _out_of_time(turn, node, now):
            wake_before_silence(turn, node, limits)
            commands.extend(_remedy(turn, node, now))
    if commands:
        turn.effects.append(Publish(tuple(commands)))
    return waiting


def unread(state: CoordinatorState, nodes: int) -> str:
    """What shows that the log of steps holds more than was read, or ''.

    A node is never ahead of the log. If one has read what this coordinator has not, the end that this one was
    told of is that of a broker that is behind: a leader that was elected a moment ago, or one that was
    deposed and has not heard of it.
    """
    steps = state.steps
    for node in range(nodes):
        said, replaying = state.view.node_state(node), state.view.replaying(node)
        step = max(
            0 if said is None else _read_by(said, state.nodes.commands.get(node)),
            0 if replaying is None else replaying.step,
        )
        if step > steps.step:
            return (
                f"node {node} has read step {step} in the log of steps, which was read to step "
                f"{steps.step} only"
            )
        if said is not None and said.checkpoint > steps.checkpoint and steps.void_by(said.checkpoint) is None:
            return (
                f"node {node} has read the checkpoint of step {said.checkpoint} in the log of steps, which "
                f"was read to that of step {steps.checkpoint} only"
            )
    return ""


def _read_by(said: NodeState, command: Command | None) -> int:
    """The newest step that a node has read, at least.

    What it runs where it was told to open, without an attempt of its own, it runs again: it has read the next
    step. It need not say so, as it does not if it has said before how much input there is for that step.
    """
    opened = (
        command is not None
        and command.kind in (CommandKind.CREATE, CommandKind.OPEN)
        and command.step == said.step
        and has_done(said, command)
    )
    runs_again = opened and said.phase is NodePhase.RUNNING and said.attempt is None
    return said.step + 1 if runs_again else said.step


def roll_back(turn: Turn, nodes: int) -> None:
    """Take from every node the attempt that it may still hold, and nothing else: for a
    pipeline that is not to run now."""
    limits = turn.limits()
    commands: list[Command] = []
    for node in range(nodes):
        now = standing(turn.state, node, limits)
        if now.place is Readiness.DANGLING:
            commands.extend(_remedy(turn, node, now))
    if commands:
        turn.effects.append(Publish(tuple(commands)))


def _remedy(turn: Turn, node: int, now: Standing) -> list[Command]:
    state = turn.state
    if now.place is Readiness.DANGLING:
        return _open(turn, node)
    if now.place is Readiness.CLOSED:
        if state.now_ms >= state.trouble.retry.not_before_ms:
            return _open(turn, node)
        turn.wake_at(state.trouble.retry.not_before_ms)
    return []


def _open(turn: Turn, node: int) -> list[Command]:
    """At the newest step that the node can open and go on from; from nothing if there is none.

    From nothing means before step 1, and the log run again; without state it means after the last step,
    whatever the log still holds and whoever made it. When the log's oldest steps were dropped, a node that
    can't open any later one halts the pipeline. Nothing is done before the node knows of the checkpoints that
    took their place.
    """
    state = turn.state
    said, spec = state.view.node_state(node), state.view.spec()
    if spec is None:
        return []
    openable = () if said is None else said.openable
    opening = _opening(state, spec, openable)
    if opening is not None:
        return [give(turn, node, *opening)]
    if said is not None and said.checkpoint >= state.steps.checkpoint:
        state.trouble = state.trouble.halted(_nothing_to_open(state, node, openable))
    return []


def _opening(
    state: CoordinatorState, spec: PipelineSpec, openable: Sequence[int]
) -> tuple[CommandKind, int] | None:
    """How a node that can open these steps is to begin, and after which step; None if it can't."""
    steps = state.steps
    step = max((one for one in openable if one > 0 and steps.can_begin_at(one, spec.nodes)), default=0)
    if step > 0:
        return CommandKind.OPEN, step
    if not spec.stateful:
        return CommandKind.CREATE, steps.step
    return (CommandKind.CREATE, 0) if steps.can_begin_at(0, spec.nodes) else None


def without_beginning(state: CoordinatorState, spec: PipelineSpec) -> str:
    """Which node can't be opened by what was read of the log of steps, although it knows of all checkpoints
    in it, and why; or ''."""
    if _opening(state, spec, ()) is not None:
        return ""  # As long as no step was dropped, and without state: any node can begin.
    for node in range(spec.nodes):
        said = state.view.node_state(node)
        if said is None or said.checkpoint < state.steps.checkpoint:
            continue
        opens = standing(state, node, spec.limits).place in (Readiness.CLOSED, Readiness.DANGLING)
        if opens and _opening(state, spec, said.openable) is None:
            return _nothing_to_open(state, node, said.openable)
    return ""


def _nothing_to_open(state: CoordinatorState, node: int, openable: tuple[int, ...]) -> str:
    steps = state.steps
    checkpoints = ", ".join(str(one.step) for one in steps.saved) or "none"
    can_open = ", ".join(map(str, openable)) or "none"
    return (
        f"node {node} of pipeline {state.pipeline} can't be opened: the log holds steps {steps.first} to "
        f"{steps.step}, so it must begin at one from {steps.first - 1} to {steps.step}. Steps that it can "
        f"open, from its own disk or from a checkpoint: {can_open}; checkpoints in the log: {checkpoints}. "
        "Put the files of a checkpoint back or give the node access to them, start the node again, then "
        "resume the pipeline"
    )


def end_if_silent(turn: Turn, node: int, limits: LimitsSpec) -> list[Command]:
    """A process that has said nothing for long is told to end, once: should it wake up, another may have its
    place."""
    state = turn.state
    said, silence_ms = state.view.node_state(node), silent_ms(state, node)
    if said is None or is_to_end(state, node):
        return []
    if silence_ms < limits.silence_timeout_ms:
        turn.wake_at(state.now_ms + limits.silence_timeout_ms - silence_ms)
        return []
    text = (
        f"node {node} said nothing for {silence_ms} ms ({said.phase.value} at step {said.step}) and is "
        "told to end"
    )
    state.trouble = state.trouble.noted(FailureKind.LOST, text)
    return [give(turn, node, CommandKind.SHUTDOWN, state.steps.step)]


def is_overdue(turn: Turn, node: int, now: Standing) -> bool:
    """Whether the wait for a node is over its limit; then it begins anew."""
    state = turn.state
    wait = state.nodes.waits.get(node)
    if wait is None or wait.what != now.what:
        wait = Wait(now.what, state.now_ms)
        state.nodes = state.nodes.waiting(node, wait)
    if not now.limit_ms:
        return False
    if state.now_ms - wait.since_ms < now.limit_ms:
        turn.wake_at(wait.since_ms + now.limit_ms)
        return False
    state.nodes = state.nodes.not_waiting(node)
    return True


_MENDED_BY_OPENING = ("replay", "finish")
"""Waits that may be over once the node has opened again. After any other it is told to end:
it can't even open, or is deaf."""


def _out_of_time(turn: Turn, node: int, now: Standing) -> bool:
    """Whether the wait is over its limit; then it is counted, and the node is told to open again, or to
    end."""
    if not is_overdue(turn, node, now):
        return False
    ends = now.what[0] not in _MENDED_BY_OPENING
    remedy = "it is told to end" if ends else "it is told to open again"
    count_failure(turn, FailureKind.LOST, f"{now.text}, for more than {now.limit_ms} ms: {remedy}")
    state = turn.state
    if not state.trouble.halt:
        commands = [give(turn, node, CommandKind.SHUTDOWN, state.steps.step)] if ends else _open(turn, node)
        turn.effects.extend(Publish((command,)) for command in commands)
    return True


def _count_losses(turn: Turn, node: int) -> None:
    """A node that was told to open and died, or closed again with an error, has failed once more."""
    state = turn.state
    command = state.nodes.commands.get(node)
    if command is None or command.kind not in _OPENING:
        return
    said = state.view.node_state(node)
    if command.incarnation != state.view.incarnation(node):
        text = f"node {node} ended while it opened step {command.step}, or replayed from there"
    elif said is not None and said.phase is NodePhase.CLOSED and has_done(said, command):
        text = (
            f"node {node} could not open step {command.step}, or replay from there: "
            f"{said.error or 'no reason given'}"
        )
    else:
        return
    state.nodes = state.nodes.untold(node)
    count_failure(turn, FailureKind.LOST, text)


def count_failure(turn: Turn, kind: FailureKind, text: str) -> None:
    """Remember what failed, put the next try off, and halt if it was one too many."""
    turn.state.trouble = turn.state.trouble.counted(kind, text, turn.limits(), turn.state.now_ms)
