"""Bringing all nodes to the last committed step: where each one stands, and what it is told.

A node that holds the last committed step and has nothing in flight is left alone, so that a takeover restarts no process and no
query. Any other is told to open the newest step that it can, on its own disk or from a checkpoint, and replays by itself what
it lacks; nodes share no state, so they need not begin at the same step. Every wait for a node has a limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeVar

from kcontrol.core.coordinator_state import CoordinatorState, Failure, Turn, Wait
from kcontrol.core.events import Publish
from kcontrol.core.model import Command, CommandKind, FailureKind, LimitsSpec, NodePhase, NodeState, PipelineSpec, StepWork
from kcontrol.core.retry import after_failure, must_halt

_V = TypeVar("_V")
_OPENING = (CommandKind.CREATE, CommandKind.OPEN)


class Place(Enum):
    """Where a node stands to the last committed step."""

    ABSENT = auto()
    """Not there: never joined, silent, shut down, or its newest life has said nothing yet."""
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
    IN_PLACE = auto()


@dataclass(frozen=True, slots=True)
class Standing:
    """A node's place, which wait it is (`what`), a clause for people, and how long it may last (0: for ever)."""

    place: Place
    what: tuple[str | int, ...] = ()
    text: str = ""
    limit_ms: int = 0


LOST = (Place.ABSENT, Place.CLOSED, Place.BROKEN)
"""Only a command, a new life or a person makes these nodes come back."""
_IN_PLACE = Standing(Place.IN_PLACE)


def standing(state: CoordinatorState, node: int, limits: LimitsSpec) -> Standing:
    """Where a node stands, judged by what its newest life said last."""
    life = state.view.incarnation(node)
    if life is None:
        return Standing(Place.ABSENT, ("join",), f"node {node} has not joined")
    said = state.view.node_state(node)
    if said is None or is_silent(state, node, limits):
        return Standing(Place.ABSENT, ("silent", life), f"node {node} says nothing")
    if said.claim_epoch != state.epoch:
        return Standing(Place.UNAWARE, ("claim", life), f"node {node} has not seen this coordinator's claim")
    command = state.commands.get(node)
    if command is not None and command.incarnation == life:
        told = _told(state, command, said, limits)
        if told is not None:
            return told
    return _at_rest(state, said, limits)


def _told(state: CoordinatorState, command: Command, said: NodeState, limits: LimitsSpec) -> Standing | None:
    """What the newest command to this life makes of it; None if it is done and over."""
    node, done = said.node, has_done(said, command)
    match command.kind:
        case CommandKind.CREATE | CommandKind.OPEN if not done:
            text = f"node {node} opens step {command.step}"
            return Standing(Place.BUSY, ("open", command.serial), text, limits.open_timeout_ms)
        case CommandKind.STEP if command.step > state.steps.step:
            return Standing(Place.DANGLING, ("attempt", command.serial), f"node {node} holds an attempt that is over")
        case CommandKind.STOP if not done:
            return Standing(Place.BUSY, ("stop", command.serial), f"node {node} closes", limits.open_timeout_ms)
        case CommandKind.SHUTDOWN:
            return Standing(Place.ABSENT, ("shutdown", command.serial), f"node {node} was shut down and has not joined again")
    return None


def _at_rest(state: CoordinatorState, said: NodeState, limits: LimitsSpec) -> Standing:
    node, committed = said.node, state.steps.step
    if said.attempt is not None:
        if said.step >= committed:
            return Standing(Place.DANGLING, ("attempt", said.step), f"node {node} holds an attempt that is over")
        return Standing(
            Place.BUSY, ("finish", said.step), f"node {node} finishes step {said.step + 1}", limits.replay_timeout_ms
        )
    if said.phase is NodePhase.FAILED and state.forgiven.get(node) != (said.command_epoch, said.command_serial):
        return Standing(Place.BROKEN, ("failed",), f"node {node} failed: {said.error}")
    if said.phase in (NodePhase.CLOSED, NodePhase.FAILED):
        return Standing(Place.CLOSED, ("closed",), f"node {node} is closed")
    if said.step > committed:
        return Standing(Place.DANGLING, ("ahead", said.step), f"node {node} is ahead of the log")
    if said.step < committed:
        return Standing(
            Place.BUSY, ("replay", said.step), f"node {node} replays step {said.step + 1}", limits.replay_timeout_ms
        )
    return _IN_PLACE


