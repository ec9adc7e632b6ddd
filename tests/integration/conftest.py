"""One broker behind a proxy for all tests whose connections break, and one for all that kill or pause it: to start one for each
would take more time than they do."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from kcontrol.adapters.kafka.client.background import close_clients
from kcontrol.adapters.kafka.embedded import EmbeddedBroker
from kcontrol.settings.cluster import ClusterSettings
from tests.integration.data_path import proxied
from tests.support.ports import free_ports
from tests.support.proxy import Proxy, proxied_properties
from tests.support.topics import create_topic


@dataclass(frozen=True)
class BehindProxy:
    """A broker, reached directly and through a proxy of this test alone."""

    direct: ClusterSettings
    through: ClusterSettings
    proxy: Proxy

    def topic(self, stem: str = "t", partitions: int = 1) -> str:
        """The name of a new one, which no other test has."""
        name = f"{stem}-{secrets.token_hex(4)}"
        create_topic(self.direct, name, partitions)
        return name


@pytest.fixture(scope="session")
def proxied_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EmbeddedBroker, int, int]]:
    """The broker, its port behind the proxy, and the proxy's."""
    port, controller, behind, before = free_ports(4)
    properties = proxied_properties(port, controller, behind, before)
    with EmbeddedBroker(tmp_path_factory.mktemp("proxied"), port=port, properties=properties) as broker:
        yield broker, behind, before
        broker.kill()


@pytest.fixture
def behind_proxy(proxied_broker: tuple[EmbeddedBroker, int, int]) -> Iterator[BehindProxy]:
    broker, behind, before = proxied_broker
    through = ClusterSettings(bootstrap_servers=f"127.0.0.1:{before}")
    with proxied(through, before, behind) as proxy:
        yield BehindProxy(broker.settings, through, proxy)
    close_clients()  # The next test has another proxy at this port.


@pytest.fixture(scope="session")
def _mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path_factory.mktemp("mortal")) as broker:
        yield broker
        broker.kill()


@pytest.fixture
def mortal_broker(_mortal: EmbeddedBroker) -> Iterator[EmbeddedBroker]:
    """One that a test may kill and pause; it is there again for the next one."""
    yield _mortal
    if _mortal.is_running:
        _mortal.resume()
    _mortal.start()
    close_clients()  # Those of the next test have seen nothing of it.
