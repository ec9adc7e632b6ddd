"""The broker is killed with all that is on it and comes back on its data: nothing
acknowledged is lost, nothing doubled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kcontrol.adapters.kafka.embedded import EmbeddedBroker
from tests.integration.recovery import PATIENCE_S, Stage, stage

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path / "broker") as broker:
        yield broker


@pytest.fixture
def running(own_broker: EmbeddedBroker, tmp_path: Path) -> Iterator[Stage]:
    with stage(own_broker.bootstrap_servers, tmp_path, "broker") as made:
        yield made


def test_the_broker_is_killed_alone_and_with_all_others(own_broker: EmbeddedBroker, running: Stage) -> None:
    orders = running.orders
    coordinator, node = running.coordinator(), running.node()
    node.says("joins", PATIENCE_S)
    orders.produce(100)
    running.until_step(1)

    own_broker.kill()
    own_broker.start()
    orders.produce(100)
    running.until_done("sessions wait for the broker and go on")

    orders.produce(100)
    own_broker.kill()
    coordinator.kill()
    node.kill()
    own_broker.start()
    coordinator.start()
    node.start()
    running.until_done("all of them come back")
    orders.check()
