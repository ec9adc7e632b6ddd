"""The state of a real pipeline is cut into another number of shards between two runs, with records before, between and after:
what comes out is what the oracle says, and whoever is killed while it is cut has changed nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcontrol.settings.cluster import ClusterSettings
from tests.integration.test_layout_nodes import Changed
from tests.support.exchanged import FILE
from tests.support.processes import KcontrolProcess

pytestmark = [pytest.mark.timeout(3_600), pytest.mark.heavy]


def cut(changed: Changed, shards: int) -> None:
    before = changed.pipeline.shards
    planned = changed.layout("--shards", str(shards), "--plan")
    assert (planned["changed"], planned["shards_before"], planned["shards"]) == (False, before, shards)
    assert planned["rewritten_bytes"] > 0
    assert planned["estimated_seconds"] > 0
    said = changed.layout("--shards", str(shards), "--master", "local[2]")
    assert (said["changed"], said["owners"]) == (True, planned["owners"])
    assert said["mb_per_second"] > 0
    stale = changed.command("submit", str(FILE))
    assert (stale.returncode, f"has a layout of {shards} shards" in stale.stderr) == (2, True), stale.stderr
    changed.pipeline.shards = shards


@pytest.mark.parametrize("queries", [("spent", "named"), ("seen", "windows")], ids=",".join)
def test_one_node_goes_from_two_shards_to_eight_then_two_nodes_to_four(
    settings: ClusterSettings, tmp_path: Path, queries: tuple[str, ...]
) -> None:
    changed = Changed(settings, tmp_path, queries, nodes=1)
    changed.pipeline.shards = 2
    changed.run(1)
    refused = changed.command("layout", changed.pipeline.name, "--shards", "8", "--max-minutes", "0.001")
    assert (refused.returncode, "Nothing was changed" in refused.stderr) == (2, True), refused.stderr
    cut(changed, 8)
    changed.run(1)
    changed.verify(first=1)  # Those before in two shards, and from the checkpoint in between on in eight.

    changed.layout("--nodes", "2")
    changed.run(2)
    cut(changed, 4)
    changed.run(2)
    steps = changed.pipeline.check()
    assert sorted({step["layout"]["shuffle_partitions"] for step in steps}) == [2, 4, 8]
    changed.verify(first=next(step["step"] for step in steps if step["layout"]["shuffle_partitions"] == 4))


def test_a_command_that_is_killed_changes_nothing_and_is_given_again(
    settings: ClusterSettings, tmp_path: Path
) -> None:
    changed = Changed(settings, tmp_path, ("spent", "seen"), nodes=1)
    changed.pipeline.shards = 2
    changed.run(1)
    log = tmp_path / "killed.log"
    with KcontrolProcess(
        *("layout", changed.pipeline.name, "--shards", "8"), env=changed.env, cwd=tmp_path, log=log
    ) as command:
        command.says("MB of state are to be cut anew", 120)
        command.kill()
    planned = changed.layout("--shards", "4", "--plan")
    assert (planned["assignment"], planned["shards_before"]) == (1, 2)
    changed.run(1)
    cut(changed, 4)
    changed.run(1)
    assert changed.pipeline.check()[-1]["layout"]["shuffle_partitions"] == 4
