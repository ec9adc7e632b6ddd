"""The official Apache Kafka image through testcontainers, for machines where a Docker engine answers.

Same version and same settings as the embedded broker, so that the tests' results can be compared.
"""

from __future__ import annotations

from types import TracebackType

from testcontainers.core.container import DockerContainer
from testcontainers.core.waiting_utils import wait_for_logs

from kcontrol.settings.cluster import ClusterSettings
from tests.support.ports import free_ports

IMAGE = "apache/kafka:4.3.1"
_START_TIMEOUT_S = 120

_ENVIRONMENT = {
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
    "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://localhost:9093",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR": "1",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
}


class ContainerBroker:
    """One broker in a container; its port on this machine is fixed before the start, because Kafka advertises
    it."""

    def __init__(self) -> None:
        (self._port,) = free_ports(1)
        self._container = DockerContainer(IMAGE).with_bind_ports(9092, self._port)
        for name, value in _ENVIRONMENT.items():
            self._container = self._container.with_env(name, value)
        self._container = self._container.with_env(
            "KAFKA_ADVERTISED_LISTENERS", f"PLAINTEXT://127.0.0.1:{self._port}"
        )

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def settings(self) -> ClusterSettings:
        return ClusterSettings(bootstrap_servers=self.bootstrap_servers)

    def __enter__(self) -> ContainerBroker:
        self._container.start()
        wait_for_logs(self._container, "Kafka Server started", timeout=_START_TIMEOUT_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._container.stop()
