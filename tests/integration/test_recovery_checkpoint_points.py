"""SIGKILL between any two messages of a checkpoint on the node's side; for the coordinator's see
`test_recovery_wiped`.

Whatever is cut off, the checkpoints before it stay usable: the pipeline ends with a wiped
disk and goes on from the newest.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kcontrol.settings.cluster import ClusterSettings
from tests.integration.recovery import PATIENCE_S, Stage, stage

pytestmark = pytest.mark.timeout(1_200)

NODE_POINTS = (
    "PinStep:1",
    "StepPinned:1",
    "SavePart:1",
    "PartSaved:1",
    "Publish.CheckpointPart:1",
    "DropParts:1",
)
RECORDS = 20


@pytest.fixture
def running(settings: ClusterSettings, tmp_path: Path) -> Iterator[Stage]:
    with stage(settings.bootstrap_servers, tmp_path, "saving") as made:
        made.checkpoints = str(tmp_path / "checkpoints")
        made.checkpoint_every = "200 ms"
        yield made


def until_saved(running: Stage) -> None:
    """Until the newest committed step is in a checkpoint."""
    running.orders.until_status(
        lambda status: status.checkpoint == status.step, "the newest step is saved", PATIENCE_S
    )


@pytest.mark.heavy
def test_the_node_dies_at_each_point_of_a_checkpoint(running: Stage) -> None:
    running.coordinator()
    last = running.node_dies_at(NODE_POINTS, RECORDS)
    until_saved(running)
    last.kill()
    running.wipe()
    last.start()
    running.orders.produce(RECORDS)
    running.until_done("what was saved can be restored")
    running.orders.check()
