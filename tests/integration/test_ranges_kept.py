"""Ranges that follow each other within a batch: it comes once, and each has its records, whoever was aborted before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from kcontrol.adapters.kafka.client.partitions import Partitions
from kcontrol.adapters.kafka.read.ranges import RangeReader
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.data_path import DEADLINE_S, topic_id
from tests.support.transactions import transactional, until_settled

RECORDS = 200


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many fetches there have been since it was asked last."""
    count = 0
    really = Partitions.fetch

    async def counted(self: Partitions, *asked: Any) -> Any:
        nonlocal count
        count += 1
        return await really(self, *asked)

    def since() -> int:
        nonlocal count
        found, count = count, 0
        return found

    monkeypatch.setattr(Partitions, "fetch", counted)
    return since


def values(reader: RangeReader, topic: str, id_: str, from_: int, to: int) -> list[bytes]:
    return [
        value
        for rows in reader.read("in", topic, id_, 0, from_, to)
        for value in rows.column("value").to_pylist()
    ]


def numbers(from_: int, to: int) -> list[bytes]:
    return [b"%d" % number for number in range(from_, to)]


def write_batch(settings: ClusterSettings, topic: str) -> None:
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers, "linger.ms": 60_000})
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(DEADLINE_S) == 0


def test_a_batch_that_several_ranges_lie_in_comes_once(
    settings: ClusterSettings, topic_factory: TopicFactory, fetched: Callable[[], int]
) -> None:
    topic = topic_factory("kept", 1)
    write_batch(settings, topic)
    id_, reader = topic_id(settings, topic), RangeReader(settings)
    fetched()
    for from_ in range(0, RECORDS, 50):
        assert values(reader, topic, id_, from_, from_ + 50) == numbers(from_, from_ + 50)
    assert fetched() == 1
    assert values(reader, topic, id_, 0, RECORDS) == numbers(
        0, RECORDS
    )  # again from before what the last one needed
    write_batch(settings, topic)
    assert values(reader, topic, id_, RECORDS - 10, RECORDS + 10) == numbers(RECORDS - 10, RECORDS) + numbers(
        0, 10
    )


def test_what_was_aborted_before_a_range_is_not_taken_for_what_is_in_it(
    settings: ClusterSettings, topic_factory: TopicFactory, fetched: Callable[[], int]
) -> None:
    """One producer aborts, and then commits: its batches are told apart by the marker between them."""
    topic = topic_factory("kept-aborted", 1)
    producer = transactional(settings)
    for end in (producer.abort_transaction, producer.commit_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for number in range(10):
            producer.produce(topic, b"%d" % number, partition=0)
        assert producer.flush(DEADLINE_S) == 0
        end(DEADLINE_S)
    until_settled(settings, topic)
    id_, reader = topic_id(settings, topic), RangeReader(settings)
    fetched()
    assert values(reader, topic, id_, 0, 5) == []
    assert values(reader, topic, id_, 5, 13) == numbers(0, 2)  # 10 is the marker
    assert values(reader, topic, id_, 13, 25) == numbers(2, 10) + numbers(0, 3)  # 21 is the next
    assert fetched() == 1
