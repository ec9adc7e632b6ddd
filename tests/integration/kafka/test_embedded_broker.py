"""The embedded broker lives as a broker does: it starts, stops, is killed, comes back with
its data, and says what is wrong."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kcontrol.adapters.kafka.embedded import EmbeddedBroker
from kcontrol.errors import ClusterError
from tests.support.patience import HANG_S

_DEADLINE_S = HANG_S


def _produce(address: str, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": address})
    producer.produce(topic, value)
    assert producer.flush(_DEADLINE_S) == 0


def _first_value(address: str, topic: str) -> bytes:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        message = consumer.poll(_DEADLINE_S)
        assert message is not None
        assert message.error() is None
        return bytes(message.value())
    finally:
        consumer.close()


def _cluster_id(broker: EmbeddedBroker) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    return str(admin.describe_cluster().result(_DEADLINE_S).cluster_id)


def test_a_killed_broker_comes_back_with_its_data_at_the_same_address(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        address = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": address})
        admin.create_topics([NewTopic("kept", 1, 1)])["kept"].result(_DEADLINE_S)
        _produce(address, "kept", b"before the crash")

        os.kill(broker.pid, signal.SIGKILL)
        assert broker.wait() == -signal.SIGKILL
        assert not broker.is_running
        broker.start()

        assert broker.bootstrap_servers == address
        assert _first_value(address, "kept") == b"before the crash"


def test_a_data_directory_is_one_brokers_at_a_time_and_kept_by_a_graceful_stop(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        cluster = _cluster_id(broker)
        with pytest.raises(ClusterError, match="Another broker uses this data directory"):
            EmbeddedBroker(tmp_path).start()
    with EmbeddedBroker(tmp_path) as again:
        assert _cluster_id(again) == cluster


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ClusterError, match=f"Port {port} .* taken"):
            EmbeddedBroker(tmp_path, port=port).start()


def test_a_wrong_server_property_fails_with_the_end_of_the_log(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path, properties={"num.io.threads": "none"})
    with pytest.raises(ClusterError, match=r"num\.io\.threads"):
        broker.start()
    assert not broker.is_running


def test_it_ends_when_the_process_that_started_it_is_killed(tmp_path: Path) -> None:
    program = (
        "import sys; from kcontrol.adapters.kafka.embedded import EmbeddedBroker;"
        f"broker = EmbeddedBroker({str(tmp_path)!r}).start(); print(broker.pid, flush=True); sys.stdin.read()"
    )
    starter = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert starter.stdout is not None
    handle = os.pidfd_open(int(starter.stdout.readline()))
    try:
        starter.kill()
        starter.wait()
        ready, _, _ = select.select([handle], [], [], _DEADLINE_S)
        assert ready == [handle]
    finally:
        os.close(handle)
