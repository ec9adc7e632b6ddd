"""Replayed records as text: JSON from which the bytes can be had back, and lines that stay lines."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from kcontrol.replay.record_text import record_json, record_line
from tests.support.replayed import record

BYTES = [
    b"",
    b"text",
    "späte Flüge ✈".encode(),
    b"line\nend",
    b"\x00\xff\xfe",
    b'{"a":1}',
    b"base64:QQ==",
    b"null",
    None,
]


def bytes_of(found: Any) -> bytes | None:
    """What a reader of the JSON makes of a key or a value."""
    if found is None:
        return None
    return found.encode() if isinstance(found, str) else base64.b64decode(found["base64"])


@pytest.mark.parametrize("data", BYTES)
def test_json_says_exactly_what_the_bytes_are(data: bytes | None) -> None:
    text = record_json(7, record("copies", 1, key=data, value=data, headers=(("h", data), ("h", b"2"))))
    assert "\n" not in text
    found = json.loads(text)
    assert list(found) == ["step", "output", "partition", "key", "value", "headers"]
    assert (found["step"], found["output"], found["partition"]) == (7, "copies", 1)
    assert bytes_of(found["key"]) == bytes_of(found["value"]) == data
    assert [(name, bytes_of(value)) for name, value in found["headers"]] == [("h", data), ("h", b"2")]


def test_text_stays_readable_in_json() -> None:
    assert json.loads(record_json(1, record(key="Zürich".encode())))["key"] == "Zürich"
    assert "Zürich" in record_json(1, record(key="Zürich".encode()))
    assert json.loads(record_json(1, record(value=b"\xff")))["value"] == {"base64": "/w=="}


def test_a_line_for_people() -> None:
    line = record_line(
        12, record("totals", 2, b"c1", b'{"amount": 3}', (("origin", b"JFK"), ("empty", None)))
    )
    assert line == '     12  totals[2]  c1  {"amount": 3}  origin=JFK  empty=null'
    assert record_line(1, record(key=None, value=b"\xff\x00")).split() == [
        "1",
        "totals[0]",
        "null",
        "base64:/wA=",
    ]


@pytest.mark.parametrize(
    "data", [b"two\nlines", b"two\r\nlines", "two\u2028lines".encode(), b"\x1b[31mred", b"\ttab"]
)
def test_a_record_is_one_line_and_does_nothing_to_the_terminal(data: bytes) -> None:
    line = record_line(1, record(key=data, value=data, headers=((data.decode(), data),)))
    assert len(line.splitlines()) == 1
    assert line.isprintable()
