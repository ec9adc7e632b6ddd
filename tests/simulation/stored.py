"""What of the checkpoint location a simulated node reads and deletes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcontrol.core.events import DropParts
from kcontrol.core.model import Checkpoint, PipelineSpec
from tests.simulation.invariants import require
from tests.simulation.states import chain, handed_over

if TYPE_CHECKING:
    from tests.simulation.world import StoredPart, World

FILES = "the files of a checkpoint in the log are there"


def held(world: World, spec: PipelineSpec, number: int, checkpoint: Checkpoint) -> tuple[object, ...] | None:
    """The state that a node has by a checkpoint: its part or, out of the parts of all who owned what it owns now, its
    shards. None: not all of it is there, or it is cut into another number of shards."""
    shards = spec.layout.shuffle_partitions
    saved_by = 0 if checkpoint.assignment is None else checkpoint.assignment.number
    if saved_by == spec.assignment:
        stored = _own(world, number, checkpoint)
        return None if stored is None or stored.shards != shards else stored.history
    parts = [world.store.get(part.manifest) for part in checkpoint.parts]
    if any(part is None or part.shards != shards for part in parts):
        return None
    return tuple(handed_over(spec.assignment, one.step) for one in chain(world, checkpoint.step))


def _own(world: World, number: int, checkpoint: Checkpoint) -> StoredPart | None:
    part = checkpoint.part_of(number)
    stored = None if part is None else world.store.get(part.manifest)
    require(part is None or stored is not None or checkpoint not in world.checkpoints, FILES, checkpoint)
    return stored


def drop(world: World, number: int, incarnation: int, effect: DropParts) -> None:
    """A node's parts that no kept checkpoint names, up to the newest of those."""
    newest = effect.kept[-1].step
    kept = {part.manifest for one in effect.kept for part in one.parts}
    for manifest, part in list(world.store.items()):
        mine = part.node == number and may_drop(part.incarnation, incarnation)
        if mine and part.step <= newest and manifest not in kept:
            del world.store[manifest]
            in_log = {one.manifest for checkpoint in world.checkpoints for one in checkpoint.parts}
            require(manifest not in in_log, FILES, manifest)


def may_drop(saved_by: int, incarnation: int) -> bool:
    """Whether a life of a node may delete what one of its lives has saved: nothing of a newer one."""
    return saved_by <= incarnation