def has_done(said: NodeState, command: Command) -> bool:
    """Whether the node has carried out this command, or a newer one."""
    return (said.command_epoch, said.command_serial) >= (command.claim_epoch, command.serial)


def is_silent(state: CoordinatorState, node: int, limits: LimitsSpec) -> bool:
    """Whether a node has said nothing for too long; never while the coordinator itself may not have listened."""
    if state.caught_up_ms < 0:
        return False
    return state.now_ms - _heard_ms(state, node) >= limits.heartbeat_timeout_ms


def _heard_ms(state: CoordinatorState, node: int) -> int:
    life, heard_ms = state.heard.get(node, (-1, -1))
    return max(state.caught_up_ms, heard_ms if life == state.view.incarnation(node) else -1)


def wake_before_silence(turn: Turn, node: int, limits: LimitsSpec) -> None:
    """Ask for a tick when the node's silence would become too long."""
    state = turn.state
    if state.caught_up_ms >= 0 and not is_silent(state, node, limits):
        turn.wake_at(_heard_ms(state, node) + limits.heartbeat_timeout_ms)


def give(turn: Turn, node: int, kind: CommandKind, step: int, work: StepWork | None = None) -> Command:
    """Make the next command for a node's newest life and remember it; the caller publishes it."""
    state = turn.state
    state.serial += 1
    life = state.view.lives[node]
    command = Command(state.pipeline, state.epoch, state.serial, node, life, kind, step, work)
    state.commands = {**state.commands, node: command}
    return command


def assemble(turn: Turn, nodes: int) -> list[str]:
    """Look at every node once and tell it what it needs; what is still waited for, as clauses. None left: all are in place.

    May set `halt`, when a node is broken or was lost once too often.
    """
    limits = turn.limits()
    waiting: list[str] = []
    commands: list[Command] = []
    for node in range(nodes):
        _count_losses(turn, node)
        now = standing(turn.state, node, limits)
        if now.place is Place.IN_PLACE:
            turn.state.waits = _without(turn.state.waits, node)
            wake_before_silence(turn, node, limits)
            continue
        waiting.append(now.text)
        if now.place in LOST:
            turn.state.assembled = False
        if now.place is Place.BROKEN:
            turn.state.halt = now.text
        elif not _out_of_time(turn, node, now):
            wake_before_silence(turn, node, limits)
            commands.extend(_remedy(turn, node, now))
    if commands:
        turn.effects.append(Publish(tuple(commands)))
    return waiting


def all_in_place(state: CoordinatorState, spec: PipelineSpec) -> bool:
    """Whether a step can be asked of every node now."""
    return all(standing(state, node, spec.limits).place is Place.IN_PLACE for node in range(spec.nodes))


def unread(state: CoordinatorState, nodes: int) -> str:
    """What shows that the log of steps holds more than was read, or ''.

    A node is never ahead of the log. If one has read what this coordinator has not, the end that this one was told of is that
    of a broker that is behind: a leader that was elected a moment ago, or one that was deposed and has not heard of it.
    """
    steps = state.steps
    for node in range(nodes):
        said, replaying = state.view.node_state(node), state.view.replaying(node)
        step = max(0 if said is None else said.step, 0 if replaying is None else replaying.step)
        if step > steps.step:
            return f"node {node} has read step {step} in the log of steps, which was read to step {steps.step} only"
        if said is not None and said.checkpoint > steps.checkpoint:
            return (
                f"node {node} has read the checkpoint of step {said.checkpoint} in the log of steps, which was read to that of "
                f"step {steps.checkpoint} only"
            )
    return ""


def roll_back(turn: Turn, nodes: int) -> None:
    """Take from every node the attempt that it may still hold, and nothing else: for a pipeline that is not to run now."""
    limits = turn.limits()
    commands: list[Command] = []
    for node in range(nodes):
        now = standing(turn.state, node, limits)
        if now.place is Place.DANGLING:
            commands.extend(_remedy(turn, node, now))
    if commands:
        turn.effects.append(Publish(tuple(commands)))


