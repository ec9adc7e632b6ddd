"""Shards that other nodes own from a step on are brought to them with their state: what nodes give together is what one gives
that has run all of them from the beginning, whatever keeps the state, however many nodes there were and are."""

from __future__ import annotations

from collections import Counter

import pytest

from kcontrol.core.step.assignment import moves, rebalanced
from tests.integration.spark.conftest import MakeCluster
from tests.integration.spark.test_shards import heavy_but
from tests.support.sharded import QUERY, Cluster, Kind, state_in


@pytest.mark.parametrize("kind", heavy_but("aggregation", of=("aggregation", "join", "first in a time")))
def test_more_and_fewer_nodes_give_what_one_gives(cluster: MakeCluster, kind: Kind) -> None:
    """From two to three, to two, to one, and to three of which one owns nothing."""
    pipeline = cluster(kind, 2)
    pipeline.step()
    pipeline.step()
    for nodes in (3, 2, 1):
        check_change(pipeline, rebalanced(pipeline.owner, range(nodes)))
        pipeline.step()
        pipeline.step()
    check_change(pipeline, (0, 2, 0, 2))
    pipeline.step()
    replayed(pipeline)
    pipeline.step()


def check_change(pipeline: Cluster, owner: tuple[int, ...]) -> None:
    before = pipeline.owner
    made_of = pipeline.change(owner)
    moved = moves(before, owner)
    assert bool(made_of.moved_bytes) == bool(moved)
    assert made_of.fetched.linked_bytes > 0, "all nodes are on one host"
    for node in pipeline.nodes:
        assert node.shards is not None
        assert state_in(node.directory) == node.shards.owned
        assert node.directory.name == QUERY


def replayed(pipeline: Cluster) -> None:
    """Each node goes back to where it began with its new shards, and comes to the same."""
    last = max(pipeline.rows)
    for node in pipeline.nodes:
        given = Counter(node.out[last])
        node.roll_back(last - 1)
        assert pipeline.run(node, last) == given
