"""What a task asks of its driver for values behind ids, and what it remembers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kcontrol.adapters.spark.channel.client import ChannelServer
from kcontrol.adapters.spark.channel.messages import AskSchemas, KnownSchemas
from kcontrol.adapters.spark.query import confluent
from kcontrol.adapters.spark.query.confluent import Asking, FramedReader, header_of, id_of
from kcontrol.core.model import InputSchema

ROW = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]})


class Driver:
    """Knows some ids, and remembers what it was asked."""

    def __init__(self) -> None:
        self.known: set[int] = set()
        self.asked: list[AskSchemas] = []

    def answer(self, _: Any, question: Any) -> KnownSchemas:
        self.asked.append(question)
        known = tuple(each for each in question.ids if each in self.known)
        told = [each for each in known if each not in question.held]
        return KnownSchemas(known, tuple(InputSchema("p", 0, each, 1, "AVRO", ROW, ()) for each in told))


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
def read(driver: Driver) -> Iterator[Callable[..., list[Any]]]:
    """`read(value, ...)` gives the rows of one batch."""
    server = ChannelServer("127.0.0.1", driver.answer)
    reader = FramedReader(ROW, "bad", 100, Asking(server.address, "in"))
    yield lambda *values: reader.read_all(values)
    server.close()


def value(schema_id: int) -> bytes:
    return header_of(schema_id) + b"\x02"


def test_an_id_is_four_bytes_behind_a_zero() -> None:
    assert id_of(b"\x00\x00\x00\x01\x02rest") == 258
    assert id_of(header_of(2**31)) == 2**31
    assert [id_of(each) for each in (b"", b"\x00\x00\x00\x00", b"\x01\x00\x00\x00\x01")] == [None] * 3


def test_schemas_are_told_once_and_whether_they_are_known_is_asked_each_time(
    driver: Driver, read: Callable[..., list[Any]]
) -> None:
    driver.known = {3}
    good = {"a": 1, "bad": None}
    assert read(value(3), None, value(3)) == [good, None, good]
    assert [each.held for each in driver.asked] == [()]
    assert read(value(3))[0] == good
    assert driver.asked[-1].held == (3,)
    driver.known = set()
    assert read(value(3))[0]["bad"] == "the schema registry does not know its schema, id 3"
    assert read(b"{}", None)[0]["bad"].startswith("it does not begin with a zero byte")
    assert len(driver.asked) == 3, "a batch without an id asks for none"


def test_more_schemas_than_a_task_remembers_are_all_read(
    driver: Driver, read: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confluent, "_MAX_HELD", 3)
    driver.known = set(range(10))
    assert all(row["bad"] is None for row in read(value(0), value(1)))
    assert all(row["bad"] is None for row in read(*map(value, range(10))))
