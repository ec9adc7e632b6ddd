"""Where each node stands to the last committed step, judged by what its newest incarnation said last.

Every wait for something that a living node is to do has a limit. Only for a process that is not there is there none, because
nobody here can start one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import assert_never

from kcontrol.core.coordinator.state import CoordinatorState
from kcontrol.core.coordinator.turn import Turn
from kcontrol.core.model import Command, CommandKind, LimitsSpec, NodePhase, NodeState, PipelineSpec


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
    if said.claim_epoch != state.tenure.epoch and not is_to_end(state, node):
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
    if is_to_end(state, said.node):
        return (
            f"node {said.node} says nothing ({doing}) and was told to end: start it again, unless a "
            "supervisor does"
        )
    return f"node {said.node} says nothing ({doing})"


def is_to_end(state: CoordinatorState, node: int) -> bool:
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


def all_in_place(state: CoordinatorState, spec: PipelineSpec) -> bool:
    """Whether every node holds the last step, and nothing else."""
    return all(standing(state, node, spec.limits).place is Readiness.IN_PLACE for node in range(spec.nodes))


def all_take_steps(state: CoordinatorState, spec: PipelineSpec) -> bool:
    """Whether a step can be asked of every node now."""
    takes = (Readiness.FINISHING, Readiness.IN_PLACE)
    return all(standing(state, node, spec.limits).place in takes for node in range(spec.nodes))
