"""SIGKILL at the points of the step protocol that tell, on both sides, then at those of a checkpoint; and a node that has lost
its disk begins with the newest checkpoint and replays what came after it, no more.

One pipeline lives through all of it, for it is Spark that takes the time: each crash also finds what the ones before it have
left behind.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcontrol.settings.cluster import ClusterSettings
from tests.integration.recovery import PATIENCE_S, Stage, stage
from tests.integration.test_recovery_crash_points import (
    RECORDS,
    TELLING_COORDINATOR_POINTS,
    TELLING_NODE_POINTS,
)
from tests.support.processes import KcontrolProcess, run_kcontrol

pytestmark = pytest.mark.timeout(1_200)

SAVING_POINTS = ("ControlSeen.CheckpointPart:1", "CommitCheckpoint:1", "CheckpointCommitted:1")
"""The coordinator's; for the node's see `test_recovery_checkpoint_points`."""


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


def of_last_incarnation(running: Stage) -> tuple[set[int], set[int]]:
    """The steps that it was told to open, and those that it has replayed, as far as compaction has left them."""
    result = run_kcontrol("log", running.orders.name, "--json", env=running.orders.env)
    assert result.returncode == 0, result.stderr
    entries: list[dict[str, Any]] = [json.loads(line) for line in result.stdout.splitlines()]
    last = max(entry["incarnation"] for entry in entries if entry["record"] == "NodeState")
    mine = [entry for entry in entries if entry.get("incarnation") == last]
    opened = {entry["step"] for entry in mine if entry["record"] == "Command" and entry["kind"] == "open"}
    return opened, {entry["step"] for entry in mine if entry["record"] == "Replaying"}


def test_each_dies_at_the_points_that_tell_and_a_node_whose_disk_is_gone_goes_on_from_a_checkpoint(
    running: Stage,
) -> None:
    orders = running.orders
    first_coordinator = running.coordinator()
    node = running.node_dies_at(TELLING_NODE_POINTS, RECORDS)
    first_coordinator.kill()
    running.coordinator_dies_at(TELLING_COORDINATOR_POINTS, RECORDS).kill()
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

    # That a node alone loses its disk is a heavy run, at each point of a checkpoint; and chaos has it.
    node.kill()
    coordinator.kill()
    running.wipe()
    assert orders.status()["checkpoint"] == second
    coordinator.start()
    node.start()
    orders.produce(100)
    running.until_done("everything killed, and the disk gone: it restores and replays")
    opened, replayed = of_last_incarnation(running)
    assert second in opened
    assert replayed <= set(range(second + 1, last + 1))
    assert save(running) > last
    orders.check()


def _coordinators_die_while_they_save(running: Stage) -> KcontrolProcess:
    """Everybody who has asked for a checkpoint gets it; the coordinator that lives."""
    asking: list[KcontrolProcess] = []

    def ask() -> None:
        running.until_step(1)
        asking.append(running.saving())

    coordinator = running.coordinator_dies_at(SAVING_POINTS, RECORDS, ask)
    for each in asking:
        assert each.wait(PATIENCE_S) == 0, each.text()
    return coordinator
