"""Input that is not there any more, connections that break, and brokers that come back."""

from __future__ import annotations

import secrets
import time

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.adapters.kafka.embedded import EmbeddedBroker
from kcontrol.adapters.kafka.read.ranges import RangeReader, ReadLimits
from kcontrol.errors import ConfigurationError, InputGoneError, RetriableError
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.conftest import BehindProxy
from tests.integration.data_path import DEADLINE_S, table_rows, topic_id
from tests.support.proxy import Cut
from tests.support.topics import create_topic

_FETCH = 1


def fill(settings: ClusterSettings, topic: str, count: int) -> None:
    producer = Producer(
        {"bootstrap.servers": settings.bootstrap_servers, "linger.ms": 0, "batch.num.messages": 10}
    )
    for number in range(count):
        producer.produce(topic, f"{number}".encode(), partition=0)
    assert producer.flush(DEADLINE_S) == 0


def test_offsets_that_retention_has_deleted(settings: ClusterSettings, topic_factory: TopicFactory) -> None:
    topic = topic_factory("retention")
    fill(settings, topic, 100)
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    for deleted in admin.delete_records([TopicPartition(topic, 0, 40)]).values():
        deleted.result(DEADLINE_S)
    reader = RangeReader(settings)
    with pytest.raises(
        InputGoneError,
        match=rf"input 'in', topic '{topic}', partition 0: offsets 30 to 90 .* only 40 to 100 are there",
    ):
        list(reader.read("in", topic, topic_id(settings, topic), 0, 30, 90))
    assert reader.read("in", topic, topic_id(settings, topic), 0, 40, 90).records == 0
    assert len(table_rows(list(reader.read("in", topic, topic_id(settings, topic), 0, 40, 90)))) == 50


def test_a_topic_that_was_recreated_never_gives_its_new_records(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("recreated")
    fill(settings, topic, 20)
    old = topic_id(settings, topic)
    reader = RangeReader(settings)
    assert len(table_rows(list(reader.read("in", topic, old, 0, 0, 20)))) == 20

    TopicAdmin(settings).delete(topic)
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    with pytest.raises(
        InputGoneError, match=rf"There is no topic '{topic}'.*Offsets 0 to 20 were to be read"
    ):
        list(reader.read("in", topic, old, 0, 0, 20))

    deadline = time.monotonic() + DEADLINE_S
    while admin.create_topics([NewTopic(topic, 1, 1)])[topic].exception(DEADLINE_S):
        assert time.monotonic() < deadline
    fill(settings, topic, 20)
    with pytest.raises(InputGoneError, match="the topic was deleted and recreated since"):
        list(reader.read("in", topic, old, 0, 0, 20))
    assert len(table_rows(list(reader.read("in", topic, topic_id(settings, topic), 0, 0, 20)))) == 20


def test_a_partition_that_never_was(settings: ClusterSettings, topic_factory: TopicFactory) -> None:
    topic = topic_factory("narrow", 2)
    with pytest.raises(InputGoneError, match="partition 2: there is no such partition; the topic has 2"):
        list(RangeReader(settings).read("in", topic, topic_id(settings, topic), 2, 0, 1))


def test_a_topic_id_that_is_none(settings: ClusterSettings) -> None:
    with pytest.raises(ConfigurationError, match="'short' is not a Kafka topic id"):
        RangeReader(settings).read("in", "t", "short", 0, 0, 1)


@pytest.mark.parametrize("cut", list(Cut))
def test_a_connection_that_breaks_in_the_middle(behind_proxy: BehindProxy, cut: Cut) -> None:
    direct, topic = behind_proxy.direct, behind_proxy.topic()
    fill(direct, topic, 200)
    found = RangeReader(behind_proxy.through, ReadLimits(fetch_max_bytes=1, together_bytes=1)).read(
        "in", topic, topic_id(direct, topic), 0, 0, 200
    )
    batches = [next(found)]
    for _ in range(5):
        behind_proxy.proxy.cut_next(_FETCH, cut)
        batches.append(next(found))
    rows = table_rows([*batches, *found])
    assert [row["offset"] for row in rows] == list(range(200))


def test_a_broker_that_dies_and_comes_back(mortal_broker: EmbeddedBroker) -> None:
    broker, topic = mortal_broker, f"dying-{secrets.token_hex(3)}"
    create_topic(broker.settings, topic)
    fill(broker.settings, topic, 200)
    wanted = topic_id(broker.settings, topic)
    limits = ReadLimits(fetch_max_bytes=1, together_bytes=1, deadline_ms=round(DEADLINE_S * 1_000))
    found = RangeReader(broker.settings, limits).read("in", topic, wanted, 0, 0, 200)
    batches = [next(found)]
    broker.kill()
    with pytest.raises(RetriableError, match="reading offsets 0 to 1 did not succeed within 300 ms"):
        list(RangeReader(broker.settings, ReadLimits(deadline_ms=300)).read("in", topic, wanted, 0, 0, 1))
    broker.start()
    rows = table_rows([*batches, *found])
    assert [row["offset"] for row in rows] == list(range(200))
