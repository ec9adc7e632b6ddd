"""The fields of a record of an output, by the format of its values: for whoever makes rows of them."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import io
import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import fastavro

from kcontrol.errors import ConfigurationError
from kcontrol.wire.surrogates import HALF, is_half

Fields = Mapping[str, Any]
FieldsOf = Callable[[bytes | None, bytes | None], Fields]
"""Of key and value. Raises BadRowError."""

MAX_SHOWN = 60
_PLAIN = b'{"'
"""Whatever begins so is no other encoding than UTF-8."""
_DECODER = json.JSONDecoder(parse_float=Decimal)


class BadRowError(ValueError):
    """A record is no row of the table; says which column, which value, and why."""


def shown(value: Any) -> str:
    """For a message: not longer than a line."""
    try:
        text = repr(value)
    except RecursionError:
        return "with so many values within values"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def fields_of(value_format: str, schema: str = "") -> FieldsOf:
    """value_format: 'json', 'avro' or 'raw', which has the fields `key` and `value`. schema: of Avro. Numbers of JSON that
    have a point are Decimal. Raises ConfigurationError: the format is none, or lacks its schema."""
    if value_format == "raw":
        return lambda key, value: {"key": key, "value": value}
    if value_format == "json":
        return lambda _, value: _from_json(value or b"")
    if value_format == "avro":
        if not schema:
            raise ConfigurationError("values are Avro: give their schema with --schema FILE")
        try:
            parsed = fastavro.parse_schema(json.loads(schema))
        except (ValueError, KeyError, TypeError, fastavro.schema.SchemaParseException) as error:
            raise ConfigurationError(f"--schema: not an Avro schema ({error!r})") from error
        return lambda _, value: _from_avro(value or b"", parsed)
    raise ConfigurationError(f"value format {value_format!r}: must be json, avro or raw")


def _from_json(value: bytes) -> Fields:
    try:
        fields = _parsed(value)
    except (ValueError, ArithmeticError, RecursionError) as error:
        # Of numbers, too: one of more digits than Python takes, or with an exponent that no decimal has.
        raise BadRowError(f"the value {shown(value)} is no JSON: {error}") from error
    if not isinstance(fields, dict):
        raise BadRowError(f"the value {shown(value)} is no JSON object, whose fields would be columns")
    return fields


def _parsed(value: bytes) -> Any:
    """What `json.loads` says, which makes a decoder for each text, and looks for an encoding and for spaces around it."""
    if value.startswith(_PLAIN):
        text = value.decode("utf-8", "surrogatepass")
        fields, end = _DECODER.raw_decode(text)
        if end == len(text):
            return fields
    return json.loads(value, parse_float=Decimal)


def _from_avro(value: bytes, schema: Any) -> Fields:
    source = io.BytesIO(value)
    try:
        fields = fastavro.schemaless_reader(source, schema, None)
    except Exception as error:
        raise BadRowError(f"the value {shown(value)} is not what the Avro schema says: {error!r}") from error
    if source.read(1) or not isinstance(fields, dict):
        raise BadRowError(f"the value {shown(value)} is not what the Avro schema says: bytes are left over")
    return fields


# --- a field's value as one of a type, strictly: each raises ValueError, with the reason ---------------------


def as_integer(value: Any, bound: int) -> int:
    """From -bound on, and less than bound."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("it is no whole number")
    if not -bound <= value < bound:
        raise ValueError("it is too large for the type")
    return value


def as_number(value: Any) -> int | float | Decimal:
    """Any number that JSON and Avro have."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError("it is no number")
    return value


def as_boolean(value: Any) -> bool:
    """Neither 0 nor 1 is one."""
    if not isinstance(value, bool):
        raise ValueError("it is neither true nor false")
    return value


def as_text(value: Any) -> str:
    """Bytes are read as UTF-8."""
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError as error:
            raise ValueError("it is not UTF-8") from error
    if not isinstance(value, str):
        raise ValueError("it is no text")
    if is_half(value):
        raise ValueError(f"it has {HALF}")
    return value


def as_bytes(value: Any) -> bytes:
    """Text is read as base64."""
    if isinstance(value, str):
        try:
            value = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ValueError("it is no base64, as JSON has bytes") from error
    if not isinstance(value, bytes):
        raise ValueError("it is neither bytes nor base64")
    return value


def as_date(value: Any) -> dt.date:
    """Text is read as ISO 8601."""
    if isinstance(value, str):
        value = dt.date.fromisoformat(value)
    if isinstance(value, dt.datetime) or not isinstance(value, dt.date):
        raise ValueError("it is no date")
    return value


def as_moment(value: Any) -> dt.datetime:
    """With a zone or without. Text is read as ISO 8601."""
    if isinstance(value, str):
        value = dt.datetime.fromisoformat(value)
    if not isinstance(value, dt.datetime):
        raise ValueError("it is no time such as '2026-01-31T12:00:00Z'")
    return value
