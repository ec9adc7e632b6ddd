"""Bringing all nodes to the last committed step: where each one stands, and what it is told.

A node that holds the last committed step and has nothing in flight is left alone, so that a takeover restarts no process
and no query. Any other is told to open the newest step that it can, on its own disk or from a checkpoint, and replays by
itself what it lacks; nodes share no state, so they need not begin at the same step.

Every wait for something that a living node is to do has a limit. What a node may get over is tried again; one that does not
even open, close or listen in time is told to end, as is one that has been silent for long: whoever watches its process
starts it anew. Only for a process that is not there is there no limit, because nobody here can start one; the status names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import assert_never

from kcontrol.core.coordinator.parts.nodes import Wait
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


class Readiness(Enum):
    """Where a node stands to the last committed step."""

    ABSENT = auto()
    """Not there: never joined, silent, shut down, or its newest incarnation has said nothing yet."""
    UNAWARE = auto()
    """It has not read this coordinator's claim."""
    BUSY = auto()
    """It does what it was told, or catches up by itself."""
    DANGLING = auto()
    """It has, or may get, an attempt that will not be committed."""
    CLOSED = auto()
    """It waits to be told what to open."""
    BROKEN = auto()
    """It says that a person must look."""
    FINISHING = auto()
    """It has written the last step, which this coordinator has committed just now, and holds it as soon as it has
    read the boundary: what is asked of it now it does then."""
    IN_PLACE = auto()


@dataclass(frozen=True, slots=True)
class Standing:
    """A node's place, which wait it is (`what`), a clause for people, and how long it may last.

    limit_ms: 0 when there is nobody who could do anything: a process that is not there must be started by
    somebody.
    """

    place: Readiness
    what: tuple[str | int, ...] = ()
    text: str = ""
    limit_ms: int = 0


LOST = (Readiness.ABSENT, Readiness.CLOSED, Readiness.BROKEN)
"""Only a command, a new incarnation or a person makes these nodes come back."""
_IN_PLACE = Standing(Readiness.IN_PLACE)


def standing(state: CoordinatorState, node: int, limits: LimitsSpec) -> Standing:
    """Where a node stands, judged by what its newest incarnation said last."""
    incarnation = state.view.incarnation(node)
    if incarnation is None:
        return Standing(Readiness.ABSENT, ("join",), f"node {node} has not joined")
    if incarnation < state.nodes.outdated:
        text = f"node {node} has not joined by the newest definition"
        return Standing(Readiness.ABSENT, ("outdated", incarnation), text)
    said = state.view.node_state(node)
    if said is None:
        # It reads the logs, and looks what it can restore.
        limit_ms = _patience_ms(limits) + limits.save_timeout_ms
        return Standing(
            Readiness.ABSENT,
            ("joining", incarnation),
            f"node {node} has joined and says nothing yet",
            limit_ms,
        )
    if is_silent(state, node, limits):
        return Standing(Readiness.ABSENT, ("silent", incarnation), _silence(state, said))
    if said.claim_epoch != state.tenure.epoch and not _is_to_end(state, node):
        text = f"node {node} has not seen this coordinator's claim"
        return Standing(Readiness.UNAWARE, ("claim", incarnation), text, _patience_ms(limits))
    command = state.nodes.commands.get(node)
    if command is not None and command.incarnation == incarnation:
        told = _told(state, command, said, limits)
        if told is not None:
            return told
    return _at_rest(state, said, limits)


def _told(state: CoordinatorState, command: Command, said: NodeState, limits: LimitsSpec) -> Standing | None:
    """What the newest command to this incarnation makes of it; None if it is done and over."""
    node, done = said.node, has_done(said, command)
    match command.kind:
        case CommandKind.CREATE | CommandKind.OPEN if not done:
            text = f"node {node} opens step {command.step}"
            restoring_ms = (
                limits.save_timeout_ms if state.steps.checkpoint_of(command.step) is not None else 0
            )
            return Standing(
                Readiness.BUSY, ("open", command.serial), text, _patience_ms(limits) + restoring_ms
            )
        case CommandKind.STEP if command.step > state.steps.step:
            text = f"node {node} holds an attempt that is over"
            return Standing(Readiness.DANGLING, ("attempt", command.serial), text, _patience_ms(limits))
        case CommandKind.STOP if not done and said.step < command.step:
            text = f"node {node} goes on from step {said.step} to {command.step} before it closes"
            return Standing(
                Readiness.BUSY, ("stop", command.serial, said.step), text, limits.replay_timeout_ms
            )
        case CommandKind.STOP if not done:
            return Standing(
                Readiness.BUSY, ("stop", command.serial), f"node {node} closes", _patience_ms(limits)
            )
        case CommandKind.SHUTDOWN if not done:
            return Standing(
                Readiness.ABSENT, ("shutdown", command.serial), f"node {node} is to end", _patience_ms(limits)
            )
        case CommandKind.SHUTDOWN:
            return Standing(
                Readiness.ABSENT,
                ("ended", command.serial),
                f"node {node} was shut down and has not joined again",
            )
        case CommandKind.CREATE | CommandKind.OPEN | CommandKind.STEP | CommandKind.STOP:
            return None
        case CommandKind.PAUSE | CommandKind.CHECKPOINT:
            return None
        case _:
            assert_never(command.kind)


