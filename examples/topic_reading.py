"""What lies in topics, from the first offset to the end, by Kafka's C client: for proofs,
independent of kcontrol's readers.

The end is asked of the broker, not taken from the client's first "end of partition": that is the last stable
offset of the moment, which moves on only after the markers of a transaction are written, and that is after
the answer to its commit.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

TIMEOUT_S = 60.0
CHUNK_RECORDS, CHUNK_TIMEOUT_S = 10_000, 0.02

ASK_TIMEOUT_S = 10.0
"""Of one request: a client that was told of no living broker, by one that has just come back,
may never ask again by itself."""
AGAIN_S = 0.1
PASSING = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._NOENT,  # the client's own word for: the broker names no leader of any partition
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.OFFSET_NOT_AVAILABLE,
    }
)
"""What a broker says that has just come back and does not yet know that it leads a partition."""

Place = tuple[str, int]


def read_topics(
    bootstrap_servers: str,
    topics: Iterable[str],
    isolation: str = "read_committed",
    timeout_s: float = TIMEOUT_S,
) -> Iterator[Message]:
    """Every record of the topics up to the end they have now, in offset order within a partition.

    Raises: KafkaException: the broker or a topic is missing, an offset is gone, or an end is not reached and
    nothing comes for `timeout_s`: a transaction was left open.
    """
    left = partition_ends(bootstrap_servers, list(topics), timeout_s=timeout_s)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "proof",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(*place, 0) for place in left])
    heard = time.monotonic()
    try:
        while left:
            # Waits until so many have come, or the time is over: short, because at the end there are not so
            # many.
            messages = consumer.consume(CHUNK_RECORDS, CHUNK_TIMEOUT_S)
            heard = time.monotonic() if messages else heard
            if time.monotonic() - heard > timeout_s:
                raise KafkaException(
                    f"{isolation}: nothing came for {timeout_s} s, and these ends are not reached: {left}"
                )
            for message in messages:
                error = message.error()
                place, offset = (message.topic() or "", message.partition() or 0), message.offset() or 0
                if error is None:
                    yield message
                elif error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                elif offset >= left.get(place, 0):
                    left.pop(place, None)
    finally:
        consumer.close()


def partition_ends(
    bootstrap_servers: str,
    topics: Collection[str],
    isolation: str = "read_uncommitted",
    timeout_s: float = TIMEOUT_S,
    admin: AdminClient | None = None,
) -> dict[Place, int]:
    """One past the last record of each partition; with read_committed, where the first open transaction
    begins.

    admin: who asks; None: a new one each time, for brokers that may have been away.

    Raises:
        KafkaException: the broker or a topic is missing, or has no leader for `timeout_s`.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return _ask_ends(
                _new_admin(bootstrap_servers) if admin is None else admin,
                topics,
                isolation,
                min(ASK_TIMEOUT_S, timeout_s),
            )
        except KafkaException as error:
            if error.args[0].code() not in PASSING or time.monotonic() > deadline:
                raise
        time.sleep(AGAIN_S)


def _new_admin(bootstrap_servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})


def _ask_ends(
    admin: AdminClient, topics: Collection[str], isolation: str, timeout_s: float
) -> dict[Place, int]:
    # A result is waited for without a limit of its own: it ends in time by the request's.
    described = admin.describe_topics(TopicCollection(list(topics)), request_timeout=timeout_s)
    parts = [
        TopicPartition(topic, each.id) for topic in topics for each in described[topic].result().partitions
    ]
    asked = admin.list_offsets(
        {part: OffsetSpec.latest() for part in parts},
        isolation_level=IsolationLevel[isolation.upper()],
        request_timeout=timeout_s,
    )
    return {(part.topic, part.partition): answer.result().offset for part, answer in asked.items()}
