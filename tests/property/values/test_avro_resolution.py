"""A value that was written by one schema reads as another says, and fastavro agrees; damaged ones are a row or bad."""

from __future__ import annotations

import json
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType

from kcontrol.adapters.spark.values.avro_resolution import resolved_reader, same_values, whole_schema
from kcontrol.adapters.spark.values.avro_types import spark_type
from kcontrol.core.model import SchemaReference
from kcontrol.errors import ConfigurationError
from kcontrol.wire.avro_reader import BadValueError
from tests.property.values.mutations import mutations

SEED, FEW, MANY = 20_261_125, 200, 100_000
MAX_CELLS = 1_000


def record(*fields: tuple[Any, ...]) -> dict[str, Any]:
    """Of (name, type) or (name, type, more)."""
    made = [{"name": name, "type": kind, **(more[0] if more else {})} for name, kind, *more in fields]
    return {"type": "record", "name": "Row", "fields": made}


DATE, MILLIS, MICROS = (
    {"type": "int", "logicalType": "date"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
)
NUMBER = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
INNER = {
    "type": "record",
    "name": "Inner",
    "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "string"}],
}
WIDER = {
    "type": "record",
    "name": "Inner",
    "fields": [{"name": "y", "type": "bytes"}, {"name": "x", "type": "double"}],
}
AB = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
ABC = {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}
A_OR = {"type": "enum", "name": "E", "symbols": ["A", "Z"], "default": "Z"}

PAIRS = {
    "promotions": (
        record(("a", "int"), ("b", "int"), ("c", "int"), ("d", "long"), ("e", "float"), ("f", "string")),
        record(
            ("a", "long"), ("b", "float"), ("c", "double"), ("d", "double"), ("e", "double"), ("f", "bytes")
        ),
    ),
    "other order, dropped and added": (
        record(
            ("gone", INNER), ("b", "string"), ("more", {"type": "array", "items": "string"}), ("a", "int")
        ),
        record(
            ("a", "int"),
            ("b", "string"),
            ("c", ["null", "long"], {"default": None}),
            ("d", "bytes", {"default": "x"}),
            ("e", DATE, {"default": 5}),
            ("f", {"type": "array", "items": "int"}, {"default": [1, 2]}),
        ),
    ),
    "unions": (
        record(
            ("a", "int"), ("b", ["null", "int"]), ("c", ["int", "string", "null"]), ("d", ["string", INNER])
        ),
        record(("a", ["null", "int"]), ("b", ["null", "long"]), ("c", ["null", "int"]), ("d", "string")),
    ),
    "a null that there may not be": (record(("a", ["null", "int"])), record(("a", "int"))),
    "nested": (
        record(
            ("a", {"type": "array", "items": INNER}),
            ("b", {"type": "map", "values": ["null", "int"]}),
            ("c", ["null", "Inner"]),
        ),
        record(
            ("b", {"type": "map", "values": ["null", "long"]}),
            ("a", {"type": "array", "items": WIDER}),
            ("c", ["null", "Inner"]),
        ),
    ),
    "enumerations": (record(("a", ABC), ("b", "int")), record(("a", AB), ("b", "int"))),
    "an enumeration with a default": (record(("a", ABC)), record(("a", A_OR))),
    "an alias": (record(("old", "int")), record(("new", "long", {"aliases": ["old"]}))),
    "what has a meaning is dropped": (
        record(("a", "int"), ("b", "long"), ("c", "bytes"), ("x", DATE)),
        record(("b", "long"), ("c", "bytes"), ("a", "int")),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("size", [FEW, pytest.param(MANY, marks=pytest.mark.heavy)])
def test_fastavro_reads_the_same(name: str, size: int) -> None:
    writer, reader = (whole_schema(json.dumps(each)) for each in PAIRS[name])
    read = resolved_reader(writer, reader, "here")
    kind = spark_type(reader, "here")
    assert isinstance(kind, StructType)
    arrow = to_arrow_type(kind, timezone="UTC")
    written, wanted = (fastavro.parse_schema(each) for each in PAIRS[name])
    rows, bad = 0, 0
    for value in mutations(PAIRS[name][0], size, SEED):
        try:
            row = read(value, 0, MAX_CELLS)
        except BadValueError:
            bad += 1
            continue
        rows += 1
        theirs = fastavro.schemaless_reader(BytesIO(value), written, wanted)
        ours, expected = pa.array([row], arrow), pa.array([theirs], arrow)
        assert repr(ours.to_pylist()) == repr(expected.to_pylist()), value.hex()
    assert rows, f"{bad} of {bad} values were bad"


@pytest.mark.parametrize(
    ("writer", "reader", "value", "gives"),
    [
        pytest.param("long", MICROS, b"\x02", 1, id="a number is what the reader says"),
        pytest.param(MILLIS, MICROS, b"\x02", 1_000, id="milliseconds as microseconds"),
        pytest.param(MICROS, MILLIS, b"\x02", 1, id="microseconds stay what they are"),
        pytest.param(MILLIS, "long", b"\x02", 1, id="the reader wants the bare number"),
        pytest.param(
            {"type": "int", "logicalType": "time-millis"}, "int", b"\x02", 1, id="what Spark has not"
        ),
        pytest.param({"type": "long", "connect.name": "x"}, "long", b"\x02", 1, id="others' properties"),
        pytest.param(DATE, MICROS, b"\x02", "date can't be read as timestamp-micros", id="another meaning"),
        pytest.param(NUMBER, {**NUMBER, "precision": 12}, b"\x02\x7b", Decimal("1.23"), id="more digits"),
        pytest.param("bytes", NUMBER, b"\x02\x7b", Decimal("1.23"), id="bytes are what the reader says"),
        pytest.param({**NUMBER, "scale": 3}, NUMBER, b"\x02\x01", "a decimal of scale 3", id="another scale"),
        pytest.param("string", "int", b"\x02a", "string can't be read as int", id="another type"),
        pytest.param("bytes", "string", b"\x02\xff", "not UTF-8", id="bytes that are no text"),
        pytest.param(["null", "string"], ["null", "int"], b"\x00", None, id="a branch that fits"),
        pytest.param(
            ["null", "string"], ["null", "int"], b"\x02\x02a", "string can't", id="one that does not"
        ),
        pytest.param(
            {"type": "fixed", "name": "F", "size": 1},
            {"type": "fixed", "name": "F", "size": 2},
            b"a",
            "a fixed value of 1",
            id="another size",
        ),
        pytest.param(AB, {**AB, "symbols": ["B"]}, b"\x00", "no symbol 'A'", id="a symbol that is not there"),
    ],
)
def test_what_a_value_of_one_type_is_as_another(writer: Any, reader: Any, value: bytes, gives: Any) -> None:
    both = [whole_schema(json.dumps(record(("a", each)))) for each in (writer, reader)]
    read = resolved_reader(*both, "here")
    if isinstance(gives, str):
        with pytest.raises(BadValueError, match=gives):
            read(value, 0, MAX_CELLS)
    else:
        assert read(value, 0, MAX_CELLS) == {"a": gives}


def test_a_field_without_a_default_that_was_not_written_makes_the_value_bad() -> None:
    read = resolved_reader(record(("a", "int")), record(("a", "int"), ("b", "int")), "here")
    with pytest.raises(BadValueError, match="has no b, for which there is no default"):
        read(b"\x02", 0, MAX_CELLS)


def test_bytes_are_the_characters_of_a_default() -> None:
    read = resolved_reader(record(), record(("a", "bytes", {"default": "\u00ff"})), "here")
    assert read(b"", 0, MAX_CELLS) == {"a": b"\xff"}


def test_a_default_of_another_type_is_refused_with_the_field() -> None:
    with pytest.raises(ConfigurationError, match="here: the default of field 'b'"):
        resolved_reader(record(), record(("b", "int", {"default": "many"})), "here")


def test_schemas_that_need_others_are_made_whole() -> None:
    inner = SchemaReference(
        "geo.Point",
        json.dumps({"type": "record", "name": "geo.Point", "fields": [{"name": "x", "type": "int"}]}),
    )
    outer = SchemaReference(
        "geo.Line",
        json.dumps({"type": "record", "name": "geo.Line", "fields": [{"name": "to", "type": "geo.Point"}]}),
    )
    text = json.dumps(record(("line", ["null", "geo.Line"]), ("point", "geo.Point")))
    whole = whole_schema(text, [inner, outer])
    point = {"type": "record", "name": "geo.Point", "fields": [{"name": "x", "type": "int"}]}
    assert whole["fields"][1]["type"] == point
    assert resolved_reader(whole, record(("point", point)), "here")(b"\x02\x02\x04", 0, 9) == {
        "point": {"x": 2}
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "Expecting"),
        ('"sometype"', "not an Avro schema"),
        ('{"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}', "recursive"),
        ('{"type": "record"}', "not an Avro schema"),
        ("5", "not an Avro schema"),
    ],
)
def test_what_is_no_schema_or_a_recursive_one_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        whole_schema(text)


def test_words_about_a_schema_make_no_other_of_it() -> None:
    one = record(("a", ["null", MILLIS], {"default": None, "doc": "when"}))
    other = {**record(("a", ["null", {**MILLIS, "connect.version": 1}])), "name": "x.Other", "doc": "more"}
    assert same_values(whole_schema(json.dumps(one)), whole_schema(json.dumps(other)))
    plain = record(("a", ["null", "long"]))
    assert not same_values(whole_schema(json.dumps(one)), whole_schema(json.dumps(plain)))
