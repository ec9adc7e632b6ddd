"""What is in the topics, for the oracle: read with confluent-kafka from first offset to
end, committed records or all.

A broker that has just come back refuses in many ways for some seconds. Reading changes nothing, so it is
begun anew until it succeeds; what is refused to the end of `READ_TIMEOUT_S` is an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import TypeVar

from confluent_kafka import KafkaException, Message

from examples.topic_reading import partition_ends, read_topics
from tests.chaos.expected import InputRecord
from tests.chaos.names import INPUTS, OUTPUTS
from tests.chaos.oracle import OutputRecord

Made = TypeVar("Made")

READ_TIMEOUT_S = 120.0
AGAIN_S = 0.5


def read_inputs(bootstrap_servers: str, prefix: str = "") -> list[InputRecord]:
    """Every committed record of the inputs. prefix: of the topics' names, which the records are told without."""
    topics = [prefix + topic for topic in INPUTS]
    found = _read(bootstrap_servers, topics, "read_committed", lambda m: (_place(m), m.key(), m.value()))
    return [InputRecord(where[0].removeprefix(prefix), *where[1:], key, value) for where, key, value in found]


def read_outputs(bootstrap_servers: str, prefix: str = "") -> list[OutputRecord]:
    """Every committed record of the outputs. prefix: as of `read_inputs`."""
    topics = [prefix + topic for topic in OUTPUTS]
    found = _read(bootstrap_servers, topics, "read_committed", _output)
    return [replace(record, topic=record.topic.removeprefix(prefix)) for record in found]


def ends_of(records: Iterable[InputRecord]) -> dict[tuple[str, int], int]:
    """By topic and partition: the offset behind the last of these records."""
    ends: dict[tuple[str, int], int] = {}
    for record in records:
        where = record.topic, record.partition
        ends[where] = max(record.offset + 1, ends.get(where, 0))
    return ends


def count_hidden(bootstrap_servers: str, topics: Collection[str]) -> int:
    """Records of aborted attempts in these topics: there on the disk, invisible to read_committed."""
    everything = _read(bootstrap_servers, topics, "read_uncommitted", _place)
    visible = _read(bootstrap_servers, topics, "read_committed", _place)
    return len(everything) - len(visible)


def open_transactions(bootstrap_servers: str, topics: Collection[str]) -> list[str]:
    """Partitions of these topics whose last stable offset is below their end: somebody's transaction
    still holds their readers back."""
    stable, end = _until_answered(
        lambda: [
            partition_ends(bootstrap_servers, topics, level)
            for level in ("read_committed", "read_uncommitted")
        ]
    )
    return [
        f"{topic} {partition}: stable up to {stable[topic, partition]}, ends at {offset}"
        for (topic, partition), offset in end.items()
        if stable[topic, partition] != offset
    ]


def _output(message: Message) -> OutputRecord:
    step = dict(message.headers() or []).get("step")
    return OutputRecord(*_place(message), message.key(), message.value(), None if step is None else int(step))


def _place(message: Message) -> tuple[str, int, int]:
    return message.topic(), message.partition(), message.offset()


def _read(
    bootstrap_servers: str, topics: Iterable[str], isolation: str, make: Callable[[Message], Made]
) -> list[Made]:
    return _until_answered(
        lambda: [make(message) for message in read_topics(bootstrap_servers, topics, isolation)]
    )


def _until_answered(read: Callable[[], Made]) -> Made:
    deadline = time.monotonic() + READ_TIMEOUT_S
    while True:
        try:
            return read()
        except KafkaException:
            if time.monotonic() > deadline:
                raise
        time.sleep(AGAIN_S)
