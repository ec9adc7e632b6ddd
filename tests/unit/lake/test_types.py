"""Columns in words as types of Arrow, and which values they hold."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kcontrol.adapters.lake.types import schema_of
from kcontrol.adapters.lake.values import rule_for
from kcontrol.errors import ConfigurationError

UTC = dt.UTC


def test_columns_are_as_spark_has_them() -> None:
    ddl = "id BIGINT NOT NULL, `a ``name``` string, price decimal(12, 2), at: TIMESTAMP, tags ARRAY<STRING>, \
m MAP<STRING, INT>, s STRUCT<x: INT, y: ARRAY<DOUBLE>> not null"
    assert schema_of(ddl) == pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("a `name`", pa.string()),
            pa.field("price", pa.decimal128(12, 2)),
            pa.field("at", pa.timestamp("us", "UTC")),
            pa.field("tags", pa.list_(pa.string())),
            pa.field("m", pa.map_(pa.string(), pa.int32())),
            pa.field(
                "s",
                pa.struct([("x", pa.int32()), ("y", pa.list_(pa.float64()))]),
                nullable=False,
            ),
        ]
    )


@pytest.mark.parametrize(
    ("ddl", "why"),
    [
        ("", "is no column: give NAME TYPE"),
        ("id", "'id' is no column"),
        ("id BIGNIT", "column 'id': 'BIGNIT' is no type; there are STRING"),
        ("id INT, id INT", "column 'id' is there twice"),
        ("id INT DEFAULT 3", "column 'id': 'DEFAULT 3' is not known here"),
        ("price DECIMAL(40, 2)", "is no type"),
        ("m MAP<INT, INT>", "is no type"),
        ("m ARRAY<INT", "a > is missing"),
    ],
)
def test_what_is_no_column_is_said(ddl: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        schema_of(ddl)


@pytest.mark.parametrize(
    ("kind", "value", "held"),
    [
        (pa.int8(), -128, -128),
        (pa.float64(), Decimal("2.5"), 2.5),
        (pa.float64(), "-Infinity", float("-inf")),
        (pa.decimal128(5, 2), Decimal("123.450"), Decimal("123.450")),
        (pa.decimal128(5, 2), 2.5, Decimal("2.5")),
        (pa.string(), b"x", "x"),
        (pa.binary(), "aGk=", b"hi"),
        (pa.date32(), "2026-01-31", dt.date(2026, 1, 31)),
        (pa.timestamp("us", "UTC"), "2026-01-31T12:00:00Z", dt.datetime(2026, 1, 31, 12, tzinfo=UTC)),
        (pa.timestamp("us"), "2026-01-31T12:00:00", dt.datetime(2026, 1, 31, 12)),
        (pa.list_(pa.int32()), [1, None], [1, None]),
        (pa.map_(pa.string(), pa.int32()), {"a": 1}, [("a", 1)]),
        (pa.struct([("x", pa.int32()), ("y", pa.string())]), {"x": 1}, {"x": 1, "y": None}),
    ],
)
def test_values_are_held_as_they_are(kind: pa.DataType, value: Any, held: Any) -> None:
    rule = rule_for(kind)
    assert rule is not None
    assert rule(value) == held
    assert pa.array([rule(value)], kind)[0].is_valid


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        (pa.int8(), 128, "too large"),
        (pa.int32(), True, "no whole number"),
        (pa.int32(), Decimal("1.5"), "no whole number"),
        (pa.float64(), "1", "no number"),
        (pa.decimal128(5, 2), Decimal("1.005"), "more than 2 digits behind the point"),
        (pa.decimal128(5, 2), 1000, "more digits than the type"),
        (pa.bool_(), 1, "neither true nor false"),
        (pa.string(), 1, "no text"),
        (pa.binary(), "?", "no base64"),
        (pa.date32(), "soon", "isoformat"),
        (pa.timestamp("us", "UTC"), "2026-01-31T12:00:00", "no time zone"),
        (pa.timestamp("us"), "2026-01-31T12:00:00Z", "would drop"),
        (pa.list_(pa.int32()), 1, "no list"),
        (pa.map_(pa.string(), pa.int32()), [], "no object"),
        (pa.struct([("x", pa.int32())]), {"y": 1}, "no field 'y'"),
    ],
)
def test_what_would_change_its_meaning_is_refused(kind: pa.DataType, value: Any, why: str) -> None:
    rule = rule_for(kind)
    assert rule is not None
    with pytest.raises(ValueError, match=why):
        rule(value)


def test_a_type_that_nothing_is_written_into_has_no_rule() -> None:
    assert rule_for(pa.duration("s")) is None
    assert rule_for(pa.list_(pa.duration("s"))) is None
