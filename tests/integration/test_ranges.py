"""Exact ranges from a real broker: every codec, transactions in every state, gaps, and reads
that are cut into many fetches."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kcontrol.adapters.kafka.client.background import close_clients
from kcontrol.adapters.kafka.embedded import EmbeddedBroker
from kcontrol.adapters.kafka.read.ranges import RangeReader, ReadLimits, range_schema
from kcontrol.errors import RetriableError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.digest import EMPTY, DigestKind, record_digest
from tests.conftest import TopicFactory
from tests.integration.data_path import DEADLINE_S, as_rows, consume, table_rows, topic_id
from tests.support.topics import create_topic
from tests.support.transactions import transactional, until_settled

START_MS = int(time.time() * 1000)
"""Of today: retention goes by what the records say."""


def read(
    settings: ClusterSettings,
    topic: str,
    from_: int,
    to: int,
    headers: bool = False,
    limits: ReadLimits | None = None,
) -> list[dict[str, object]]:
    found = RangeReader(settings, limits).read(
        "in", topic, topic_id(settings, topic), 0, from_, to, headers=headers
    )
    batches = list(found)
    assert all(batch.schema == range_schema(headers=headers) and batch.num_rows for batch in batches)
    rows = table_rows(batches)
    assert found.records == len(rows)
    if headers:
        wanted = EMPTY
        for row in rows:
            pairs = [(header["key"], header["value"]) for header in row["headers"]]
            when = (row["timestamp"] // 1000, bool(row["timestampType"]))
            wanted += record_digest(DigestKind.INPUT, row["offset"], row["key"], row["value"], pairs, *when)
        assert found.digest == wanted
    return rows


def produce(settings: ClusterSettings, topic: str, count: int, seed: int, **options: object) -> None:
    rng = random.Random(seed)
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers, "linger.ms": 5, **options})
    for number in range(count):
        headers = [("name", b"content"), ("empty", b""), ("none", None)][: rng.randint(0, 3)]
        key = rng.choice([None, b"", f"key-{number}".encode()])
        value = rng.choice([None, b"", b"value " * rng.randint(1, 200)])
        producer.produce(topic, value, key, partition=0, headers=headers, timestamp=START_MS + number)
    assert producer.flush(DEADLINE_S) == 0


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression_of_another_client(
    settings: ClusterSettings, topic_factory: TopicFactory, codec: str
) -> None:
    topic = topic_factory(f"codec-{codec}")
    produce(settings, topic, 700, seed=1, **{"compression.type": codec})
    wanted = as_rows(consume(settings, topic), headers=True)
    assert len(wanted) == 700
    assert read(settings, topic, 0, 700, headers=True) == wanted
    assert read(settings, topic, 13, 600, headers=True) == wanted[13:600]


def test_reading_goes_on_with_new_connections_after_the_old_ones_were_closed(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("closed")
    produce(settings, topic, 10, seed=3)
    before = read(settings, topic, 0, 10)
    old = next(thread for thread in threading.enumerate() if thread.name == "kcontrol-kafka")
    close_clients()
    close_clients()
    assert not old.is_alive()
    assert read(settings, topic, 0, 10) == before


def test_a_range_does_not_depend_on_how_it_is_fetched(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("chunks")
    # Batches of some kilobytes, so that one byte as limit still brings a whole batch a fetch (KIP-74).
    produce(settings, topic, 2000, seed=2, **{"batch.size": 8192})
    wanted = as_rows(consume(settings, topic))
    for fetch_max_bytes in (1, 20_000, 1 << 20):
        limits = ReadLimits(fetch_max_bytes=fetch_max_bytes, run_bytes=10_000)
        assert read(settings, topic, 0, 2000, limits=limits) == wanted
    pieces = [
        row for from_ in range(0, 2000, 333) for row in read(settings, topic, from_, min(from_ + 333, 2000))
    ]
    assert pieces == wanted


def test_append_time(settings: ClusterSettings, topic_factory: TopicFactory) -> None:
    topic = topic_factory("append-time", config={"message.timestamp.type": "LogAppendTime"})
    produce(settings, topic, 50, seed=3)
    rows = read(settings, topic, 0, 50)
    assert rows == as_rows(consume(settings, topic))
    assert {row["timestampType"] for row in rows} == {1}


def test_transactions_committed_aborted_and_mixed(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("transactions")
    rng = random.Random(5)
    producers = [transactional(settings, f"{topic}-{number}", **{"linger.ms": 0}) for number in range(3)]
    expected = set()
    for round_ in range(12):
        for producer in producers:
            producer.begin_transaction()
        names = [f"{round_}-{number}" for number in range(20)]
        fates = [rng.random() < 0.5 for _ in producers]
        for name in names:
            number = rng.randrange(3)
            producers[number].produce(topic, f"{name}".encode(), partition=0)
            producers[number].flush(DEADLINE_S)
            if fates[number]:
                expected.add(name)
        for producer, commit in zip(producers, fates, strict=True):
            (producer.commit_transaction if commit else producer.abort_transaction)(DEADLINE_S)
    until_settled(settings, topic)
    wanted = as_rows(consume(settings, topic))
    end = wanted[-1]["offset"] + 1

    assert {row["value"].decode() for row in wanted} == expected
    assert read(settings, topic, 0, end, limits=ReadLimits(fetch_max_bytes=1)) == wanted
    for from_, to in [(0, end), (7, end - 9), (end // 2, end // 2 + 5)]:
        assert read(settings, topic, from_, to) == [row for row in wanted if from_ <= row["offset"] < to]


def test_an_open_transaction_is_waited_for_and_never_read(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("open")
    produce(settings, topic, 5, seed=6)
    producer = transactional(settings)
    producer.begin_transaction()
    producer.produce(topic, b"not yet", partition=0)
    producer.flush(DEADLINE_S)

    assert len(read(settings, topic, 0, 5)) == 5
    with pytest.raises(
        RetriableError, match=r"input 'in'.*offsets 5 to 6 .*committed records reach only to offset 5"
    ):
        read(settings, topic, 0, 6, limits=ReadLimits(deadline_ms=700))

    found = RangeReader(settings, ReadLimits(together_bytes=1)).read(
        "in", topic, topic_id(settings, topic), 0, 0, 6
    )
    first = next(found)
    producer.commit_transaction(DEADLINE_S)
    rows = table_rows([first, *found])
    assert [row["value"] for row in rows[5:]] == [b"not yet"]


def test_gaps_of_a_compacted_topic(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path, properties={"log.cleaner.backoff.ms": "50"}) as broker:
        topic = "compacted"
        config = {
            "cleanup.policy": "compact",
            "segment.ms": "100",
            "min.cleanable.dirty.ratio": "0.001",
            "delete.retention.ms": "0",
        }
        create_topic(broker.settings, topic, config=config)
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0, "batch.num.messages": 7}
        )
        sent = 0
        deadline = time.monotonic() + DEADLINE_S
        while len(consume(broker.settings, topic)) > sent // 2 or sent < 400:
            assert time.monotonic() < deadline, "the cleaner has not run"
            for number in range(100):
                producer.produce(topic, f"{sent}".encode(), f"{number % 13}".encode(), partition=0)
                sent += 1
            assert producer.flush(DEADLINE_S) == 0

        # The cleaner may run again at any moment: what is there before and after a read bounds what it may
        # find.
        before = as_rows(consume(broker.settings, topic))
        rows = read(broker.settings, topic, 0, sent)
        after = as_rows(consume(broker.settings, topic))
        assert len(rows) < sent
        assert all(row in before for row in rows)
        assert all(row in rows for row in after)


def test_an_empty_range_asks_nobody(settings: ClusterSettings) -> None:
    nowhere = ClusterSettings(bootstrap_servers="127.0.0.1:1")
    found = RangeReader(nowhere).read("in", "t", "AAAAAAAAAAAAAAAAAAAAAA", 0, 7, 7)
    assert list(found) == []
    assert found.digest == EMPTY
