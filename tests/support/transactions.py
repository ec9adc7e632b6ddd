"""Input as a transactional producer leaves it, with records that were aborted; and waiting for markers."""

from __future__ import annotations

import secrets

from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from kcontrol.settings.cluster import ClusterSettings
from tests.support.patience import HANG_S
from tests.support.processes import until

DEADLINE_S = HANG_S

TRANSACTION_MS = 600_000
"""How long a transaction of a test may stay open: the broker aborts it then, and that shall not happen because the whole
machine stood still for a while. Whoever tests that gives another time."""


def transactional(settings: ClusterSettings, name: str = "", **more: object) -> Producer:
    """Ready to begin. name: its transactional id; '' for one of its own."""
    producer = Producer(
        {
            "bootstrap.servers": settings.bootstrap_servers,
            "transactional.id": name or secrets.token_hex(4),
            "transaction.timeout.ms": TRANSACTION_MS,
            **more,
        }
    )
    producer.init_transactions(DEADLINE_S)
    return producer


def abort_then_commit(settings: ClusterSettings, topic: str, partition: int) -> None:
    """Six offsets: two records that are aborted and the marker, two that are committed and the marker."""
    producer = transactional(settings)
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for _ in range(2):
            producer.produce(topic, b"x", partition=partition)
        producer.flush(DEADLINE_S)
        end(DEADLINE_S)
    until_settled(settings, topic, partition + 1)


def until_settled(settings: ClusterSettings, topic: str, partitions: int = 1) -> None:
    """Until no transaction is open in its first partitions: Kafka answers a commit before its markers are written, and what was
    committed is seen by nobody until then."""
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    places = [TopicPartition(topic, partition) for partition in range(partitions)]

    def ends(level: IsolationLevel) -> list[int]:
        asked = admin.list_offsets({place: OffsetSpec.latest() for place in places}, isolation_level=level)
        return [asked[place].result(DEADLINE_S).offset for place in places]

    until(
        lambda: ends(IsolationLevel.READ_COMMITTED) == ends(IsolationLevel.READ_UNCOMMITTED),
        f"all transactions in {topic} have ended",
        DEADLINE_S,
    )
