"""The topics of the bench: made, filled with numbered records, counted and dropped, with confluent-kafka
only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.queries import NUMBER_DIGITS

VALUE_BYTES = 80
KEYS = 1_000
CHUNK_RECORDS = 20_000
TIMEOUT_S = 60
_BY_KEY = -1
"""In place of a partition: the client chooses."""


def _admin(bootstrap_servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 3})


def create_topics(bootstrap_servers: str, *names: str, partitions: int) -> None:
    """Make topics anew; one that is there already is an error, because its records would be counted too."""
    admin = _admin(bootstrap_servers)
    futures = admin.create_topics(
        [NewTopic(name, partitions, 1) for name in names], operation_timeout=TIMEOUT_S
    )
    for future in futures.values():
        future.result(TIMEOUT_S)


def make_source(
    bootstrap_servers: str, name: str, records: int, partitions: int, say: Callable[[str], None]
) -> None:
    """A topic with so many records, for a pipeline to read."""
    say(f"filling the source with {records:,} records")
    create_topics(bootstrap_servers, name, partitions=partitions)
    fill(bootstrap_servers, name, records, partitions)


def delete_topics(bootstrap_servers: str, *names: str) -> None:
    """Drop topics, so that the disk a run needs stays bounded by one run."""
    admin = _admin(bootstrap_servers)
    for future in admin.delete_topics(list(names), operation_timeout=TIMEOUT_S).values():
        future.result(TIMEOUT_S)


def record(number: int, keys: int = KEYS) -> tuple[bytes, bytes]:
    """Key and value of the record with this number. Any `keys` records that follow each other
    have all keys: 7,919 is prime."""
    key = b"user-%04d" % (number * 7_919 % keys)
    return key, (b"%0*d" % (NUMBER_DIGITS, number)).ljust(VALUE_BYTES, b".")


def _chunks(
    first: int, records: int, partitions: int, record_of: Callable[[int], tuple[bytes, bytes]]
) -> Iterator[tuple[int, list[dict[str, bytes]]]]:
    """Lists of messages for one partition each; record n goes to partition n % partitions."""
    for start in range(first, first + records, CHUNK_RECORDS * partitions):
        end = min(start + CHUNK_RECORDS * partitions, first + records)
        for partition in range(partitions):
            offset = (partition - start) % partitions
            pairs = map(record_of, range(start + offset, end, partitions))
            yield partition, [{"key": key, "value": value} for key, value in pairs]


def fill(
    bootstrap_servers: str,
    topic: str,
    records: int,
    partitions: int,
    first: int = 0,
    keys: int = KEYS,
    *,
    by_key: bool = False,
    batch_records: int = 10_000,
    record_of: Callable[[int], tuple[bytes, bytes]] | None = None,
) -> None:
    """Append `records` numbered records, spread evenly over partitions, or placed by their keys as Kafka's clients do.
    batch_records: at most, of one partition. record_of: key and value of each number; None: `record`. Raises KafkaException
    unless all are acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "enable.idempotence": True,
            "linger.ms": 50,
            "batch.size": 1_000_000,
            "batch.num.messages": batch_records,
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": 4 * CHUNK_RECORDS * partitions,
        }
    )
    failures: list[object] = []

    def keep_failure(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failures.append(error)

    make = record_of or partial(record, keys=keys)
    for partition, messages in _chunks(first, records, partitions, make):
        while len(producer) > 2 * CHUNK_RECORDS:
            producer.poll(0.01)
        producer.produce_batch(
            topic,
            messages,
            partition=_BY_KEY if by_key else partition,
            on_delivery=keep_failure,
        )
        failures.extend(message["_error"] for message in messages if "_error" in message)
    left = producer.flush(TIMEOUT_S)
    if failures or left:
        raise KafkaException(
            failures[0] if failures else f"{left} records of {topic} were not acknowledged in {TIMEOUT_S} s"
        )


def written_records(bootstrap_servers: str, topic: str, partitions: int) -> int:
    """Records in a topic that was never written in a transaction (its offsets are then its records), from its
    ends."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "bench-ends"})
    ends = [
        consumer.get_watermark_offsets(TopicPartition(topic, partition), TIMEOUT_S)
        for partition in range(partitions)
    ]
    consumer.close()
    return sum(high - low for low, high in ends)
