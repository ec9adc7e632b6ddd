"""What is said about checkpoints: asked for by users, saved by nodes, recorded by coordinators."""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.core.model.assignment import Assignment, SavedPart


@dataclass(frozen=True, slots=True)
class CheckpointRequest:
    """`p/checkpoint/request`: save the pipeline's state now."""

    pipeline: str
    request_id: str
    committed: int = 0
    """The last committed step that whoever asks has read: nothing older is an answer."""


@dataclass(frozen=True, slots=True)
class CheckpointAnswer:
    """What became of a `CheckpointRequest`."""

    request_id: str
    step: int
    """The step that is saved, if there is no error."""
    error: str


@dataclass(frozen=True, slots=True)
class ShardSize:
    """How much of the state a shard is, as it is saved."""

    shard: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SavedFiles:
    """What an engine has put into the checkpoint location for one node and one step."""

    manifest: str
    """Where the list of the files is; it was written last."""
    files: int
    size_bytes: int
    shards: tuple[ShardSize, ...] = ()
    """Of each shard that it holds, by number."""


@dataclass(frozen=True, slots=True)
class CheckpointPart:
    """`p/node/N/INC/checkpoint`: the node's part of a checkpoint is saved, or why it is not."""

    pipeline: str
    node: int
    incarnation: int
    claim_epoch: int
    command_serial: int
    """With `claim_epoch`: the command that asked for it. The same step may be asked for again."""
    step: int
    manifest: str
    files: int
    size_bytes: int
    error: str
    shards: tuple[ShardSize, ...] = ()
    """Of each shard that it holds, by number; (): there are none, or an older kcontrol has saved it."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`checkpoint/S` in the steps topic: the state of every node after step S is saved."""

    pipeline: str
    step: int
    claim_epoch: int
    """Of the coordinator that made it."""
    boundary_offset: int
    """Of `step/S`, in the same topic."""
    location: str
    parts: tuple[SavedPart, ...]
    """By node number."""
    begun_ms: int
    """The coordinator's clock when the nodes were told to save."""
    now_ms: int
    """The coordinator's clock just before it asked for the commit."""
    request_id: str
    """The request that it answers; '' if it was made by the clock alone."""
    first_step: int
    """The oldest step that is in the log from then on; 0: not said."""
    resized_step: int
    """The newest step from `first_step` on that the step after it was not made by as
    many nodes as; 0 if there is none."""
    begin_offset: int
    """Of the boundary of the oldest checkpoint that is kept, this one included: whoever begins to read there,
    knowing this record, knows all that counts. -1: not said."""
    assignment: Assignment | None = None
    """By which the state was divided that was saved; None: the layout was never changed, and each shard was its first
    owner's (`saved_owners`)."""

    def part_of(self, node: int) -> SavedPart | None:
        """What a node has to open; None if there was no such node then."""
        return next((part for part in self.parts if part.node == node), None)