def _remedy(turn: Turn, node: int, now: Standing) -> list[Command]:
    state = turn.state
    if now.place is Place.DANGLING:
        return _open(turn, node)
    if now.place is Place.CLOSED:
        if state.now_ms >= state.retry.not_before_ms:
            return _open(turn, node)
        turn.wake_at(state.retry.not_before_ms)
    return []


def _open(turn: Turn, node: int) -> list[Command]:
    """At the newest step that the node can open and go on from; from nothing if there is none.

    From nothing means before step 1, and the log run again; without state it means after the last step, whatever the log still
    holds and whoever made it. When the log's oldest steps were dropped, a node that can't open any later one halts the
    pipeline. Nothing is done before the node knows of the checkpoints that took their place.
    """
    state = turn.state
    steps, said, spec = state.steps, state.view.node_state(node), state.view.spec()
    if spec is None:
        return []
    openable = () if said is None else said.openable
    step = max((one for one in openable if one > 0 and steps.can_begin_at(one, spec.nodes)), default=0)
    if step > 0:
        return [give(turn, node, CommandKind.OPEN, step)]
    if not spec.stateful:
        return [give(turn, node, CommandKind.CREATE, steps.step)]
    if steps.can_begin_at(0, spec.nodes):
        return [give(turn, node, CommandKind.CREATE, 0)]
    if said is not None and said.checkpoint >= steps.checkpoint:
        state.halt = _nothing_to_open(state, node, openable)
    return []


def _nothing_to_open(state: CoordinatorState, node: int, openable: tuple[int, ...]) -> str:
    steps = state.steps
    checkpoints = ", ".join(str(one.step) for one in steps.checkpoints) or "none"
    can_open = ", ".join(map(str, openable)) or "none"
    return (
        f"node {node} of pipeline {state.pipeline} can't be opened: the log holds steps {steps.first} to {steps.step}, so it "
        f"must begin at one from {steps.first - 1} to {steps.step}. Steps that it can open, from its own disk or from a "
        f"checkpoint: {can_open}; checkpoints in the log: {checkpoints}. Put the files of a checkpoint back or give the node "
        "access to them, start the node again, then resume the pipeline"
    )


def _out_of_time(turn: Turn, node: int, now: Standing) -> bool:
    """Whether the wait is over its limit; then it is counted and the node is told to open again."""
    state = turn.state
    wait = state.waits.get(node)
    if wait is None or wait.what != now.what:
        wait = Wait(now.what, state.now_ms)
        state.waits = {**state.waits, node: wait}
    if not now.limit_ms:
        return False
    if state.now_ms - wait.since_ms < now.limit_ms:
        turn.wake_at(wait.since_ms + now.limit_ms)
        return False
    count_failure(turn, FailureKind.LOST, f"{now.text}, for more than {now.limit_ms} ms")
    state.waits = _without(state.waits, node)
    if not state.halt:
        turn.effects.extend(Publish((command,)) for command in _open(turn, node))
    return True


def _count_losses(turn: Turn, node: int) -> None:
    """A node that was told to open and died, or closed again with an error, has failed once more."""
    state = turn.state
    command = state.commands.get(node)
    if command is None or command.kind not in _OPENING:
        return
    said = state.view.node_state(node)
    if command.incarnation != state.view.incarnation(node):
        text = f"node {node} ended while it opened step {command.step}, or replayed from there"
    elif said is not None and said.phase is NodePhase.CLOSED and has_done(said, command):
        text = f"node {node} could not open step {command.step}, or replay from there: {said.error or 'no reason given'}"
    else:
        return
    state.commands = _without(state.commands, node)
    count_failure(turn, FailureKind.LOST, text)


def count_failure(turn: Turn, kind: FailureKind, text: str) -> None:
    """Remember what failed, put the next try off, and halt if it was one too many."""
    state, limits = turn.state, turn.limits()
    state.failure = Failure(kind, text)
    state.retry = after_failure(state.retry, kind, limits, state.now_ms)
    if must_halt(state.retry, kind, limits):
        state.halt = f"{text}. Look for the cause, then resume the pipeline"


def _without(mapping: Mapping[int, _V], key: int) -> Mapping[int, _V]:
    return {one: value for one, value in mapping.items() if one != key} if key in mapping else mapping
