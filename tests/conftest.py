"""One real broker for the whole test session, and topics on it that no two tests share."""

from __future__ import annotations

import itertools
import os
import secrets
import signal
from collections.abc import Callable, Iterator, Mapping

import pytest
from confluent_kafka.admin import AdminClient

from kcontrol.adapters.kafka.client.background import close_clients
from kcontrol.adapters.kafka.embedded import EmbeddedBroker, EmbeddedCluster
from kcontrol.settings.cluster import ClusterSettings
from tests.support.container import ContainerBroker
from tests.support.in_sync import await_in_sync
from tests.support.java import expect_short_lives
from tests.support.patience import HANG_S
from tests.support.topics import create_topic

TopicFactory = Callable[..., str]

expect_short_lives()
# A run in the background of a script ignores what Ctrl-C sends, and so would all that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker | ContainerBroker]:
    """The embedded broker; with KCONTROL_TEST_IMAGE=1 and a Docker engine, the official image of the same
    version.

    Shared by all tests: those that kill a broker start their own (`EmbeddedBroker(tmp_path)`).
    """
    if os.environ.get("KCONTROL_TEST_IMAGE") == "1":
        with ContainerBroker() as container:
            yield container
    else:
        with EmbeddedBroker(tmp_path_factory.mktemp("broker")) as embedded:
            yield embedded
            embedded.kill()  # To stop takes the longer the more topics there are, and nobody looks at it any more.


@pytest.fixture(scope="session")
def cluster3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """Three embedded brokers, started by the first test that asks for them, which takes half a minute.

    Whoever kills or stops a broker of it brings it back: `whole_cluster3` sees to that.
    """
    with EmbeddedCluster(tmp_path_factory.mktemp("brokers")) as cluster:
        yield cluster
        cluster.kill()


@pytest.fixture
def whole_cluster3(cluster3: EmbeddedCluster) -> Iterator[EmbeddedCluster]:
    """`cluster3` for tests that hit its brokers: all of them are back, and every replica in sync, when the test is over."""
    yield cluster3
    for broker in cluster3.brokers.values():
        if broker.is_running:
            broker.resume()
    cluster3.start()
    await_in_sync(cluster3.settings.bootstrap_servers, HANG_S)


@pytest.fixture(scope="module", autouse=True)
def connections_end_with_their_module() -> Iterator[None]:
    """Else they would go on looking for a module's own broker, and log it, in the middle of whatever test
    comes later."""
    yield
    close_clients()


@pytest.fixture(scope="session")
def settings(broker: EmbeddedBroker | ContainerBroker) -> ClusterSettings:
    return broker.settings


@pytest.fixture(scope="session")
def topic_factory(settings: ClusterSettings) -> TopicFactory:
    """`topic_factory(stem, partitions=1, config={...})` creates a topic with a unique name and returns the
    name."""
    names = (f"{secrets.token_hex(3)}-{number}" for number in itertools.count())
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers, "log_level": 0})

    def create(stem: str = "topic", partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        name = f"{stem}-{next(names)}"
        create_topic(settings, name, partitions, config, admin)
        return name

    return create
