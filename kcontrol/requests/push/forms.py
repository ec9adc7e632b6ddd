"""Values of Avro and Parquet as JSON has them: the text that Spark's JSON reader takes for the same value."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from json.encoder import encode_basestring
from math import isfinite

from kcontrol.requests.push.kinds import ValueKind

NULL, TRUE, FALSE = "null", "true", "false"
MAX_DEPTH = 64
"""Types within types."""
MAX_SHOWN = 60
"""Characters of a name, in messages."""
MAX_DIGITS = 1_000
"""Of a decimal: Spark's reader takes no longer numbers."""
MILLIS, MICROS, NANOS = 1_000, 1_000_000, 1_000_000_000
"""How many there are in a second."""

_EPOCH, _EPOCH_DAY = datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1)
_TEXT_OF_NAN: Mapping[str, str] = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}
_TAKE_NAN = ("FLOAT", "DOUBLE", "STRING")
_DAY_S = 86_400
_EXACT = Context(prec=MAX_DIGITS)


class NoJsonError(ValueError):
    """A value that JSON, or the type of its field, has no form for. where: its fields, from the outermost."""

    def __init__(self, why: str, where: tuple[str, ...] = ()) -> None:
        super().__init__(why)
        self.why, self.where = why, where

    def within(self, name: str) -> NoJsonError:
        """The same, of a field of that name."""
        return NoJsonError(self.why, (name, *self.where))

    def __str__(self) -> str:
        return ": ".join([*(f"field {name[:MAX_SHOWN]!r}" for name in self.where), self.why])


text = encode_basestring
"""A text in quotes."""


def number(value: float, kind: ValueKind | None) -> str:
    """kind: of the field, if it is known. Raises NoJsonError."""
    if isfinite(value):
        return repr(value)
    if kind is None or kind.name not in _TAKE_NAN:
        raise NoJsonError(f"is {value}, which is no number of JSON")
    return _TEXT_OF_NAN[repr(value)]


def check_bytes(kind: ValueKind | None) -> None:
    """Raises NoJsonError where bytes would become their base64 as if it were the text."""
    if kind is not None and kind.name == "STRING":
        raise NoJsonError("is of bytes, and must be of text")


def of_bytes(value: bytes) -> str:
    """In base64, as Spark reads a BINARY."""
    return f'"{b64encode(value).decode()}"'


def check_digits(precision: int, scale: int) -> None:
    """Raises NoJsonError."""
    if not 0 <= scale <= precision <= MAX_DIGITS:
        raise NoJsonError(
            f"is a decimal of {precision} digits, {scale} behind the point, and {MAX_DIGITS} are the most"
        )


def decimal(unscaled: int, precision: int, scale: int) -> str:
    """With all digits behind the point. Raises NoJsonError."""
    if abs(unscaled) >= 10**precision:
        raise NoJsonError(f"is a decimal of more than {precision} digits")
    return format(Decimal(unscaled).scaleb(-scale, _EXACT), "f")


def day(days: int) -> str:
    """Since 1970. Raises NoJsonError."""
    try:
        return f'"{_EPOCH_DAY + timedelta(days=days)}"'
    except OverflowError as error:
        raise NoJsonError("is a day outside of the years 1 to 9999") from error


def moment(count: int, per_s: int, zone: str) -> str:
    """per_s: how many of what is counted there are in a second. zone: Z, or '' for a time of no zone. Raises NoJsonError."""
    seconds, rest = divmod(count, per_s)
    try:
        whole = _EPOCH + timedelta(seconds=seconds)
    except OverflowError as error:
        raise NoJsonError("is a time outside of the years 1 to 9999") from error
    return f'"{whole.replace(tzinfo=None).isoformat()}{_fraction(rest, per_s)}{zone}"'


def time_of_day(count: int, per_s: int) -> str:
    """Raises NoJsonError."""
    seconds, rest = divmod(count, per_s)
    if not 0 <= seconds < _DAY_S:
        raise NoJsonError("is a time of day of more than 24 hours")
    return f'"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{_fraction(rest, per_s)}"'


def _fraction(rest: int, per_s: int) -> str:
    """Six digits as Python writes them, nine where it must be, none where they are 0."""
    nanos = rest * (NANOS // per_s)
    if not nanos:
        return ""
    return f".{nanos // 1000:06}" if nanos % 1000 == 0 else f".{nanos:09}"


def array_of(parts: Sequence[str], most: int) -> str:
    """most: characters. Raises NoJsonError before there are more: what is used more than once takes no memory until it is
    written here."""
    _check_size(parts, most)
    return f"[{','.join(parts)}]"


def object_of(names: Sequence[str], values: Sequence[str], most: int) -> str:
    """names: as JSON. The rest as `array_of`."""
    _check_size(names, most)
    _check_size(values, most)
    return f"{{{','.join([f'{name}:{value}' for name, value in zip(names, values, strict=True)])}}}"


def _check_size(parts: Sequence[str], most: int) -> None:
    if sum(map(len, parts)) + len(parts) > most:
        raise NoJsonError(f"has more than {most} bytes, which are the most of a row")
