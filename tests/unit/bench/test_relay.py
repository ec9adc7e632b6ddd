"""A reader of [from, to) takes what lies there, once, whatever Kafka's client delivers besides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import KafkaError

from bench.regions.relay import taken


@dataclass
class Delivered:
    """A message, or an error of a partition."""

    offset_: int
    topic_: str = "t"
    partition_: int = 0
    error_: int | None = None

    def topic(self) -> str:
        return self.topic_

    def partition(self) -> int:
        return self.partition_

    def offset(self) -> int:
        return self.offset_

    def error(self) -> KafkaError | None:
        return None if self.error_ is None else KafkaError(self.error_)

    def headers(self) -> None:
        return None

    def value(self) -> bytes:
        return f"{self.topic_}-{self.partition_}-{self.offset_}".encode()


class Client:
    """Delivers what it is given."""

    def __init__(self, messages: Iterable[Delivered]) -> None:
        self._messages: Iterator[Delivered] = iter(messages)
        self.assigned: list[Any] = []

    def assign(self, places: list[Any]) -> None:
        self.assigned += places

    def poll(self, timeout: float) -> Delivered | None:
        return next(self._messages, None)


def offsets(client: Client, from_: int, to: int) -> list[int]:
    return [offset for offset, _ in taken(client, "t", 0, from_, to)]  # type: ignore[arg-type]


def test_what_lies_before_is_passed_over() -> None:
    client = Client([Delivered(3), *(Delivered(at) for at in range(7))])
    assert offsets(client, 3, 6) == [3, 4, 5]
    (place,) = client.assigned
    assert place.offset == 3


def test_what_another_assignment_had_asked_for_is_passed_over() -> None:
    strange = [Delivered(0, partition_=1), Delivered(1, topic_="other")]
    reset = Delivered(0, partition_=1, error_=KafkaError._AUTO_OFFSET_RESET)
    assert offsets(Client([*strange, Delivered(0), reset, Delivered(1), Delivered(2)]), 0, 2) == [0, 1]


def test_an_empty_range_is_not_assigned() -> None:
    client = Client([])
    assert offsets(client, 4, 4) == client.assigned == []


def test_the_end_of_the_partition_ends_a_range_that_ends_in_markers() -> None:
    end = KafkaError._PARTITION_EOF
    assert offsets(Client([Delivered(0), Delivered(1, error_=end), Delivered(3, error_=end)]), 0, 3) == [0]


def test_an_offset_that_the_broker_does_not_know_is_an_error() -> None:
    client = Client([Delivered(3, error_=KafkaError._AUTO_OFFSET_RESET)])
    with pytest.raises(TimeoutError, match="from 3 to 6"):
        offsets(client, 3, 6)
