"""Ranges of several partitions that are read as one: the same records as one by one,
whatever part of them came together."""

from __future__ import annotations

import os
import random
import secrets

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kcontrol.adapters.kafka.read.ranges import RangeReader, ReadLimits
from kcontrol.errors import InputGoneError
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.conftest import BehindProxy
from tests.integration.data_path import DEADLINE_S, as_rows, consume, table_rows, topic_id
from tests.support.proxy import Cut
from tests.support.transactions import transactional as transactional_producer
from tests.support.transactions import until_settled

PARTITIONS = 6
_FETCH = 1


def fill(settings: ClusterSettings, topic: str, rng: random.Random) -> None:
    """Records of all sizes, some in aborted transactions; the last partition stays empty."""
    transactional = transactional_producer(settings, **{"linger.ms": 0})
    plain = Producer({"bootstrap.servers": settings.bootstrap_servers, "linger.ms": 1, "batch.size": 8192})
    for _ in range(6):
        transactional.begin_transaction()
        for _ in range(100):
            value = os.urandom(rng.choice([0, 20, 300, 5_000]))
            rng.choice([transactional, plain]).produce(
                topic, value, secrets.token_bytes(4), partition=rng.randrange(PARTITIONS - 1)
            )
        assert transactional.flush(DEADLINE_S) == 0
        (transactional.commit_transaction if rng.random() < 0.5 else transactional.abort_transaction)(
            DEADLINE_S
        )
    assert plain.flush(DEADLINE_S) == 0
    until_settled(settings, topic, PARTITIONS)


def test_ranges_read_together_are_those_read_alone(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    seed = int(os.environ.get("RANGES_SEED") or secrets.randbelow(1_000_000))
    print(f"RANGES_SEED={seed}")  # noqa: T201 - shown by pytest when it fails
    rng = random.Random(seed)
    topic = topic_factory("together", PARTITIONS)
    fill(settings, topic, rng)
    id_ = topic_id(settings, topic)
    rows = {partition: as_rows(consume(settings, topic, partition)) for partition in range(PARTITIONS)}
    ends = {partition: found[-1]["offset"] + 1 if found else 0 for partition, found in rows.items()}

    for fetch_max_bytes in (1, 30_000, 200_000, 8 << 20):
        for _ in range(5):
            cuts = {p: sorted([rng.randint(0, end), rng.randint(0, end)]) for p, end in ends.items()}
            ranges = [(p, *cuts[p]) for p in rng.sample(range(PARTITIONS), rng.randint(1, PARTITIONS))]
            reader = RangeReader(settings, ReadLimits(fetch_max_bytes=fetch_max_bytes, run_bytes=10_000))
            found = reader.read_each("in", topic, id_, ranges)
            wanted = [row for p, from_, to in ranges for row in rows[p] if from_ <= row["offset"] < to]
            assert table_rows(list(found)) == wanted
            assert found.records == len(wanted)
            for (partition, from_, to), digest in zip(ranges, found.digests, strict=True):
                alone = reader.read("in", topic, id_, partition, from_, to)
                list(alone)
                assert digest == alone.digest


def test_one_that_is_gone_is_named_and_those_before_it_are_read(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("one-gone", 3)
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers})
    for partition in range(3):
        for number in range(10):
            producer.produce(topic, f"{number}".encode(), partition=partition)
    assert producer.flush(DEADLINE_S) == 0
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    for deleted in admin.delete_records([TopicPartition(topic, 1, 5)]).values():
        deleted.result(DEADLINE_S)

    found = RangeReader(settings).read_each(
        "in", topic, topic_id(settings, topic), [(0, 0, 10), (1, 0, 10), (2, 0, 10)]
    )
    with pytest.raises(
        InputGoneError, match=rf"topic '{topic}', partition 1: offsets 0 to 10 .* only 5 to 10 are there"
    ):
        list(found)


@pytest.mark.parametrize("cut", list(Cut))
def test_a_connection_that_breaks_while_they_come(behind_proxy: BehindProxy, cut: Cut) -> None:
    direct, topic = behind_proxy.direct, behind_proxy.topic(partitions=4)
    producer = Producer(
        {"bootstrap.servers": direct.bootstrap_servers, "linger.ms": 0, "batch.num.messages": 10}
    )
    for number in range(400):
        producer.produce(topic, f"{number}".encode(), partition=number % 4)
    assert producer.flush(DEADLINE_S) == 0
    ranges = [(partition, 0, 100) for partition in range(4)]
    found = RangeReader(behind_proxy.through, ReadLimits(fetch_max_bytes=1, together_bytes=1)).read_each(
        "in", topic, topic_id(direct, topic), ranges
    )
    behind_proxy.proxy.cut_next(_FETCH, cut)
    batches = [next(found)]
    for _ in range(12):
        behind_proxy.proxy.cut_next(_FETCH, cut)
        batches.append(next(found))
    rows = table_rows([*batches, *found])
    assert [(row["partition"], row["offset"]) for row in rows] == [
        (p, o) for p in range(4) for o in range(100)
    ]


def test_small_ranges_of_a_long_backlog_bring_little_more_than_themselves(behind_proxy: BehindProxy) -> None:
    direct, topic = behind_proxy.direct, behind_proxy.topic(partitions=2)
    producer = Producer(
        {"bootstrap.servers": direct.bootstrap_servers, "linger.ms": 50, "batch.size": 20_000}
    )
    for number in range(60_000):
        producer.produce(topic, b"." * 100, partition=number % 2)
    assert producer.flush(DEADLINE_S) == 0
    reader, id_ = RangeReader(behind_proxy.through), topic_id(direct, topic)
    for step in range(20):
        from_, to = step * 500, step * 500 + 500
        found = reader.read_each("in", topic, id_, [(0, from_, to), (1, from_, to)])
        assert [row["offset"] for row in table_rows(list(found))] == [
            *range(from_, to),
            *range(from_, to),
        ]
    # Of 100,000 wanted in each; 6 MB of backlog lie behind them.
    assert behind_proxy.proxy.answered_bytes < 20 * 500_000


def test_a_few_records_out_of_large_batches_of_many_partitions_come_in_few_requests(
    behind_proxy: BehindProxy,
) -> None:
    partitions, batch_bytes, records = 64, 250_000, 20
    direct, proxy, topic = behind_proxy.direct, behind_proxy.proxy, behind_proxy.topic(partitions=64)
    producer = Producer(
        {"bootstrap.servers": direct.bootstrap_servers, "linger.ms": 500, "batch.size": batch_bytes}
    )
    for partition in range(partitions):
        producer.produce_batch(topic, [{"value": b"." * 1_000}] * 250, partition=partition)
    assert producer.flush(DEADLINE_S) == 0
    reader, id_ = RangeReader(behind_proxy.through), topic_id(direct, topic)
    for step in range(3):
        requests, bytes_ = proxy.requests[_FETCH], proxy.answered_bytes
        from_, to = step * records, (step + 1) * records
        found = reader.read_each("in", topic, id_, [(number, from_, to) for number in range(partitions)])
        rows = table_rows(list(found))
        assert [(row["partition"], row["offset"]) for row in rows] == [
            (number, offset) for number in range(partitions) for offset in range(from_, to)
        ]
    # Four megabytes at a time, once it is known how large the batches are; two batches at most for each.
    assert proxy.requests[_FETCH] - requests <= 10
    assert proxy.answered_bytes - bytes_ <= 2 * partitions * (batch_bytes + 10_000)
