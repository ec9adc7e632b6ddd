"""The state of a checkpoint's queries, in directories that Spark's state data source reads.

It wants every partition of an operator in one directory, and its ids in the record of the batch. So where nodes have run
each its own shards, the directory is put together as for a node that owns all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kcontrol.adapters.spark.state.assembling import PartsOfNodes, QueryNeeds, Taker
from kcontrol.adapters.spark.state.linking import fit_restored


@dataclass(frozen=True)
class GatheredState:
    """Of a query. places: by node, a directory of the query. nodes: by shard, the node that owned it, where one directory
    has the shards of all."""

    places: Mapping[int, Path]
    nodes: Mapping[int, int] = field(default_factory=dict)


def gathered(
    parts: PartsOfNodes, target: Path, check: Callable[[], None] = lambda: None
) -> dict[str, GatheredState]:
    """By query with state. check: asked between two directories, may raise. Raises CheckpointError."""
    found: dict[str, GatheredState] = {}
    for query, nodes in sorted(parts.with_state().items()):
        if all(parts.held(node)[query].cut for node in nodes):
            check()
            all_of_it = Taker(nodes[0], (nodes[0],) * len(parts.owner))
            parts.bring(query, QueryNeeds(stateful=True, cut=True), all_of_it, target / "all")
            found[query] = GatheredState({nodes[0]: target / "all" / query}, dict(enumerate(parts.owner)))
            continue
        for node in nodes:
            check()
            parts.bring_whole(query, node, target / f"node-{node}")
        found[query] = GatheredState({node: target / f"node-{node}" / query for node in nodes})
    for directory in target.iterdir() if target.is_dir() else ():
        fit_restored(directory, directory)
    return found
