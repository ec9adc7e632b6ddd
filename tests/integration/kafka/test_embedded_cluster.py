"""Three embedded brokers are a cluster as production has it: it outlives any of them, and
comes back after all were killed."""

from __future__ import annotations

import os
import secrets
import signal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka import admin as untyped_admin

from kcontrol.adapters.kafka.embedded import EmbeddedBroker, EmbeddedCluster
from kcontrol.errors import ClusterError, ConfigurationError
from tests.support.patience import HANG_S
from tests.support.processes import until

_kafka: Any = untyped_admin
DEADLINE_S = HANG_S


def _admin(cluster: EmbeddedCluster) -> Any:
    return _kafka.AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})


def _new_topic(cluster: EmbeddedCluster) -> str:
    name = f"kept-{secrets.token_hex(4)}"
    admin = _admin(cluster)
    admin.create_topics([_kafka.NewTopic(name, 1)])[name].result(DEADLINE_S)
    until(lambda: _replication(cluster, name) == {3}, f"{name} is seen", DEADLINE_S)
    return name


def _produce(cluster: EmbeddedCluster, topic: str, *values: bytes) -> None:
    """Each acknowledged by all replicas that are in sync."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 0}
    )
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(DEADLINE_S) == 0


def _read(cluster: EmbeddedCluster, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": secrets.token_hex(4), "log_level": 0}
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return [message.value() or b"" for message in consumer.consume(count, DEADLINE_S)]
    finally:
        consumer.close()


def _commit_a_transaction(cluster: EmbeddedCluster, topic: str, value: bytes) -> None:
    options = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "transactional.id": secrets.token_hex(4),
        "log_level": 0,
    }
    producer = Producer(options)
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    producer.produce(topic, value)
    producer.commit_transaction(DEADLINE_S)


def _setting(cluster: EmbeddedCluster, topic: str, name: str) -> str:
    resource = _kafka.ConfigResource(_kafka.ResourceType.TOPIC, topic)
    admin = _admin(cluster)
    return str(admin.describe_configs([resource])[resource].result(DEADLINE_S)[name].value)


def _replication(cluster: EmbeddedCluster, topic: str) -> set[int]:
    found = _admin(cluster).list_topics(topic, timeout=DEADLINE_S).topics[topic]
    return {len(partition.replicas) for partition in found.partitions.values()}


def _until_safe(cluster: EmbeddedCluster, topic: str) -> None:
    """The broker that is asked may be behind, and not know of it yet."""

    def is_safe() -> bool:
        return _replication(cluster, topic) == {3} and _setting(cluster, topic, "min.insync.replicas") == "2"

    until(is_safe, f"{topic} is on all three, and a write needs two", DEADLINE_S)


def test_topics_are_on_all_three_and_a_write_needs_two(cluster3: EmbeddedCluster) -> None:
    topic = _new_topic(cluster3)
    _commit_a_transaction(cluster3, topic, b"a transaction")
    assert len(_read(cluster3, topic, 1)) == 1
    assert len(set(cluster3.bootstrap_servers.split(","))) == 3
    for name in (topic, "__transaction_state"):
        _until_safe(cluster3, name)
        assert _setting(cluster3, name, "unclean.leader.election.enable") == "false"


def test_the_group_coordinators_topic_is_as_safe(cluster3: EmbeddedCluster) -> None:
    topic = _new_topic(cluster3)
    consumer = Consumer(
        {"bootstrap.servers": cluster3.bootstrap_servers, "group.id": secrets.token_hex(4), "log_level": 0}
    )
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()
    _until_safe(cluster3, "__consumer_offsets")


def test_a_killed_leader_is_replaced_and_comes_back(whole_cluster3: EmbeddedCluster) -> None:
    topic = _new_topic(whole_cluster3)
    _produce(whole_cluster3, topic, b"before")
    leader = whole_cluster3.leader(topic)

    os.kill(whole_cluster3.brokers[leader].pid, signal.SIGKILL)
    assert whole_cluster3.brokers[leader].wait() == -signal.SIGKILL
    assert not whole_cluster3.is_running
    _produce(whole_cluster3, topic, b"meanwhile")

    until(lambda: whole_cluster3.leader(topic) != leader, "another leader is named", DEADLINE_S)
    assert _read(whole_cluster3, topic, 2) == [b"before", b"meanwhile"]
    whole_cluster3.brokers[leader].start()
    assert whole_cluster3.is_running


def test_a_paused_controller_is_replaced(whole_cluster3: EmbeddedCluster) -> None:
    topic = _new_topic(whole_cluster3)
    _produce(whole_cluster3, topic, b"before")
    controller = whole_cluster3.controller()
    whole_cluster3.brokers[controller].pause()
    until(lambda: whole_cluster3.controller() != controller, "another controller is in charge", DEADLINE_S)
    _produce(whole_cluster3, topic, b"meanwhile")
    whole_cluster3.brokers[controller].resume()
    assert _read(whole_cluster3, topic, 2) == [b"before", b"meanwhile"]


def test_all_three_are_killed_and_come_back_with_their_data(whole_cluster3: EmbeddedCluster) -> None:
    topic = _new_topic(whole_cluster3)
    _commit_a_transaction(whole_cluster3, topic, b"before")
    servers = whole_cluster3.bootstrap_servers

    whole_cluster3.kill()
    assert not any(broker.is_running for broker in whole_cluster3.brokers.values())
    whole_cluster3.start()

    assert whole_cluster3.bootstrap_servers == servers
    _commit_a_transaction(whole_cluster3, topic, b"after")
    assert _read(whole_cluster3, topic, 2) == [b"before", b"after"]


def _formatted(directory: Path) -> None:
    (directory / "data").mkdir(parents=True)
    (directory / "data" / "meta.properties").write_text("version=1\ncluster.id=abc\nnode.id=1\n")


def test_a_directory_of_another_number_of_brokers_is_refused(tmp_path: Path) -> None:
    for node in (1, 2, 3):
        _formatted(tmp_path / f"broker-{node}")
    with pytest.raises(ClusterError, match="broker-1, broker-2, broker-3, which can't become one of 2"):
        EmbeddedCluster(tmp_path, 2)
    with pytest.raises(ClusterError, match="holds the data of a cluster"):
        EmbeddedBroker(tmp_path).start()


def test_a_directory_of_a_single_broker_is_refused(tmp_path: Path) -> None:
    _formatted(tmp_path)
    with pytest.raises(ClusterError, match="holds the data of a single broker"):
        EmbeddedCluster(tmp_path)


def test_ports_that_can_not_be_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="between 1 and 65535"):
        EmbeddedCluster(tmp_path, 3, port=65534)
