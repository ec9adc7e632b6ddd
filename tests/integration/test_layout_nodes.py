"""A pipeline with state goes from one node to three and to two, with records between: nothing of its
state is lost, and nothing of it is there twice."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from kcontrol.settings.cluster import ClusterSettings
from tests.integration.test_exchange_nodes import PATIENCE_S
from tests.support.exchanged import FILE, Exchanged
from tests.support.processes import KcontrolProcess, objects, run_kcontrol

pytestmark = [pytest.mark.timeout(3_600), pytest.mark.heavy]

EACH = 120


class Changed:
    """A pipeline that is run and stopped on one number of nodes after the other."""

    def __init__(
        self, settings: ClusterSettings, directory: Path, queries: tuple[str, ...], nodes: int
    ) -> None:
        self.pipeline = Exchanged(settings, queries, nodes)
        # On a slow machine some are made in between, too, and a verification needs that of the change.
        self.pipeline.keep = 20
        self.directory = directory

    @property
    def env(self) -> dict[str, str]:
        return {**self.pipeline.env, "XDG_DATA_HOME": str(self.directory / "home")}

    def command(self, *arguments: str) -> CompletedProcess[str]:
        return run_kcontrol(*arguments, env=self.env, cwd=self.directory, timeout_s=PATIENCE_S)

    def run(self, nodes: int) -> None:
        """So many nodes make steps of some records, and are stopped after the last one is saved."""
        self.pipeline.nodes = nodes
        self.pipeline.produce(EACH)
        log = self.directory / f"run-{nodes}.log"
        with KcontrolProcess(
            "run", str(FILE), "--master", "local[1]", env=self.env, cwd=self.directory, log=log
        ):
            self.pipeline.until_done(f"all is committed by {nodes} nodes", PATIENCE_S)
            stopped = self.command("stop", self.pipeline.name, "--json")
            assert stopped.returncode == 0, stopped.stderr
            assert json.loads(stopped.stdout)["reason"] == "", stopped.stdout

    def verify(self, first: int) -> None:
        """All steps from there on, by as many nodes as made each, give what they gave."""
        done = self.command("verify", str(FILE), "--from", str(first), "--master", "local[2]", "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        verdicts = objects(done.stdout)
        assert all(each["agrees"] for each in verdicts)
        made = [step for step in self.pipeline.steps() if step["step"] >= first]
        expected = {(step["step"], node) for step in made for node in range(step["nodes"])}
        assert {(each["step"], each["node"]) for each in verdicts} == expected

    def layout(self, *arguments: str) -> dict[str, Any]:
        """What the command says that it has done."""
        done = self.command("layout", self.pipeline.name, *arguments, "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        said: dict[str, Any] = json.loads(done.stdout)
        return said


@pytest.mark.parametrize("queries", [("spent", "named"), ("seen", "windows")], ids=",".join)
def test_state_goes_with_its_keys_from_one_node_to_three_and_to_two(
    settings: ClusterSettings, tmp_path: Path, queries: tuple[str, ...]
) -> None:
    changed = Changed(settings, tmp_path, queries, nodes=1)
    changed.run(1)
    planned = changed.layout("--nodes", "3", "--plan")
    assert (planned["changed"], len(planned["moves"])) == (False, 2)
    said = changed.layout("--nodes", "3")
    assert [(move["shard"], move["from"]) for move in said["moves"]] == [(1, 0), (2, 0)]
    assert said["moved_bytes"] == sum(move["bytes"] for move in said["moves"]) > 0

    changed.run(3)
    changed.verify(first=1)  # By one node, and from the checkpoint in between on by three.
    changed.pipeline.nodes = 2
    refused = changed.command("submit", str(FILE))
    assert (refused.returncode, "has a layout of 3 nodes" in refused.stderr) == (2, True), refused.stderr

    left = changed.layout("--without", "1")
    assert (left["nodes"], left["renumbered"]) == (2, {"node": 2, "becomes": 1})
    assert [move["from"] for move in left["moves"]] == [1]
    changed.run(2)

    steps = changed.pipeline.check()
    assert sorted({step["nodes"] for step in steps}) == [1, 2, 3]
    changed.verify(first=next(step["step"] for step in steps if step["nodes"] == 2))


def test_one_node_does_not_take_states_apart_that_are_one_query(
    settings: ClusterSettings, tmp_path: Path
) -> None:
    """Refused where it is asked for, or when it is started: before any node has opened anything. It goes on as it was."""
    changed = Changed(settings, tmp_path, ("liked",), nodes=1)
    changed.run(1)
    changed.layout("--nodes", "2")
    changed.pipeline.nodes = 2
    refused = changed.command("submit", str(FILE))
    assert refused.returncode == 2, refused.stderr
    assert "comes from a query that keeps state" in refused.stderr
    changed.layout("--nodes", "1")
    changed.run(1)
    changed.pipeline.check()


def test_states_of_two_queries_are_not_put_together_for_one_node(
    settings: ClusterSettings, tmp_path: Path
) -> None:
    changed = Changed(settings, tmp_path, ("liked",), nodes=2)
    changed.run(2)
    refused = changed.command("layout", changed.pipeline.name, "--nodes", "1")
    assert refused.returncode == 2, refused.stderr
    assert "on one node would be one query with what is behind the exchange" in refused.stderr
    changed.run(2)
    changed.pipeline.check()
