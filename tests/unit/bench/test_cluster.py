"""Contention is bounded: what a join, a death and a restart cost does not grow with the number of agents."""

from __future__ import annotations

import pytest

from bench.cluster import Cluster
from kcontrol.core.cluster.diff import diff


@pytest.mark.parametrize("agents", [4, 24])
def test_entries_do_not_grow_with_the_number_of_agents(agents: int) -> None:
    cluster = Cluster(agents)
    cluster.until_joined()
    assert len(cluster.log) == 3 * agents - 2
    cluster.submit("job", agents)
    dead, before = cluster.value.places()["job", "nodes", 0].agent, cluster.value
    cluster.kill(dead)
    assert cluster.until_joined().startswith("1 entries")
    assert f"agent {dead}: member -> unknown" in diff(before, cluster.value)
    assert "job" in {unit[0] for unit in cluster.value.places()}
    entries, moved = len(cluster.log), cluster.value.places()
    cluster.restart(cluster.value.members[0])
    for _ in range(3):
        cluster.round()
    assert len(cluster.log) == entries + 1
    assert cluster.value.places() == moved
