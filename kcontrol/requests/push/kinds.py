"""What Spark's JSON reader takes for a type, looked at before a row is written, so that a mistake is told to whoever made it
rather than to whoever runs the pipeline.

A kind says what is wrong with a value. It never refuses what Spark would take, but for fields that the schema does not have;
what is not known here (intervals, variants) is left to Spark.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from decimal import ROUND_HALF_UP, Context, Decimal
from difflib import get_close_matches
from typing import Any

_MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)\s*(Z|UTC|GMT|[+-]\d\d:?\d\d)?)?", re.ASCII
)
_ZONE = re.compile(r"(?:Z|UTC|GMT|[+-](?:(?:0\d|1[0-7]):?[0-5]\d|18:?00))?", re.ASCII)
"""Java knows of none that is further away."""
_NO_ZONE = re.compile("")
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799
"""The years 1 to 9999. Of a larger number Spark makes whatever is left of it in 64 bits of microseconds."""
_BASE_64 = re.compile("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_NO_NUMBERS = ("NaN", "Infinity", "-Infinity", "+Infinity", "+INF", "-INF")
_SHOWN = 60
_EXACT = Context(prec=1_100)


class Repeating(dict[str, Any]):
    """An object of JSON that has a name more than once. Spark looks at each of its values and keeps the last."""

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        [(self.name, _)] = Counter(name for name, _ in pairs).most_common(1)


def object_of(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """For a reader of JSON."""
    found = dict(pairs)
    return found if len(found) == len(pairs) else Repeating(pairs)


@dataclass(frozen=True, slots=True)
class ValueKind:
    """A type. name: as it is told. wrong: what is wrong with a value of JSON, which is not null, or ''. Numbers with a point
    are Decimal. quoted: whether a cell of CSV is the text itself, and not JSON. inner: of the elements of an array, of the
    values of a map. fields: of a struct."""

    name: str
    wrong: Callable[[Any], str]
    quoted: bool
    inner: ValueKind | None = None
    fields: Mapping[str, ValueKind] | None = None


@dataclass(frozen=True, slots=True)
class RowKind:
    """The fields of a row, by name."""

    fields: Mapping[str, ValueKind]

    def wrong(self, row: Any) -> str:
        """What is wrong with a row of JSON; '' for nothing."""
        if not isinstance(row, dict):
            return f"is {_shown(row)}, and must be an object with the fields {', '.join(self.fields)}"
        if isinstance(row, Repeating):
            return f"has the field {row.name[:_SHOWN]!r} twice"
        for name, value in row.items():
            kind = self.fields.get(name)
            if kind is None:
                return self.unknown(name)
            if value is not None and (why := kind.wrong(value)):
                return f"field {name!r}{why}"
        return ""

    def unknown(self, name: str) -> str:
        """What is told of a field that is none."""
        meant = get_close_matches(name, self.fields, 1)
        hint = f"did you mean {meant[0]!r}?" if meant else f"there are {', '.join(self.fields)}"
        return f"has a field {name[:_SHOWN]!r}, which the schema of the input does not have; {hint}"


def whole(name: str, bits: int) -> ValueKind:
    """A whole number of so many bits."""
    most = 1 << (bits - 1)

    def wrong(value: Any) -> str:
        if type(value) is not int:
            return _no(value, name)
        return "" if -most <= value < most else f": {value} does not fit into {name}"

    return ValueKind(name, wrong, quoted=False)


def decimal(precision: int, scale: int) -> ValueKind:
    """A number of which Spark makes null if it has more digits before the point than there is room for."""
    name = f"DECIMAL({precision},{scale})"

    def wrong(value: Any) -> str:
        if type(value) not in (int, Decimal):
            return _no(value, name)
        number, room = Decimal(value), precision - scale
        fits = not number or (number.adjusted() < room and _rounded(number, scale).adjusted() < room)
        return "" if fits else f": {_shown(number)} does not fit into {name}"

    return ValueKind(name, wrong, quoted=False)


def _rounded(number: Decimal, scale: int) -> Decimal:
    return number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)


def _floating(value: Any) -> str:
    fine = type(value) in (int, Decimal) or value in _NO_NUMBERS
    return "" if fine else _no(value, "a number")


def _boolean(value: Any) -> str:
    return "" if isinstance(value, bool) else _no(value, "true or false")


def _date(value: Any) -> str:
    if isinstance(value, str) and _MOMENT.fullmatch(value) and _is_day(value[:10]):
        return ""
    return _no(value, "a date such as 2026-01-31")


def _timestamp(value: Any) -> str:
    if type(value) is int:
        fine = _FIRST_S <= value <= _LAST_S
        return (
            "" if fine else f": {_shown(value)} is not in the years 1 to 9999: a number is seconds since 1970"
        )
    fine = isinstance(value, str) and _is_moment(value, _ZONE)
    return "" if fine else _no(value, "a time such as 2026-01-31T12:00:00Z")


def _local_timestamp(value: Any) -> str:
    fine = isinstance(value, str) and _is_moment(value, _NO_ZONE)
    return "" if fine else _no(value, "a time without a zone such as 2026-01-31T12:00:00")


def _is_moment(text: str, zone: re.Pattern[str]) -> bool:
    match = _MOMENT.fullmatch(text)
    if match is None or not _is_day(match[1]) or not zone.fullmatch(match[3] or ""):
        return False
    try:
        time.fromisoformat((match[2] or "00:00")[:8])
    except ValueError:
        return False
    return True


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _binary(value: Any) -> str:
    fine = isinstance(value, str) and _BASE_64.fullmatch(value)
    return "" if fine else _no(value, "bytes in base64")


def _any(_value: Any) -> str:
    return ""


ANY = ValueKind("any value", _any, quoted=False)
TEXT = ValueKind("STRING", _any, quoted=True)
"""Spark takes every value for one, and gives the text of what is no string."""
SIMPLE: Mapping[str, ValueKind] = {
    **dict.fromkeys(("string", "varchar", "char", "character"), TEXT),
    **dict.fromkeys(("byte", "tinyint"), whole("TINYINT", 8)),
    **dict.fromkeys(("short", "smallint"), whole("SMALLINT", 16)),
    **dict.fromkeys(("int", "integer"), whole("INT", 32)),
    **dict.fromkeys(("long", "bigint"), whole("BIGINT", 64)),
    **dict.fromkeys(("float", "real"), ValueKind("FLOAT", _floating, quoted=False)),
    "double": ValueKind("DOUBLE", _floating, quoted=False),
    "boolean": ValueKind("BOOLEAN", _boolean, quoted=False),
    "date": ValueKind("DATE", _date, quoted=True),
    **dict.fromkeys(("timestamp", "timestamp_ltz"), ValueKind("TIMESTAMP", _timestamp, quoted=True)),
    "timestamp_ntz": ValueKind("TIMESTAMP_NTZ", _local_timestamp, quoted=True),
    "binary": ValueKind("BINARY", _binary, quoted=True),
}


def array_of(element: ValueKind) -> ValueKind:
    """A list of values of one kind."""

    def wrong(value: Any) -> str:
        if not isinstance(value, list):
            return _no(value, "an array")
        found = ((at, element.wrong(each)) for at, each in enumerate(value) if each is not None)
        return next((f"[{at}]{why}" for at, why in found if why), "")

    return ValueKind("ARRAY", wrong, quoted=False, inner=element)


def map_of(inner: ValueKind) -> ValueKind:
    """An object with any keys."""

    def wrong(value: Any) -> str:
        if not isinstance(value, dict):
            return _no(value, "an object")
        if isinstance(value, Repeating):
            return f" has the key {value.name[:_SHOWN]!r} twice"
        found = ((key[:_SHOWN], inner.wrong(each)) for key, each in value.items() if each is not None)
        return next((f"[{key!r}]{why}" for key, why in found if why), "")

    return ValueKind("MAP", wrong, quoted=False, inner=inner)


def struct_of(fields: Mapping[str, ValueKind]) -> ValueKind:
    """An object with these fields."""
    row = RowKind(fields)

    def wrong(value: Any) -> str:
        why = row.wrong(value)
        return f": {why}" if why else ""

    return ValueKind("STRUCT", wrong, quoted=False, fields=fields)


def _no(value: Any, wanted: str) -> str:
    return f": {_shown(value)} is not {wanted}"


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
