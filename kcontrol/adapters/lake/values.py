"""A value of JSON or Avro as one of a type of Arrow: one rule for each type.

Strict on purpose: what would change its meaning on the way is refused with the reason.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from kcontrol.wire.fields import as_boolean, as_bytes, as_date, as_integer, as_moment, as_number, as_text

ToValue = Callable[[Any], Any]
"""Of a value that is not null. Raises ValueError: it does not fit; with the reason."""

_BITS: Mapping[pa.DataType, int] = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
_SPECIAL = ("NaN", "Infinity", "-Infinity")
_FIRST_YEAR, _LAST_YEAR = 1678, 2261
"""That are whole in 64 bits of nanoseconds."""


def rule_for(kind: pa.DataType) -> ToValue | None:
    """None: nothing can be written into a column of this type."""
    if kind in _BITS:
        bound = 1 << (_BITS[kind] - 1)
        return lambda value: as_integer(value, bound)
    if pa.types.is_decimal(kind):
        return lambda value: _decimal(value, kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        has_zone, fine = kind.tz is not None, kind.unit == "ns"
        return lambda value: _moment(value, has_zone=has_zone, in_nanoseconds=fine)
    if pa.types.is_map(kind):
        return _map_rule(kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _list_rule(kind)
    if pa.types.is_struct(kind):
        return _struct_rule(kind)
    return next((rule for is_kind, rule in _RULES if is_kind(kind)), None)


def _float(value: Any) -> float:
    if isinstance(value, str) and value in _SPECIAL:
        return float(value)
    return float(as_number(value))


def _decimal(value: Any, precision: int, scale: int) -> Decimal:
    value = as_number(value)
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not number.is_finite():
        raise ValueError("the type has no such number")
    digits = number.as_tuple()
    exponent = int(digits.exponent)
    if exponent < -scale and any(digits.digits[exponent + scale :]):
        raise ValueError(f"it has more than {scale} digits behind the point")
    if number and number.adjusted() >= precision - scale:
        raise ValueError("it has more digits than the type")
    # As many digits as the type has: Arrow would write out zeros, however many an exponent asks for.
    exact = Context(prec=precision + len(digits.digits))
    return number.quantize(Decimal(1).scaleb(-scale), context=exact)


def _moment(value: Any, *, has_zone: bool, in_nanoseconds: bool) -> dt.datetime:
    moment = as_moment(value)
    if in_nanoseconds and not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
        raise ValueError(f"it is not in the years {_FIRST_YEAR} to {_LAST_YEAR}, which the type has")
    if has_zone and moment.tzinfo is None:
        raise ValueError("it has no time zone, which TIMESTAMP needs: make the column a TIMESTAMP_NTZ")
    if not has_zone and moment.tzinfo is not None:
        raise ValueError("it has a time zone, which TIMESTAMP_NTZ would drop: make the column a TIMESTAMP")
    return moment


def _inner(kind: pa.DataType) -> ToValue | None:
    rule = rule_for(kind)
    return None if rule is None else lambda value: None if value is None else rule(value)


def _list_rule(kind: pa.DataType) -> ToValue | None:
    one = _inner(kind.value_type)

    def rule(value: Any) -> list[Any]:
        if not isinstance(value, list | tuple):
            raise ValueError("it is no list")
        return [one(each) for each in value]  # type: ignore[misc]

    return None if one is None else rule


def _map_rule(kind: pa.DataType) -> ToValue | None:
    one = _inner(kind.item_type)

    def rule(value: Any) -> list[tuple[str, Any]]:
        if not isinstance(value, Mapping):
            raise ValueError("it is no object")
        return [(as_text(name), one(inner)) for name, inner in value.items()]  # type: ignore[misc]

    return rule if one is not None and kind.key_type in (pa.string(), pa.large_string()) else None


def _struct_rule(kind: pa.DataType) -> ToValue | None:
    rules = {field.name: _inner(field.type) for field in kind}

    def rule(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise ValueError("it is no object")
        extra = value.keys() - rules.keys()
        if extra:
            raise ValueError(f"the type has no field {min(extra)!r}")
        return {name: one(value.get(name)) for name, one in rules.items()}  # type: ignore[misc]

    return None if None in rules.values() else rule


_RULES: tuple[tuple[Callable[[pa.DataType], bool], ToValue], ...] = (
    (pa.types.is_floating, _float),
    (pa.types.is_boolean, as_boolean),
    (pa.types.is_string, as_text),
    (pa.types.is_large_string, as_text),
    (pa.types.is_binary, as_bytes),
    (pa.types.is_large_binary, as_bytes),
    (pa.types.is_date32, as_date),
)
