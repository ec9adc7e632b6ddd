"""A value of JSON or Avro as the text that PostgreSQL reads for a type: one rule for each type.

Strict on purpose: what PostgreSQL would take by another meaning (a time zone that it drops, a number for a text) is
refused with the reason.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import struct
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from kcontrol.wire.fields import as_boolean, as_bytes, as_date, as_integer, as_moment, as_number, as_text

ToText = Callable[[Any], str]
"""Raises ValueError: the value does not fit; with the reason."""

_INTEGERS = {"int2": 1 << 15, "int4": 1 << 31, "int8": 1 << 63}
_SPECIAL = ("NaN", "Infinity", "-Infinity")
_MOST_DIGITS, _MOST_BEHIND = 131_072, 16_383
"""Of a numeric: before the point, and behind it."""


@dataclass(frozen=True, slots=True)
class Column:
    """Of a table. type_name: PostgreSQL's short one, of an array's elements; modifier: its typmod, -1 for none.
    declared: as a person writes it."""

    name: str
    type_name: str
    declared: str
    modifier: int = -1
    is_array: bool = False
    not_null: bool = False
    filled_in: bool = False
    """PostgreSQL gives it a value by itself: a default, an identity, a generated column."""
    generated: bool = False
    """It can't be written."""


def to_text(column: Column) -> ToText:
    """What makes the text of a value that is not null."""
    one = _rule(column)
    return (lambda value: _array(value, one)) if column.is_array else one


def _rule(column: Column) -> ToText:
    name, modifier = column.type_name, column.modifier
    if name in _INTEGERS:
        bound = _INTEGERS[name]
        return lambda value: str(as_integer(value, bound))
    if name == "numeric":
        return lambda value: _numeric(value, modifier)
    if name in ("varchar", "bpchar"):
        return lambda value: _text(value, modifier - 4 if modifier >= 4 else None)
    return _RULES.get(name, _other)


def _float(value: Any, bits: int) -> str:
    if isinstance(value, str) and value in _SPECIAL:
        return value
    value = as_number(value)
    if value and _is_finite(value):
        _check_range(value, bits)
    return repr(value) if isinstance(value, float) else str(value)


def _is_finite(value: int | float | Decimal) -> bool:
    """A whole number may be larger than any that `math.isfinite` takes."""
    if isinstance(value, Decimal):
        return value.is_finite()
    return isinstance(value, int) or math.isfinite(value)


def _check_range(value: int | float | Decimal, bits: int) -> None:
    """PostgreSQL takes no number for infinite, or for zero, that is not."""
    try:
        number = float(value)
        if bits == 32:
            (number,) = struct.unpack("f", struct.pack("f", number))
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise ValueError("it is too large for the type")
    if not number:
        raise ValueError("it is too small for the type")


def _numeric(value: Any, modifier: int) -> str:
    if isinstance(value, str) and value == "NaN":
        return value
    value = as_number(value)
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not number:
        return str(number) if -_MOST_BEHIND <= _exponent(number) <= 0 else "0"
    if modifier < 4:
        return _unbounded(number)
    if number.is_infinite():
        raise ValueError("the type has no such number")
    if number.is_nan():
        return str(number)
    precision, scale = (modifier - 4) >> 16, (modifier - 4) & 0x7FF
    scale = scale - 0x800 if scale >= 0x400 else scale
    room, digits = precision - scale, len(number.as_tuple().digits)
    # What is larger is never written out: its exponent may be of any size.
    if number.adjusted() < room:
        exact = Context(prec=max(digits, precision) + 1)
        rounded = number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, exact)
        if rounded.adjusted() < room or not rounded:
            return str(number) if -_MOST_BEHIND <= _exponent(number) <= 0 else f"{rounded:f}"
    raise ValueError("it has more digits than the type")


def _unbounded(number: Decimal) -> str:
    """Of a numeric without precision, which is none without bounds, whatever its name."""
    if number.is_finite() and (number.adjusted() >= _MOST_DIGITS or _exponent(number) < -_MOST_BEHIND):
        raise ValueError(
            f"it has more than {_MOST_DIGITS} digits before the point, or {_MOST_BEHIND} behind it"
        )
    return str(number)


def _exponent(number: Decimal) -> int:
    """Of one that is finite."""
    return int(number.as_tuple().exponent)


def _boolean(value: Any) -> str:
    return "t" if as_boolean(value) else "f"


def _text(value: Any, longest: int | None = None) -> str:
    text = as_text(value)
    if "\0" in text:
        raise ValueError("it has a character of code 0, which PostgreSQL has not")
    if longest is not None and len(text) > longest and len(text.rstrip(" ")) > longest:
        raise ValueError(f"it has {len(text)} characters")
    return text


def _bytes(value: Any) -> str:
    return f"\\x{as_bytes(value).hex()}"


def _date(value: Any) -> str:
    return as_date(value).isoformat()


def _moment(value: Any, *, with_zone: bool) -> str:
    moment = as_moment(value)
    if with_zone and moment.tzinfo is None:
        raise ValueError(
            "it has no time zone, which the type needs: make the column a timestamp, or add the zone"
        )
    if not with_zone and moment.tzinfo is not None:
        raise ValueError("it has a time zone, which the type would drop: make the column a timestamptz")
    return moment.isoformat()


def _time(value: Any) -> str:
    if isinstance(value, str):
        value = dt.time.fromisoformat(value)
    if not isinstance(value, dt.time) or value.tzinfo is not None:
        raise ValueError("it is no time of day")
    return value.isoformat()


def _uuid(value: Any) -> str:
    return str(value if isinstance(value, uuid.UUID) else uuid.UUID(value if isinstance(value, str) else ""))


def _json(value: Any) -> str:
    text = json.dumps(_plain(value), ensure_ascii=False)
    if "\\u0000" in text:
        raise ValueError("it has a character of code 0, which PostgreSQL has not")
    return as_text(text)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("JSON has no such number")
    if isinstance(value, Decimal):
        return _json_number(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dt.date | dt.time | uuid.UUID):
        return str(value) if isinstance(value, uuid.UUID) else value.isoformat()
    return value


def _json_number(value: Decimal) -> int | float:
    if "E" not in str(value) and value == value.to_integral_value():
        return int(value)
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("JSON has no such number")
    return number


def _other(value: Any) -> str:
    """A type of which this knows nothing: its text is PostgreSQL's to judge."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return _text(value)
    return str(value)


def _array(value: Any, one: ToText) -> str:
    if not isinstance(value, list | tuple):
        raise ValueError("it is no list")
    return "{" + ",".join("NULL" if each is None else _quoted(one(each)) for each in value) + "}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


_RULES: Mapping[str, ToText] = {
    "bool": _boolean,
    "float4": lambda value: _float(value, 32),
    "float8": lambda value: _float(value, 64),
    "text": _text,
    "bytea": _bytes,
    "date": _date,
    "time": _time,
    "timestamp": lambda value: _moment(value, with_zone=False),
    "timestamptz": lambda value: _moment(value, with_zone=True),
    "uuid": _uuid,
    "json": _json,
    "jsonb": _json,
}
