"""Who reads, owns and writes what, from a step on: the record of a changed layout."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PartitionNodes:
    """Of one input or output: by partition, the node that reads or writes it."""

    name: str
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SavedPart:
    """One node's part of a checkpoint."""

    node: int
    incarnation: int
    """The incarnation that saved it."""
    manifest: str
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """`assignment/NUMBER` in the steps topic: how shards and partitions are divided over the nodes in every step after
    `step`, until the next one. There is none before a pipeline's layout is changed for the first time: what follows from the
    definition alone counts then (`dealt`)."""

    pipeline: str
    number: int
    """Of the change: 1, 2 and so on."""
    step: int
    """The last step that was made by what was in force before. Where the pipeline keeps state, the log has a checkpoint of
    it, from which every node begins."""
    nodes: int
    owners: tuple[int, ...]
    """By shard, the node that owns it."""
    inputs: tuple[PartitionNodes, ...]
    outputs: tuple[PartitionNodes, ...]
    moved_shards: int
    """How many shards another node owns than before."""
    moved_bytes: int
    """About as much of the checkpoint; -1: that could not be told."""
    request_id: str
    """Who asked for it."""
    now_ms: int
    """The clock of whoever made it, just before it asked for the commit."""
    parts: tuple[SavedPart, ...] = ()
    """Where the state was cut into another number of shards: the parts of the checkpoint of `step` from then on, by node
    number. (): they are those that the nodes have saved."""
    live: bool = False
    """Made while the pipeline ran: its processes go on by it by themselves, whatever number their files say."""
    replaced: tuple[int, ...] = ()
    """Nodes that are other processes from then on: those that were these nodes end."""
