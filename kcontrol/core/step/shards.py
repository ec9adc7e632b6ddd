"""Which node has which rows, where rows meet by key across nodes.

A shard is a partition of Spark's state: the hash of the columns by which rows are exchanged, modulo the number of shuffle
partitions.
"""

from __future__ import annotations


def owner_of(shard: int, nodes: int) -> int:
    """The node to which the rows of a shard are sent."""
    return shard % nodes
