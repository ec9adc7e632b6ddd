"""Rows meet by key across real nodes, whose inputs are partitioned by nothing: what comes out is what one node would give,
step by step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kcontrol.settings.cluster import ClusterSettings
from tests.support.exchanged import FILE, Exchanged
from tests.support.processes import run_kcontrol

pytestmark = pytest.mark.timeout(3_600)

PATIENCE_S = 900.0
"""Of one command; nothing is asserted about time."""
ROUNDS, EACH = 2, 150


def run_to_the_end(pipeline: Exchanged, directory: Path, rounds: int = ROUNDS) -> None:
    """All nodes and a coordinator, on one core each, as often as there are rounds of records."""
    for _ in range(rounds):
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


def test_totals_by_key_are_those_of_one_node(settings: ClusterSettings, tmp_path: Path) -> None:
    pipeline = Exchanged(settings, ("spent", "logged"))
    run_to_the_end(pipeline, tmp_path, rounds=1)
    assert len(pipeline.check()) > 1
    check_again(pipeline, tmp_path)


@pytest.mark.heavy
@pytest.mark.parametrize("nodes", [2, 3])
@pytest.mark.parametrize("queries", [("named", "seen"), ("liked", "grand"), ("windows",)], ids=",".join)
def test_joins_and_state_behind_exchanges(
    settings: ClusterSettings, tmp_path: Path, queries: tuple[str, ...], nodes: int
) -> None:
    pipeline = Exchanged(settings, queries, nodes)
    run_to_the_end(pipeline, tmp_path)
    pipeline.check()
    check_again(pipeline, tmp_path)
