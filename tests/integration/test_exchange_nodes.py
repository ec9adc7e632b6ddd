"""Rows meet by key across real nodes, whose inputs are partitioned by nothing: what comes out is what one node would give,
step by step. Totals by key are shown by `test_reset_exchange`, one of whose nodes dies meanwhile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from examples.topic_reading import read_topics
from kcontrol.settings.cluster import ClusterSettings
from tests.support.exchanged import FILE, Exchanged
from tests.support.processes import run_kcontrol

pytestmark = pytest.mark.timeout(3_600)

PATIENCE_S = 900.0
"""Of one command; nothing is asserted about time."""
ROUNDS, EACH = 2, 150


def run_to_the_end(pipeline: Exchanged, directory: Path) -> None:
    """All nodes and a coordinator, on one core each, as often as there are rounds of records."""
    for _ in range(ROUNDS):
        pipeline.produce(EACH)
        command(pipeline, directory, "run", str(FILE), "--until-caught-up", "--master", "local[1]")


def command(pipeline: Exchanged, directory: Path, *arguments: str) -> str:
    env = {**pipeline.env, "XDG_DATA_HOME": str(directory / "home")}
    done = run_kcontrol(*arguments, "--json", env=env, cwd=directory, timeout_s=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check_again(pipeline: Exchanged, directory: Path) -> None:
    """Every step, run again from the log, gives what it gave."""
    said = command(pipeline, directory, "verify", str(FILE), "--master", "local[2]")
    verdicts = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert {each["node"] for each in verdicts} == set(range(pipeline.nodes))
    assert all(each["agrees"] for each in verdicts)


def plannings(pipeline: Exchanged, directory: Path) -> list[str]:
    """By node, how the last life of it has planned its queries."""
    nodes = json.loads(command(pipeline, directory, "status", pipeline.name))["nodes"]
    return [each["planning"] for each in nodes]


TOGETHER = (
    ("spent", "logged", "named", "seen"),
    ("liked", "grand", "windows", "fresh"),
    ("paired", "expired", "reminded", "sessions"),
)
"""Queries of one pipeline, since it is processes that start which take the time. Of one node too: so the oracle says what
one node gives."""
CHAINED = [(1, ("doubled",)), (2, ("doubled", "summed")), (3, ("doubled", "summed"))]
"""One aggregation behind another. On one node Spark runs only those that are both in append mode."""


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("nodes", "queries"),
    [*[(nodes, queries) for queries in TOGETHER for nodes in (1, 2, 3)], *CHAINED],
    ids=lambda given: ",".join(given) if isinstance(given, tuple) else str(given),
)
def test_each_kind_of_query_gives_what_one_node_gives(
    settings: ClusterSettings, tmp_path: Path, queries: tuple[str, ...], nodes: int
) -> None:
    pipeline = Exchanged(settings, queries, nodes)
    run_to_the_end(pipeline, tmp_path)
    pipeline.check()
    check_again(pipeline, tmp_path)


KEPT = (
    ("spent", "logged", "seen", "liked"),
    ("grand", "combined", "added", "bought"),
    ("texts",),
)
"""Queries without a watermark, a join or timers: the plans of all of them, and of who sends to them, are kept."""


@pytest.mark.heavy
@pytest.mark.parametrize("queries", KEPT, ids=",".join)
@pytest.mark.parametrize("nodes", [2, 3])
def test_plans_that_are_kept_give_what_one_node_gives(
    settings: ClusterSettings, tmp_path: Path, queries: tuple[str, ...], nodes: int
) -> None:
    pipeline = Exchanged(settings, queries, nodes)
    run_to_the_end(pipeline, tmp_path)
    pipeline.check()
    assert plannings(pipeline, tmp_path) == ["once"] * nodes
    check_again(pipeline, tmp_path)


@pytest.mark.heavy
def test_what_is_planned_once_and_what_spark_plans_each_step_go_on_from_each_other(
    settings: ClusterSettings, tmp_path: Path
) -> None:
    """They keep the same directories, of queries with state and of those that only send."""
    pipeline = Exchanged(settings, ("spent", "seen", "liked"), 2)
    for plan_once in (True, False, True, False):
        pipeline.plan_once = plan_once
        pipeline.produce(EACH)
        command(pipeline, tmp_path, "run", str(FILE), "--until-caught-up", "--master", "local[1]")
        ways = {*plannings(pipeline, tmp_path)}
        assert ways == ({"once"} if plan_once else {"each step: plan_once=False"})
    pipeline.check()
    for plan_once in (True, False):
        pipeline.plan_once = plan_once
        check_again(pipeline, tmp_path)


@pytest.mark.heavy
@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_rows_that_are_combined_before_give_what_all_rows_give(
    settings: ClusterSettings, tmp_path: Path, nodes: int
) -> None:
    pipeline = Exchanged(settings, ("combined", "closed"), nodes)
    run_to_the_end(pipeline, tmp_path)
    pipeline.check()
    check_again(pipeline, tmp_path)


@pytest.mark.heavy
@pytest.mark.parametrize("nodes", [1, 2])
def test_two_queries_read_one_exchange(settings: ClusterSettings, tmp_path: Path, nodes: int) -> None:
    pipeline = Exchanged(settings, ("added", "bought"), nodes)
    run_to_the_end(pipeline, tmp_path)
    pipeline.check()
    check_again(pipeline, tmp_path)


@pytest.mark.heavy
def test_nodes_that_read_no_input_receive(settings: ClusterSettings, tmp_path: Path) -> None:
    pipeline = Exchanged(settings, ("spent", "windows"), nodes=3, partitions={"clicks": 1})
    run_to_the_end(pipeline, tmp_path)
    steps = pipeline.check()
    pieces = [piece for step in steps for piece in step["exchanges"] if piece["runs"]]
    of_input = [piece for piece in pieces if not piece["exchange"].endswith("-deliver")]
    assert {piece["partition"] // 2 for piece in of_input} == {0}, "two writers a node"
    assert {run["node"] for piece in of_input for run in piece["runs"]} == {0, 1, 2}
    check_again(pipeline, tmp_path)


@pytest.mark.heavy
def test_what_any_node_has_read_is_written_by_one_into_fewer_partitions_than_nodes(
    settings: ClusterSettings, tmp_path: Path
) -> None:
    pipeline = Exchanged(settings, ("passed", "filed"), nodes=3)
    run_to_the_end(pipeline, tmp_path)
    steps = pipeline.check()
    sent = {
        (piece["exchange"], piece["partition"] // 2, run["node"])
        for step in steps for piece in step["exchanges"] for run in piece["runs"]
    }  # fmt: skip
    assert sent == {
        (f"{name}-deliver", node, writer)
        for name, writer in (("passed", 2), ("filed", 0))
        for node in range(3)
    }
    check_again(pipeline, tmp_path)


@pytest.mark.heavy
def test_what_one_node_reads_alone_meets_by_key_on_all_and_is_written_by_another_alone(
    settings: ClusterSettings, tmp_path: Path
) -> None:
    pipeline = Exchanged(settings, ("spent", "windows", "grand"), reader=0)
    run_to_the_end(pipeline, tmp_path)
    steps = pipeline.check()
    pieces = [piece for step in steps for piece in step["exchanges"] if piece["runs"]]
    sent = {
        name: {(piece["partition"] // 2, run["node"]) for piece in pieces for run in piece["runs"]
               if piece["exchange"].startswith(name) and not piece["exchange"].endswith("-deliver")}
        for name in ("spent", "windows", "grand")
    }  # fmt: skip
    both = {(0, 0), (0, 1)}
    assert sent == {"spent": both, "windows": both, "grand": {(0, 0)}}, (
        "one sends to all; a total has one shard"
    )
    delivered = {(piece["partition"] // 2, run["node"]) for piece in pieces for run in piece["runs"]
                 if piece["exchange"] == "grand-deliver"}  # fmt: skip
    assert delivered == {(0, 1)}, "the only partition is the other node's"
    check_again(pipeline, tmp_path)


@pytest.mark.heavy
def test_keys_stay_where_they_are_by_shard(settings: ClusterSettings, tmp_path: Path) -> None:
    pipeline = Exchanged(settings, ("placed",))
    run_to_the_end(pipeline, tmp_path)
    steps = pipeline.check()
    assert {piece["exchange"] for step in steps for piece in step["exchanges"]} == {"placed_1"}
    places = {
        (message.key(), message.partition())
        for message in read_topics(settings.bootstrap_servers, [f"{pipeline.name}-placed"])
    }
    assert len(places) == len({key for key, _ in places}) > 1, "each key is in one partition"
    check_again(pipeline, tmp_path)
