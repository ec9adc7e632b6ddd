"""What the bench sees of a peer on a real broker: its commits, open transactions, and what its output comes to."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from itertools import count

import pytest
from confluent_kafka import Consumer, IsolationLevel, Producer, TopicPartition

from bench.peers.checks import Output, check
from bench.peers.progress import Progress, progress
from bench.topics import KEYS, create_topics, fill, record
from kcontrol.settings.cluster import ClusterSettings
from tests.support.patience import HANG_S
from tests.support.processes import until

PARTITIONS = 2
RECORDS = 2 * KEYS


class MadeUpPeer:
    """Writes in transactions what a test says, and where the group stands with it."""

    def __init__(self, servers: str, group: str, source: str, sink: str) -> None:
        self._source, self._sink = source, sink
        self._consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
        self._producer = Producer({"bootstrap.servers": servers, "transactional.id": group})
        self._producer.init_transactions(HANG_S)

    def begin(self, values: dict[bytes | int, bytes]) -> None:
        """A transaction with these values, by key or, where there is none, by any number."""
        self._producer.begin_transaction()
        for key, value in values.items():
            self._producer.produce(self._sink, value, key if isinstance(key, bytes) else None)
        self._producer.flush(HANG_S)

    def commit(self, records: int) -> None:
        """With a place in the source after so many records."""
        places = [
            TopicPartition(self._source, partition, records // PARTITIONS) for partition in range(PARTITIONS)
        ]
        self._producer.send_offsets_to_transaction(places, self._consumer.consumer_group_metadata(), HANG_S)
        self._producer.commit_transaction(HANG_S)

    def abort(self) -> None:
        self._producer.abort_transaction(HANG_S)

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def bootstrap_servers(settings: ClusterSettings) -> str:
    return settings.bootstrap_servers


@pytest.fixture
def sink(bootstrap_servers: str) -> str:
    name = f"peer-{uuid.uuid4().hex[:8]}"
    create_topics(bootstrap_servers, name, f"{name}-source", partitions=PARTITIONS)
    fill(bootstrap_servers, f"{name}-source", RECORDS, PARTITIONS)
    return name


@pytest.fixture
def peer(bootstrap_servers: str, sink: str) -> Iterator[MadeUpPeer]:
    made = MadeUpPeer(bootstrap_servers, sink, f"{sink}-source", sink)
    yield made
    made.close()


@pytest.fixture
def seen(bootstrap_servers: str, sink: str) -> Iterator[Progress]:
    with progress(bootstrap_servers, sink, f"{sink}-source", sink, PARTITIONS) as found:
        yield found


def output(servers: str, sink: str, seen: Progress) -> Output:
    """Kafka answers a commit before its markers are in all partitions."""

    def settled() -> bool:
        return seen.ends(IsolationLevel.READ_UNCOMMITTED) == seen.ends(IsolationLevel.READ_COMMITTED)

    until(settled, "the markers are there", HANG_S)
    return Output(servers, sink, seen.ends(IsolationLevel.READ_COMMITTED))


def values(first: int, end: int) -> dict[bytes | int, bytes]:
    return {number: record(number)[1] for number in range(first, end)}


def test_aborted_records_count_for_nothing(
    bootstrap_servers: str, sink: str, peer: MadeUpPeer, seen: Progress
) -> None:
    peer.begin(values(0, 1_000))
    peer.commit(1_000)
    peer.begin(values(500, 1_500))
    peer.abort()
    assert seen.committed() == 1_000
    check("passthrough", output(bootstrap_servers, sink, seen), 1_000)
    with pytest.raises(RuntimeError, match="500 are missing"):
        check("passthrough", output(bootstrap_servers, sink, seen), 1_500)


def test_it_is_over_only_when_no_transaction_is_open(peer: MadeUpPeer, seen: Progress) -> None:
    peer.begin(values(0, 1_000))
    peer.commit(1_000)
    peer.begin(values(1_000, RECORDS))
    looked = count(1)

    def commit_at_the_third_look() -> None:
        if next(looked) == 3:
            peer.commit(RECORDS)

    looks = seen.watch(RECORDS, commit_at_the_third_look)
    assert [look.records for look in looks] == [1_000]
    assert next(looked) > 3


def test_the_last_row_of_each_key_is_found_however_far_back_it_is(
    bootstrap_servers: str, sink: str, peer: MadeUpPeer, seen: Progress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.peers.checks.TAIL_RECORDS", 10)
    counts = {record(number)[0]: [number] for number in range(KEYS)}
    for number in range(KEYS, RECORDS):
        counts[record(number)[0]].append(number)
    rows: dict[bytes | int, bytes] = {key: b"%d,%d" % (len(each), sum(each)) for key, each in counts.items()}
    peer.begin(dict.fromkeys(rows, b"1,1"))
    peer.commit(1_000)
    peer.begin(rows)
    peer.commit(RECORDS)
    check("aggregate", output(bootstrap_servers, sink, seen), RECORDS)
    peer.begin({record(3)[0]: b"3,3"})
    peer.commit(RECORDS)
    with pytest.raises(RuntimeError, match="1 keys have a wrong last row"):
        check("aggregate", output(bootstrap_servers, sink, seen), RECORDS)
