"""SIGKILL between any two messages of the step protocol: the coordinator's side and the node's
side, one point after another. `test_recovery_wiped` has those that tell.

The points are named by the messages of `kcontrol.core.events`; `tests.support.crashing` says how. One
pipeline lives through all of them, so that each crash also finds what the ones before it have left behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kcontrol.settings.cluster import ClusterSettings
from tests.integration.recovery import PATIENCE_S, Stage, stage

pytestmark = [pytest.mark.timeout(1_200), pytest.mark.heavy]

COORDINATOR_POINTS = (
    "Publish.Claim:1",
    "+Publish.Claim:1",
    "ControlSeen.Claim:1",
    "InitProducer:1",
    "ProducerReady:1",
    "ReadToEnds:1",
    "EndsReached:1",
    "AddPartitions:1",
    "PartitionsAdded:1",
    "+Publish.Command:1",
    "ControlSeen.Written:1",
    "CommitStep:1",
    "StepCommitted:1",
)
TELLING_NODE_POINTS = ("Joined:1", "EngineOpened:1", "AttemptWritten:1", "FinishStep:1", "StepFinished:1")
"""The others find the same on disk and in Kafka as one of these."""
NODE_POINTS = (
    "Joined:1",
    "OpenEngine:1",
    "EngineOpened:1",
    "ControlSeen.Command:1",
    "RunStep:1",
    "AttemptWritten:1",
    "Publish.Written:1",
    "FinishStep:1",
    "StepFinished:1",
)
TELLING_COORDINATOR_POINTS = (
    "Publish.Claim:1",
    "+Publish.Claim:1",
    "ProducerReady:1",
    "+Publish.Command:1",
    "CommitStep:1",
    "StepCommitted:1",
)
"""One of each kind of effect and answer, before or after it is carried out; all of them are a heavy run."""
RECORDS = 20


@pytest.fixture
def running(settings: ClusterSettings, tmp_path: Path) -> Iterator[Stage]:
    with stage(settings.bootstrap_servers, tmp_path, "points") as made:
        yield made


def test_the_coordinator_dies_at_each_point_of_its_protocol(running: Stage) -> None:
    node = running.node()
    node.says("joins", PATIENCE_S)
    running.coordinator_dies_at(COORDINATOR_POINTS, RECORDS)
    running.orders.check()


def test_the_node_dies_at_each_point_of_its_protocol(running: Stage) -> None:
    running.coordinator()
    running.node_dies_at(NODE_POINTS, RECORDS)
    running.orders.check()
