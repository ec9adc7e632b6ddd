"""Bodies: the same records are cut into the same parts, and nothing of a value is changed on its way into JSON."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from kcontrol.adapters.webhook.bodies import BadRecordError, BodyPart, Cut, maker, parts
from kcontrol.core.step.following import RecordPlace
from kcontrol.errors import ConfigurationError

Records = list[tuple[bytes | None, bytes | None, RecordPlace]]


def _records(*partitions: int, count: int = 5, value: bytes = b"7") -> Records:
    return [(None, value, RecordPlace(each, 2 * row)) for each in partitions for row in range(count)]


def _refuse(place: RecordPlace, error: BadRecordError) -> None:
    raise AssertionError(f"{place}: {error}")


def _cut(records: Records, cut: Cut) -> list[BodyPart]:
    return list(parts(records, maker("json"), cut, _refuse))


def test_a_part_has_records_of_one_partition_and_not_too_many() -> None:
    found = _cut(_records(0, 1, count=5), Cut(records=2))
    assert [(each.partition, each.first, each.last, len(each.records)) for each in found] == [
        *((0, 0, 2, 2), (0, 4, 6, 2), (0, 8, 8, 1)),
        *((1, 0, 2, 2), (1, 4, 6, 2), (1, 8, 8, 1)),
    ]


def test_a_part_has_not_too_many_bytes() -> None:
    one = len(maker("json")(None, b'"ten bytes!"'))
    found = _cut(_records(0, count=5, value=b'"ten bytes!"'), Cut(size_bytes=2 * one + 1))
    assert [len(each.records) for each in found] == [2, 2, 1]


def test_a_record_that_is_larger_than_a_body_is_left_out_or_refused() -> None:
    told: list[str] = []
    records = [(None, b"1", RecordPlace(0, 1)), (None, b'"%s"' % (b"x" * 2000), RecordPlace(0, 2))]
    found = list(
        parts(
            records,
            maker("json"),
            Cut(size_bytes=1000),
            lambda place, error: told.append(f"{place}: {error}"),
        )
    )
    assert [each.records for each in found] == [['{"key":null,"value":1}']]
    assert told == ["partition 0, offset 2: it has 2023 bytes as JSON, and a body at most 1000"]


def test_without_records_there_are_no_parts() -> None:
    assert _cut([], Cut()) == []


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (b"ann", b'{"a": 1.10, "b": 12345678901234567890}', '{"key":"ann","value":{"a": 1.10, "b": 12345678901234567890}}'),
        (None, None, '{"key":null,"value":null}'),
        (b"\xff", b"[]", '{"key":{"base64": "/w=="},"value":[]}'),
        (b'"', b'"\xc3\xbc"', '{"key":"\\"","value":"ü"}'),
    ],
)  # fmt: skip
def test_json_stays_as_it_is(key: bytes | None, value: bytes | None, text: str) -> None:
    assert maker("json")(key, value) == text


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{",
        b"NaN",
        b'{"a": Infinity}',
        b"\xff",
        b"1 2",
        b"[" * 100_000,
        b'{"a": ["\\ud800"]}',
        b'{"\\uDC00": 1}',
    ],
)
def test_what_is_no_json_is_told(value: bytes) -> None:
    with pytest.raises(BadRecordError, match="is no JSON"):
        maker("json")(None, value)


def test_raw_values_are_texts_or_say_that_they_are_base64() -> None:
    made = maker("raw")
    assert json.loads(made(b"k", b"plain")) == {"key": "k", "value": "plain"}
    assert json.loads(made(b"k", b"\x00\xff")) == {"key": "k", "value": {"base64": "AP8="}}


SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "blob", "type": "bytes"},
        {"name": "share", "type": "double"},
    ],
}


def _avro(**fields: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMA), fields)
    return out.getvalue()


def test_avro_has_its_values_in_json() -> None:
    row = _avro(amount=Decimal("12.30"), day=20_000, blob=b"\xff", share=0.5)
    assert json.loads(maker("avro", json.dumps(SCHEMA))(None, row))["value"] == {
        "amount": "12.30",
        "day": "2024-10-04",
        "blob": {"base64": "/w=="},
        "share": 0.5,
    }


@pytest.mark.parametrize(
    "value", [b"", _avro(amount=Decimal(1), day=1, blob=b"", share=0.5) + b"!",
              _avro(amount=Decimal(1), day=1, blob=b"", share=float("nan"))]
)  # fmt: skip
def test_what_is_not_avro_of_the_schema_or_has_no_json_is_told(value: bytes) -> None:
    with pytest.raises(BadRecordError, match="is not what the Avro schema says, or has no JSON"):
        maker("avro", json.dumps(SCHEMA))(None, value)


@pytest.mark.parametrize(
    ("value_format", "schema", "sentence"),
    [
        ("avro", "", "give their schema with --schema"),
        ("avro", "{", "not an Avro schema"),
        ("csv", "", "must be json"),
    ],
)
def test_a_format_that_is_none_is_refused(value_format: str, schema: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        maker(value_format, schema)
