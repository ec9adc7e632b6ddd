"""What goes into which type of PostgreSQL, and what is refused with which reason."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from kcontrol.adapters.postgres.columns import Column, to_text

_TWO_OF_FIVE = ((5 << 16) | 2) + 4
"""The modifier of numeric(5, 2)."""
UTC = dt.UTC


@pytest.mark.parametrize(
    ("type_name", "value", "text"),
    [
        ("int2", 32767, "32767"),
        ("int8", -(1 << 63), "-9223372036854775808"),
        ("float8", 0.1, "0.1"),
        ("float8", Decimal("0.1"), "0.1"),
        ("float8", "NaN", "NaN"),
        ("numeric", Decimal("12345678901234567890.123"), "12345678901234567890.123"),
        ("bool", True, "t"),
        ("text", "a\tb", "a\tb"),
        ("text", b"raw", "raw"),
        ("bytea", "AP8=", "\\x00ff"),
        ("bytea", b"\0\xff", "\\x00ff"),
        ("date", "2026-02-03", "2026-02-03"),
        ("timestamptz", "2026-02-03T04:05:06.007Z", "2026-02-03T04:05:06.007000+00:00"),
        ("timestamptz", dt.datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00+00:00"),
        ("timestamp", "2026-02-03T04:05:06", "2026-02-03T04:05:06"),
        ("uuid", "12345678-1234-5678-1234-567812345678", "12345678-1234-5678-1234-567812345678"),
        ("jsonb", {"a": [1, Decimal("0.5"), None]}, '{"a": [1, 0.5, null]}'),
        ("inet", "10.0.0.1", "10.0.0.1"),
    ],
)
def test_a_value_that_fits(type_name: str, value: Any, text: str) -> None:
    assert to_text(Column("c", type_name, type_name))(value) == text


@pytest.mark.parametrize(
    ("type_name", "value", "why"),
    [
        ("int2", 32768, "too large"),
        ("int4", 1.5, "no whole number"),
        ("int4", True, "no whole number"),
        ("int4", "1", "no whole number"),
        ("float8", "1.5", "no number"),
        ("numeric", False, "no number"),
        ("bool", 1, "neither true nor false"),
        ("text", 1, "no text"),
        ("text", "a\0b", "code 0"),
        ("text", b"\xff", "not UTF-8"),
        ("bytea", "%%", "base64"),
        ("date", "yesterday", "isoformat"),
        ("date", dt.datetime(2026, 1, 2), "no date"),
        ("timestamptz", "2026-02-03T04:05:06", "no time zone"),
        ("timestamp", "2026-02-03T04:05:06Z", "would drop"),
        ("uuid", "1234", "hexadecimal UUID"),
        ("jsonb", {"a": "\0"}, "code 0"),
        ("json", float("nan"), "no such number"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(type_name: str, value: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        to_text(Column("c", type_name, type_name))(value)


def test_digits_of_a_numeric_are_counted_as_postgresql_does() -> None:
    text_of = to_text(Column("c", "numeric", "numeric(5,2)", _TWO_OF_FIVE))
    assert text_of(Decimal("999.994")) == "999.994"
    with pytest.raises(ValueError, match="more digits"):
        text_of(Decimal("999.995"))


def test_characters_of_a_varchar_are_counted() -> None:
    text_of = to_text(Column("c", "varchar", "character varying(3)", 3 + 4))
    assert text_of("äöü") == "äöü"
    with pytest.raises(ValueError, match="it has 4 characters"):
        text_of("abcd")


def test_arrays_are_quoted() -> None:
    text_of = to_text(Column("c", "text", "text[]", is_array=True))
    assert text_of(["a", 'q"\\', None, "NULL", ""]) == '{"a","q\\"\\\\",NULL,"NULL",""}'
    with pytest.raises(ValueError, match="no list"):
        text_of("a")
