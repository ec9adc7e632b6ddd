"""Input as a transactional producer leaves it, with records that were aborted."""

from __future__ import annotations

import secrets

from confluent_kafka import Producer

from kcontrol.settings.cluster import ClusterSettings
from tests.support.patience import HANG_S

DEADLINE_S = HANG_S


def abort_then_commit(settings: ClusterSettings, topic: str, partition: int) -> None:
    """Six offsets: two records that are aborted and the marker, two that are committed and the marker."""
    producer = Producer(
        {"bootstrap.servers": settings.bootstrap_servers, "transactional.id": secrets.token_hex(4)}
    )
    producer.init_transactions(DEADLINE_S)
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for _ in range(2):
            producer.produce(topic, b"x", partition=partition)
        producer.flush(DEADLINE_S)
        end(DEADLINE_S)
