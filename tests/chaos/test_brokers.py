"""What chaos does to three brokers can be done, and they are whole again after it: else a
run would end at the first draw."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos.broker_faults import CUTS, BrokerFault, Duty, Scenario
from tests.chaos.brokers import ThreeBrokers
from tests.chaos.names import INPUTS
from tests.chaos.network import can_cut

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeBrokers]:
    three = ThreeBrokers(tmp_path_factory.mktemp("chaos"), cuts=can_cut())
    try:
        admin = AdminClient({"bootstrap.servers": three.bootstrap_servers, "log_level": 0})
        topics = [NewTopic(name, partitions, three.replicas) for name, partitions in INPUTS.items()]
        for future in admin.create_topics(topics).values():
            future.result(30)
        yield three
    finally:
        three.stop()


@pytest.mark.parametrize("scenario", Scenario)
def test_each_scenario_can_be_done_and_is_over_after_it(brokers: ThreeBrokers, scenario: Scenario) -> None:
    if scenario in CUTS and not can_cut():
        pytest.skip("only root can cut the network")
    at_its_worst: list[int] = []
    hit = brokers.strike(
        BrokerFault(scenario, Duty.INPUT_LEADER, 1.0, False), random.Random(1), lambda: at_its_worst.append(1)
    )
    assert at_its_worst == [1]
    assert 1 <= hit <= 3
    brokers.await_whole()
