"""A node's part in checkpoints: what it pins and saves, which ones it could open, and which of
its files nobody needs any more.

It pins only the step that it was asked for, and only while it holds exactly that one. What it says of its
part names the command that asked for it, so that nothing is ever taken for the part of another checkpoint.
"""

from __future__ import annotations

from kcontrol.core.events import DropParts, OpenEngine, PartSaved, SavePart
from kcontrol.core.log.keys import numbered
from kcontrol.core.model import Checkpoint, CheckpointPart, Command, SavedFiles, StepRecord, Tombstone
from kcontrol.core.node.state import NodeMachine
from kcontrol.core.node.turn import NodeTurn

_NOTHING = SavedFiles("", 0, 0)


def own_checkpoint(state: NodeMachine, step: int) -> Checkpoint | None:
    """The checkpoint of a step, if it is in the log and this node can read what it needs of it: its own part or, where the
    layout was changed after it, what others have saved of its shards."""
    found, assignment = state.steps.saved_of(step), state.steps.assignment
    if found is None or step in state.unreadable:
        return None
    handed_over = assignment is not None and assignment.step == step
    return found if handed_over or found.part_of(state.node) else None


def all_openable(state: NodeMachine) -> tuple[int, ...]:
    """Every step that this node could open and that was not made void, newest first."""
    saved = (one.step for one in state.steps.saved if own_checkpoint(state, one.step))
    held = (step for step in state.openable if state.steps.void_by(step) is None)
    return tuple(sorted({*held, *saved}, reverse=True))


def opening(state: NodeMachine, step: int, create: bool) -> OpenEngine:
    """What the engine is to do to open a step."""
    return OpenEngine(step, create, None if create else own_checkpoint(state, step))


def on_log(turn: NodeTurn, record: StepRecord | Tombstone) -> None:
    """A checkpoint that is dropped for good takes its files with it."""
    if isinstance(record, Tombstone) and numbered(record.key)[0] == "checkpoint":
        drop_parts(turn)


def drop_parts(turn: NodeTurn) -> None:
    """Delete what this node has saved and the log has no use for. With no checkpoint in the
    log, all of it may yet be used."""
    if turn.state.steps.checkpoints:
        turn.effects.append(DropParts(turn.state.steps.checkpoints))


def save(turn: NodeTurn, command: Command) -> None:
    """What was pinned is saved from now on, beside the steps; what was being saved before is not any more."""
    state, spec = turn.state, turn.state.view.spec()
    if spec is None or not spec.checkpoint.location:
        refuse(turn, command, "there is no place for checkpoints any more")
        return
    state.saving = command
    turn.effects.append(SavePart(command.step, command.claim_epoch, command.serial, spec.checkpoint.location))


def refuse(turn: NodeTurn, command: Command, error: str) -> None:
    """There will be no part for this command."""
    turn.records.append(_part(turn.state, command, _NOTHING, error))


def on_part_saved(turn: NodeTurn, event: PartSaved) -> None:
    """Say so, unless another checkpoint has been asked for since."""
    state = turn.state
    command = state.saving
    if command is None or (event.claim_epoch, event.command_serial) != (command.claim_epoch, command.serial):
        return
    state.saving = None
    turn.records.append(_part(state, command, event.saved or _NOTHING, event.error))


def _part(state: NodeMachine, command: Command, saved: SavedFiles, error: str) -> CheckpointPart:
    return CheckpointPart(
        pipeline=state.pipeline,
        node=state.node,
        incarnation=state.incarnation,
        claim_epoch=command.claim_epoch,
        command_serial=command.serial,
        step=command.step,
        manifest=saved.manifest,
        files=saved.files,
        size_bytes=saved.size_bytes,
        error=error,
        shards=saved.shards,
    )
