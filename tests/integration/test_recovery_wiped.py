"""A node that has lost its disk begins with the newest checkpoint and replays what came after it, no more.

The first checkpoints are saved although one coordinator after the other is killed between two messages of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcontrol.settings.cluster import ClusterSettings
from tests.integration.recovery import PATIENCE_S, Stage, stage
from tests.support.processes import KcontrolProcess, run_kcontrol

pytestmark = pytest.mark.timeout(900)

COORDINATOR_POINTS = ("ControlSeen.CheckpointPart:1", "CommitCheckpoint:1", "CheckpointCommitted:1")
RECORDS = 20


@pytest.fixture
def running(settings: ClusterSettings, tmp_path: Path) -> Iterator[Stage]:
    with stage(settings.bootstrap_servers, tmp_path, "wiped") as made:
        made.checkpoints = str(tmp_path / "checkpoints")
        yield made


def save(running: Stage) -> int:
    """Ask for a checkpoint as a user does; its step."""
    result = run_kcontrol(
        "checkpoint", running.orders.name, "--json", env=running.orders.env, timeout_s=PATIENCE_S
    )
    assert result.returncode == 0, result.stderr
    step: int = json.loads(result.stdout)["step"]
    return step


def logged(running: Stage, kind: str) -> list[dict[str, Any]]:
    """All control records of one kind that compaction has left, oldest first."""
    result = run_kcontrol("log", running.orders.name, "--json", env=running.orders.env)
    assert result.returncode == 0, result.stderr
    entries = [json.loads(line) for line in result.stdout.splitlines()]
    return [entry for entry in entries if entry["record"] == kind]


def test_a_node_whose_disk_is_gone_goes_on_from_the_newest_checkpoint(running: Stage) -> None:
    orders = running.orders
    node = running.node()
    node.says("joins", PATIENCE_S)
    coordinator = _coordinators_die_while_they_save(running)
    first = save(running)
    orders.produce(1_500)
    running.until_done()
    second = save(running)
    assert second > first
    assert orders.status()["checkpoint"] == second
    orders.produce(1_500)
    running.until_done("steps that only a replay can bring back")
    last = orders.status()["step"]
    assert last > second

    node.kill()
    running.wipe()
    node.start()
    orders.produce(100)
    running.until_done("a node with an empty disk restores and replays")
    assert second in {command["step"] for command in logged(running, "Command") if command["kind"] == "open"}
    assert {replayed["step"] for replayed in logged(running, "Replaying")} <= set(range(second + 1, last + 1))

    node.kill()
    coordinator.kill()
    running.wipe()
    third = orders.status()["checkpoint"]
    coordinator.start()
    node.start()
    orders.produce(100)
    running.until_done("everything killed, and the disk gone")
    assert third == second
    assert save(running) > last
    orders.check()


def _coordinators_die_while_they_save(running: Stage) -> KcontrolProcess:
    """Everybody who has asked for a checkpoint gets it; the coordinator that lives."""
    asking: list[KcontrolProcess] = []

    def ask() -> None:
        running.until_step(1)
        asking.append(running.saving())

    coordinator = running.coordinator_dies_at(COORDINATOR_POINTS, RECORDS, ask)
    for each in asking:
        assert each.wait(PATIENCE_S) == 0, each.text()
    return coordinator
