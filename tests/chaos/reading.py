"""What is in the topics, for the oracle: read with confluent-kafka from first offset to end, committed records or all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from tests.chaos.expected import InputRecord
from tests.chaos.names import INPUTS, OUTPUTS
from tests.chaos.oracle import OutputRecord

TIMEOUT_S = 60.0
CHUNK_RECORDS, CHUNK_TIMEOUT_S = 10_000, 0.1
Made = TypeVar("Made")


def read_inputs(bootstrap_servers: str) -> list[InputRecord]:
    """Every committed record of the inputs."""
    return _read(bootstrap_servers, INPUTS, "read_committed", lambda m: InputRecord(*_place(m), m.key(), m.value()))


def read_outputs(bootstrap_servers: str) -> list[OutputRecord]:
    """Every committed record of the outputs."""
    return _read(bootstrap_servers, OUTPUTS, "read_committed", _output)


def count_hidden(bootstrap_servers: str) -> int:
    """Records of aborted attempts in the outputs: there on the disk, invisible to read_committed."""
    everything = _read(bootstrap_servers, OUTPUTS, "read_uncommitted", _place)
    visible = _read(bootstrap_servers, OUTPUTS, "read_committed", _place)
    return len(everything) - len(visible)


def open_transactions(bootstrap_servers: str) -> list[str]:
    """Partitions whose last stable offset is below their end: somebody's transaction still holds their readers back."""
    found = []
    stable, end = (_consumer(bootstrap_servers, level) for level in ("read_committed", "read_uncommitted"))
    for topic, partition in _partitions(OUTPUTS):
        ends = [each.get_watermark_offsets(TopicPartition(topic, partition), TIMEOUT_S)[1] for each in (stable, end)]
        if ends[0] != ends[1]:
            found.append(f"{topic} {partition}: stable up to {ends[0]}, ends at {ends[1]}")
    stable.close()
    end.close()
    return found


def _output(message: Message) -> OutputRecord:
    step = dict(message.headers() or []).get("step")
    return OutputRecord(*_place(message), message.key(), message.value(), None if step is None else int(step))


def _place(message: Message) -> tuple[str, int, int]:
    return message.topic(), message.partition(), message.offset()


def _partitions(topics: Mapping[str, int]) -> Iterable[tuple[str, int]]:
    return [(topic, partition) for topic, count in topics.items() for partition in range(count)]


def _consumer(bootstrap_servers: str, isolation_level: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "oracle",
            "enable.auto.commit": False,
            "isolation.level": isolation_level,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )


def _read(
    bootstrap_servers: str, topics: Mapping[str, int], isolation_level: str, make: Callable[[Message], Made]
) -> list[Made]:
    consumer = _consumer(bootstrap_servers, isolation_level)
    parts = [TopicPartition(topic, partition, 0) for topic, partition in _partitions(topics)]
    consumer.assign(parts)
    found: list[Made] = []
    at_end: set[tuple[str, int]] = set()
    heard = time.monotonic()
    while len(at_end) < len(parts):
        # Waits until so many have come, or the time is over: short, because at the end there are not so many.
        messages = consumer.consume(CHUNK_RECORDS, CHUNK_TIMEOUT_S)
        heard = time.monotonic() if messages else heard
        if time.monotonic() - heard > TIMEOUT_S:
            raise KafkaException(f"{isolation_level}: nothing came within {TIMEOUT_S} s after {len(found)} records of {topics}")
        for message in messages:
            if message.error() is None:
                found.append(make(message))
            else:
                at_end.add((message.topic(), message.partition()))
    consumer.close()
    return found
