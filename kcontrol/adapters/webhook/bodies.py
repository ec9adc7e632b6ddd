"""From the records of a step to the bodies of its requests.

A step is cut anew in each partition, by numbers of records and of bytes alone, so that the same step gives the same requests
whenever it is sent again.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import fastavro

from kcontrol.core.step.following import PlacedRecords, RecordPlace
from kcontrol.errors import ConfigurationError
from kcontrol.wire.surrogates import HALF, has_half, may_have_half

_Text = Callable[[bytes], str]
SHOWN_BYTES = 100


class BadRecordError(ValueError):
    """A record can't be sent; says why."""


@dataclass(slots=True)
class BodyPart:
    """A request's records, as JSON each: those of a partition with offsets from first to last; offsets of transactions'
    markers, and of records that were left out, lie between them."""

    partition: int
    first: int
    last: int
    records: list[str] = field(default_factory=list)
    size_bytes: int = 0

    def add(self, offset: int, record: str, size_bytes: int) -> None:
        self.records.append(record)
        self.last = offset
        self.size_bytes += size_bytes


@dataclass(frozen=True, slots=True)
class Cut:
    """records, size_bytes: of a part, at most."""

    records: int = 500
    size_bytes: int = 1 << 20


def parts(
    records: PlacedRecords,
    text_of: Callable[[bytes | None, bytes | None], str],
    cut: Cut,
    bad: Callable[[RecordPlace, BadRecordError], None],
) -> Iterator[BodyPart]:
    """In the order of the records, which is that of partition and offset. bad: told of a record that can't be sent, and
    raises, or has it left out."""
    part: BodyPart | None = None
    for key, value, place in records:
        try:
            text = text_of(key, value)
            size_bytes = len(text.encode())
            if size_bytes > cut.size_bytes:
                raise BadRecordError(
                    f"it has {size_bytes} bytes as JSON, and a body at most {cut.size_bytes}"
                )
        except BadRecordError as error:
            bad(place, error)
            continue
        if part is not None and (
            part.partition != place.partition
            or len(part.records) >= cut.records
            or part.size_bytes + size_bytes > cut.size_bytes
        ):
            yield part
            part = None
        if part is None:
            part = BodyPart(place.partition, place.offset, place.offset)
        part.add(place.offset, text, size_bytes)
    if part is not None:
        yield part


def maker(value_format: str, schema: str = "") -> Callable[[bytes | None, bytes | None], str]:
    """Key and value of a record as a JSON object. value_format: 'json', 'avro' or 'raw'. schema: of Avro. Raises
    ConfigurationError: the format is none, or lacks its schema; what it returns raises BadRecordError."""
    value_text = _value_text(value_format, schema)

    def made(key: bytes | None, value: bytes | None) -> str:
        key_json = "null" if key is None else _bytes_text(key)
        return f'{{"key":{key_json},"value":{"null" if value is None else value_text(value)}}}'

    return made


def _value_text(value_format: str, schema: str) -> _Text:
    if value_format == "raw":
        return _bytes_text
    if value_format == "json":
        return _json_text
    if value_format != "avro":
        raise ConfigurationError(f"value format {value_format!r}: must be json, avro or raw")
    if not schema:
        raise ConfigurationError("values are Avro: give their schema with --schema FILE")
    try:
        parsed = fastavro.parse_schema(json.loads(schema))
    except (ValueError, KeyError, TypeError, fastavro.schema.SchemaParseException) as error:
        raise ConfigurationError(f"--schema: not an Avro schema ({error!r})") from error
    return lambda value: _avro_text(value, parsed)


def _bytes_text(value: bytes) -> str:
    """A text, if it is one in UTF-8, or an object that says that it is base64."""
    try:
        return json.dumps(value.decode())
    except UnicodeDecodeError:
        return json.dumps({"base64": base64.b64encode(value).decode()})


def _json_text(value: bytes) -> str:
    """As it is: numbers keep all of their digits."""
    try:
        text = value.decode()
        fields = json.loads(text, parse_constant=_no_json)
        if may_have_half(text) and has_half(fields):
            raise ValueError(f"a text has {HALF}")
    except (ValueError, RecursionError) as error:
        raise BadRecordError(f"the value {value[:SHOWN_BYTES]!r} is no JSON: {error}") from error
    return text


def _no_json(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _avro_text(value: bytes, schema: Any) -> str:
    source = io.BytesIO(value)
    try:
        fields = fastavro.schemaless_reader(source, schema, None)
        if source.read(1):
            raise ValueError("bytes are left over")
        return json.dumps(fields, default=_plain, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except Exception as error:
        raise BadRecordError(
            f"the value {value[:SHOWN_BYTES]!r} is not what the Avro schema says, or has no JSON: {error!r}"
        ) from error


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, Decimal):
        return format(value, "f")
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return str(value)