def _at_rest(state: CoordinatorState, said: NodeState, limits: LimitsSpec) -> Standing:
    node, committed, last = said.node, state.steps.step, state.steps.last
    if said.attempt is not None:
        if said.step >= committed:
            text = f"node {node} holds an attempt that is over"
            return Standing(Readiness.DANGLING, ("attempt", said.step), text, _patience_ms(limits))
        own = state.transaction.followed and last is not None and said.attempt == last.token
        place = Readiness.FINISHING if own else Readiness.BUSY
        text = f"node {node} finishes step {said.step + 1}"
        return Standing(place, ("finish", said.step), text, limits.replay_timeout_ms)
    if said.phase is NodePhase.FAILED and state.nodes.forgiven.get(node) != (
        said.command_epoch,
        said.command_serial,
    ):
        if said.checkpoint < state.steps.checkpoint:
            # It may have failed for want of what this checkpoint has made needless.
            text = f"node {node} failed, and has not read the checkpoint of step {state.steps.checkpoint}: {said.error}"
            return Standing(Readiness.BUSY, ("unread", state.steps.checkpoint), text, _patience_ms(limits))
        return Standing(Readiness.BROKEN, ("failed",), f"node {node} failed: {said.error}")
    if said.phase in (NodePhase.CLOSED, NodePhase.FAILED):
        return Standing(
            Readiness.CLOSED,
            ("closed",),
            f"node {node} is closed",
            _patience_ms(limits) + limits.max_backoff_ms,
        )
    if said.step > committed:
        return Standing(
            Readiness.DANGLING, ("ahead", said.step), f"node {node} is ahead of the log", _patience_ms(limits)
        )
    if said.step < committed:
        return Standing(
            Readiness.BUSY,
            ("replay", said.step),
            f"node {node} replays step {said.step + 1}",
            limits.replay_timeout_ms,
        )
    return _IN_PLACE


def _patience_ms(limits: LimitsSpec) -> int:
    """How long a node may take to open or to close, and to say so: a bit more than it gives itself."""
    return limits.open_timeout_ms + limits.heartbeat_timeout_ms


def _silence(state: CoordinatorState, said: NodeState) -> str:
    doing = f"was {said.phase.value} at step {said.step}"
    if _is_to_end(state, said.node):
        return (
            f"node {said.node} says nothing ({doing}) and was told to end: start it again, unless a "
            "supervisor does"
        )
    return f"node {said.node} says nothing ({doing})"


def _is_to_end(state: CoordinatorState, node: int) -> bool:
    """Whether this incarnation was told to."""
    command = state.nodes.commands.get(node)
    if command is None or command.incarnation != state.view.incarnation(node):
        return False
    return command.kind is CommandKind.SHUTDOWN


def has_done(said: NodeState, command: Command) -> bool:
    """Whether the node has carried out this command, or a newer one."""
    return (said.command_epoch, said.command_serial) >= (command.claim_epoch, command.serial)


def is_silent(state: CoordinatorState, node: int, limits: LimitsSpec) -> bool:
    """Whether a node has said nothing for too long; never while the coordinator itself may not have
    listened."""
    return silent_ms(state, node) >= limits.heartbeat_timeout_ms


def silent_ms(state: CoordinatorState, node: int) -> int:
    """For how long a node has said nothing; 0 while the coordinator itself may not have listened."""
    return 0 if state.hearing.caught_up_ms < 0 else state.now_ms - _heard_ms(state, node)


def _heard_ms(state: CoordinatorState, node: int) -> int:
    incarnation, heard_ms = state.hearing.heard.get(node, (-1, -1))
    return max(state.hearing.caught_up_ms, heard_ms if incarnation == state.view.incarnation(node) else -1)


def wake_before_silence(turn: Turn, node: int, limits: LimitsSpec) -> None:
    """Ask for a tick when the node's silence would become too long."""
    state = turn.state
    if state.hearing.caught_up_ms >= 0 and not is_silent(state, node, limits):
        turn.wake_at(_heard_ms(state, node) + limits.heartbeat_timeout_ms)


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


def all_in_place(state: CoordinatorState, spec: PipelineSpec) -> bool:
    """Whether every node holds the last step, and nothing else."""
    return all(standing(state, node, spec.limits).place is Readiness.IN_PLACE for node in range(spec.nodes))


def all_take_steps(state: CoordinatorState, spec: PipelineSpec) -> bool:
    """Whether a step can be asked of every node now."""
    takes = (Readiness.FINISHING, Readiness.IN_PLACE)
    return all(standing(state, node, spec.limits).place in takes for node in range(spec.nodes))


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
    checkpoints = ", ".join(str(one.step) for one in steps.checkpoints) or "none"
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
    if said is None or _is_to_end(state, node):
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
