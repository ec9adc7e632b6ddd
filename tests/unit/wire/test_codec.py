"""Single-object encoding, and what happens with records of older, newer and foreign writers."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import pytest
from fastavro import schemaless_writer

from kcontrol.core.model import Desired, DesiredMode, Resume
from kcontrol.errors import DamagedRecordError, UnknownRecordError
from kcontrol.wire.codec import MAGIC, RecordCodec, is_schema_key, schema_key
from kcontrol.wire.schemas import Schema, current_schemas, make_schema

DESIRED = Desired("flights", DesiredMode.PAUSED, "request-1")


def newer_desired() -> Schema:
    """`Desired` as a later version might have it: one more field, one more mode."""
    definition = json.loads(current_schemas()["Desired"].json)
    definition["fields"].append({"name": "by", "doc": "Who.", "type": "string", "default": ""})
    next(field for field in definition["fields"] if field["name"] == "mode")["type"]["symbols"].append(
        "drained"
    )
    return make_schema(definition)


def written(schema: Schema, values: dict[str, Any]) -> bytes:
    buffer = BytesIO(MAGIC + schema.fingerprint)
    buffer.seek(0, 2)
    schemaless_writer(buffer, schema.parsed, values)
    return buffer.getvalue()


def test_a_record_is_c3_01_then_the_fingerprint_little_endian_then_the_body() -> None:
    fingerprint = current_schemas()["Resume"].fingerprint
    assert RecordCodec().encode(Resume("ab", "c")) == b"\xc3\x01" + fingerprint + b"\x04ab" + b"\x02c"


def test_the_published_schema_is_under_the_fingerprint_that_the_record_names() -> None:
    codec = RecordCodec()
    [(key, value)] = codec.publications(DESIRED)
    assert key == schema_key(codec.encode(DESIRED)[2:10])
    assert is_schema_key(key)
    assert make_schema(json.loads(value)).fingerprint.hex() == key.removeprefix("schema/")


def test_a_newer_record_is_read_once_its_schema_was_learnt() -> None:
    codec, newer = RecordCodec(), newer_desired()
    data = written(newer, {"pipeline": "flights", "mode": "drained", "request_id": "r", "by": "me"})
    with pytest.raises(DamagedRecordError, match=f"kcontrol.control/3@17.*{schema_key(newer.fingerprint)}"):
        codec.decode(data, "kcontrol.control/3@17")
    codec.learn(schema_key(newer.fingerprint), newer.json.encode())
    assert codec.decode(data) == Desired("flights", DesiredMode.PAUSED, "r")


def test_a_record_that_only_newer_versions_have_is_told_from_a_damaged_one() -> None:
    codec = RecordCodec()
    fields = [{"name": "pipeline", "type": "string"}]
    unknown = make_schema({"type": "record", "name": "Balloon", "namespace": "kcontrol", "fields": fields})
    codec.learn(schema_key(unknown.fingerprint), unknown.json.encode())
    with pytest.raises(UnknownRecordError, match="Balloon"):
        codec.decode(written(unknown, {"pipeline": "flights"}))


def test_a_newer_record_that_can_not_be_resolved_is_refused() -> None:
    codec = RecordCodec()
    fields = [{"name": "pipeline", "type": "string"}]
    changed = make_schema({"type": "record", "name": "Resume", "namespace": "kcontrol", "fields": fields})
    codec.learn(schema_key(changed.fingerprint), changed.json.encode())
    with pytest.raises(DamagedRecordError, match="Resume"):
        codec.decode(written(changed, {"pipeline": "flights"}))


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{",
        b"[]",
        b"17",
        b'"long"',
        b'{"type": "record"}',
        b'{"type": "nonsense", "name": "a"}',
        b"[1]",
        b"\xff",
        b"null",
    ],
)
def test_what_is_not_a_schema_is_not_learnt(value: bytes) -> None:
    with pytest.raises(DamagedRecordError, match=r"topic t, partition 1, offset 2.*'schema/00'"):
        RecordCodec().learn("schema/00", value, "topic t, partition 1, offset 2")


def test_a_schema_under_the_wrong_fingerprint_is_not_learnt() -> None:
    newer = newer_desired()
    with pytest.raises(DamagedRecordError, match=newer.fingerprint.hex()):
        RecordCodec().learn("schema/0011223344556677", newer.json.encode())
