"""Outputs whose rows go where their shards are: `KafkaOutput(partitioner="shard")`, on several nodes.

A row of shard s goes to partition s modulo the number of partitions and never leaves its node. So whoever owns a shard must
own that partition, after each change of the layout: shards and partitions move together, in classes. The classes are the
residues modulo the greatest number that divides the partitions of all such outputs; all shards of one class, and all
partitions of it, are one node's. See docs/decisions/061-by-shard.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from kcontrol.core.model import SHARED_OUT, OutputSpec, PipelineSpec
from kcontrol.core.step.assignment import Owners, rebalanced


def placed_outputs(spec: PipelineSpec) -> tuple[OutputSpec, ...]:
    """The outputs that are partitioned by shard, by what the definition says of itself."""
    return tuple(each for each in spec.outputs if each.by_shard and each.node == SHARED_OUT)


def classes_of(spec: PipelineSpec) -> int:
    """How many classes of shards there are, which move as one; 0: each shard moves alone, as on a single node, too."""
    return gcd(*(each.partitions for each in placed_outputs(spec))) if spec.nodes > 1 else 0


def rebalanced_classes(classes: int, owners: Owners, members: Sequence[int]) -> Owners:
    """The table for these nodes that moves the fewest classes. owners: whose all shards of a class are one node's."""
    table = rebalanced(owners[:classes], members)
    return repeated(table, len(owners))


def repeated(table: Sequence[int], length: int) -> Owners:
    """By shard or partition: whose its class is."""
    return tuple(table[each % len(table)] for each in range(length))


def refused_number(spec: PipelineSpec, nodes: int) -> str:
    """Why the layout that `spec` is of can't become one of so many nodes, for the sake of such outputs, or ''."""
    where = f"pipeline {spec.pipeline!r}"
    for each in placed_outputs(spec):
        if 1 in (spec.nodes, nodes):
            return (
                f"{where}: output {each.name!r} has partitioner='shard', which several nodes go by and a single one does not: "
                f"with nodes = {nodes} equal keys would be in other partitions than before. Go on with nodes = {spec.nodes}, "
                "or give the pipeline another name and its output another topic"
            )
        if each.partitions % nodes:
            return (
                f"{where}: output {each.name!r} has partitioner='shard' and {each.partitions} partitions: that must be a "
                f"multiple of the number of nodes, and is none of {nodes}"
            )
    return ""


def refused_cut(spec: PipelineSpec, shards: int) -> str:
    """Why there can't be so many shards, for the sake of such outputs, or ''."""
    for each in placed_outputs(spec):
        if spec.nodes > 1 and shards % each.partitions:
            return (
                f"pipeline {spec.pipeline!r}: output {each.name!r} has partitioner='shard' and {each.partitions} partitions, "
                f"which do not divide {shards} shards: some partitions would have more of them than others, or none"
            )
    return ""


def refused_table(spec: PipelineSpec, owners: Owners) -> str:
    """Why these nodes can't own the shards, for the sake of such outputs, or ''."""
    classes = classes_of(spec)
    if not classes or owners == repeated(owners[:classes], len(owners)):
        return ""
    named = ", ".join(repr(each.name) for each in placed_outputs(spec))
    return (
        f"pipeline {spec.pipeline!r}: output {named} has partitioner='shard', so that all shards with one remainder modulo "
        f"{classes} are one node's: they move together"
    )
