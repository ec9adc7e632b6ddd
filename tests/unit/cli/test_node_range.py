"""How many nodes a job is to have, as users say it."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from kcontrol.apps.agent.fitting import Nodes, unused_percentage
from kcontrol.cli.cluster import place
from kcontrol.cli.node_range import NodesType, asked_nodes
from kcontrol.cli.submit import submit
from kcontrol.core.cluster.model import EMPTY, Bounds, ClusterJob, ClusterPolicy, Scheduler, TaskSpec

NOWHERE = ("--bootstrap-servers", "nowhere:1")


def job(nodes: int, bounds: Bounds | None = None, percentage: int = 0) -> ClusterJob:
    tasks = (TaskSpec("nodes", nodes, nodes),)
    return ClusterJob("p", 1, 1, 1, "r", "file:p.py", tasks, percentage=percentage, bounds=bounds)


@pytest.mark.parametrize(
    ("said", "meant"),
    [("3", Nodes(3, 3)), ("2..8", Nodes(2, 8)), ("2..", Nodes(2, None)), ("4..4", Nodes(4, 4))],
)
def test_a_number_or_between_which_numbers(said: str, meant: Nodes) -> None:
    assert NodesType().convert(said, None, None) == meant
    assert meant.follows == (meant.least != meant.most)


@pytest.mark.parametrize("said", ["0", "", "x", "..3", "3..2", "2...4", "-1", "2..x", "1.5"])
def test_what_is_neither_is_refused(said: str) -> None:
    with pytest.raises(click.BadParameter):
        NodesType().convert(said, None, None)


def test_a_percentage_is_for_a_number_that_follows_the_cluster() -> None:
    assert asked_nodes(Nodes(2, None), 75) == Nodes(2, None, 75)
    assert asked_nodes(None, None) is None
    for nodes in (None, Nodes(3, 3)):
        with pytest.raises(click.UsageError, match=r"say --nodes LEAST\.\.MOST"):
            asked_nodes(nodes, 75)
    said = CliRunner().invoke(place, ["p.py", "--job", "p", "--percentage", "75", *NOWHERE])
    assert (said.exit_code, "say --nodes LEAST..MOST" in said.output) == (2, True)


def test_it_is_for_agents_only() -> None:
    said = CliRunner().invoke(submit, ["p.py", "--nodes", "2..", "--no-place", *NOWHERE])
    assert said.exit_code != 0
    assert "is for agents" in str(said.exception or said.output)


def test_a_job_begins_with_what_it_has_or_with_the_least() -> None:
    assert Nodes(2, 8).to_begin_with(None) == 2
    assert [Nodes(2, 8).to_begin_with(job(has)) for has in (1, 5, 9)] == [2, 5, 8]
    assert Nodes(2, None).to_begin_with(job(9)) == 9
    assert Nodes(3, 3).to_begin_with(job(9)) == 3


def test_the_same_again_changes_nothing() -> None:
    assert Nodes(2, 8, 75).are_those_of(job(3, Bounds(2, 8), 75))
    assert not Nodes(2, 8).are_those_of(job(3, Bounds(2, 8), 75))
    assert Nodes(3, 3).are_those_of(job(3))
    assert not Nodes(3, 3).are_those_of(job(3, Bounds(2, 8)))


def test_a_percentage_that_no_scheduler_looks_at_is_said() -> None:
    assert "does not look at percentages" in unused_percentage(EMPTY, Nodes(1, None, 75))
    assert not unused_percentage(EMPTY, Nodes(1, None))
    shares = EMPTY.but(policy=ClusterPolicy(scheduler=Scheduler.PERCENTAGE))
    assert not unused_percentage(shares, Nodes(1, None, 75))
