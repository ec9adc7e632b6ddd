"""Offsets of groups, read and written by who is no member, and who is in a group; on brokers that stop, and new ones."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from kcontrol.adapters.kafka.admin import group_offsets
from kcontrol.adapters.kafka.admin.cluster import ensure_topics
from kcontrol.adapters.kafka.admin.deliveries import DeliveryNotes
from kcontrol.adapters.kafka.admin.group_offsets import GroupOffsets, KeptOffset
from kcontrol.adapters.kafka.admin.groups import count_members
from kcontrol.adapters.kafka.client.options import confluent_options
from kcontrol.adapters.kafka.embedded.broker import EmbeddedBroker
from kcontrol.errors import ClusterError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.deliveries import ToldDelivery
from tests.conftest import TopicFactory
from tests.support.processes import until


@pytest.fixture
def another() -> Iterator[EmbeddedBroker]:
    """A broker that has coordinated no group yet."""
    with EmbeddedBroker() as broker:
        yield broker


def test_an_offset_is_read_as_it_was_written(settings: ClusterSettings, topic_factory: TopicFactory) -> None:
    offsets = GroupOffsets(settings, topic_factory("group-offsets", 1))
    group = f"{settings.prefix}.group-offsets"
    assert offsets.read(f"{group}.a") is None
    offsets.write(f"{group}.b", KeptOffset(3, "é"))
    offsets.write(f"{group}.a", KeptOffset(7, ""))
    offsets.write(f"{group}.b", KeptOffset(0, "now"))
    assert (offsets.read(f"{group}.a"), offsets.read(f"{group}.b")) == (
        KeptOffset(7, ""),
        KeptOffset(0, "now"),
    )
    assert offsets.groups(f"{group}.") == [f"{group}.a", f"{group}.b"]
    assert offsets.read_all([f"{group}.{each}" for each in "cba"]) == [
        None,
        KeptOffset(0, "now"),
        KeptOffset(7, ""),
    ]
    assert GroupOffsets(settings, topic_factory("other", 1)).read(f"{group}.b") is None


def test_what_a_consumer_has_written_is_read_without_the_end_of_its_string(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("group-offsets-of-a-consumer", 1)
    group = f"{settings.prefix}.group-offsets-of-a-consumer"
    consumer = Consumer({**confluent_options(settings), "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 5, metadata="{}")], asynchronous=False)
    consumer.close()
    assert GroupOffsets(settings, topic).read(group) == KeptOffset(5, "{}")


def test_a_coordinator_that_answers_late_is_an_error_and_nothing_worse(
    mortal_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The administration of librdkafka aborts the process at such an answer."""
    settings = mortal_broker.settings.model_copy(update={"prefix": f"late-{secrets.token_hex(3)}"})
    group = f"{settings.prefix}.g"
    ensure_topics(settings)
    offsets = GroupOffsets(settings, settings.names().control_topic())
    offsets.write(group, KeptOffset(1, "x"))
    with monkeypatch.context() as patched:
        patched.setattr(group_offsets, "MOST_MS", 300)
        mortal_broker.pause()
        for ask in (
            lambda: offsets.read(group),
            lambda: offsets.write(group, KeptOffset(2, "y")),
            lambda: offsets.groups(group),
        ):
            with pytest.raises(ClusterError, match="no answer within 300 ms"):
                ask()
        mortal_broker.resume()
    assert offsets.read(group) in (KeptOffset(1, "x"), KeptOffset(2, "y"))
    assert offsets.groups(group) == [group]


def test_what_is_told_first_of_all_on_a_new_broker_is_taken(another: EmbeddedBroker) -> None:
    settings = ClusterSettings(bootstrap_servers=another.bootstrap_servers)
    ensure_topics(settings, "p")
    notes = DeliveryNotes(settings, "p")
    assert notes.read() == []
    told = ToldDelivery(
        "out", "table", "postgresql", "exactly_once", "running", 4, 0.5, "", 1_790_000_000_000
    )
    notes.tell(told)
    assert notes.read() == [told]


def test_members_are_counted_without_a_static_one(settings: ClusterSettings) -> None:
    own = settings.model_copy(update={"prefix": f"members-{secrets.token_hex(4)}"})
    assert asyncio.run(count_members(own, "mine")) == 0
    ensure_topics(own)
    options = {**confluent_options(own), "group.id": own.names().coordinator_group()}
    consumers = [Consumer({**options, "group.instance.id": "mine"}), Consumer(options)]
    try:
        for one in consumers:
            one.subscribe([own.names().control_topic()])

        def both_are_in() -> bool:
            for one in consumers:
                one.poll(0.1)
            return asyncio.run(count_members(own, "nobody")) == len(consumers)

        until(both_are_in, "both have joined")
        assert asyncio.run(count_members(own, "mine")) == 1
    finally:
        for one in consumers:
            one.close()
