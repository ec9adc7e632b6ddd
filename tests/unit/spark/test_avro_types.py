"""Avro schemas to Spark types and back, and what has no counterpart."""

from __future__ import annotations

import json
from typing import Any

import fastavro
import pytest
from pyspark.sql import types as st

from kcontrol.adapters.spark.values.avro_columns import ValueReader, encode_row
from kcontrol.adapters.spark.values.avro_types import avro_schema, spark_type
from kcontrol.errors import ConfigurationError

NESTED = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "maybe", "type": ["null", "string"]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "by", "type": {"type": "map", "values": "double"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {
            "name": "inner",
            "type": {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "int"}]},
        },
        {"name": "same", "type": "Inner"},
    ],
}
DDL = (
    "struct<id:bigint,maybe:string,price:decimal(9,2),day:date,tags:array<string>,by:map<string,double>,kind:string,"
    "inner:struct<x:int>,same:struct<x:int>>"
)


def test_a_schema_gives_spark_columns() -> None:
    assert spark_type(NESTED, "here").simpleString() == DDL


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (["int", "string"], "union of several types"),
        ({"type": "long", "logicalType": "time-micros"}, "time-micros"),
        ("R", "recursive or unknown"),
    ],
)
def test_what_has_no_column_is_told_with_its_field(kind: Any, message: str) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "odd", "type": kind}]}
    with pytest.raises(ConfigurationError, match=f"input 'i': field 'odd': .*{message}"):
        spark_type(schema, "input 'i'")


def test_spark_columns_give_a_schema_that_gives_them_back() -> None:
    kind = (
        st.StructType()
        .add("a", st.IntegerType())
        .add("b", st.StringType(), nullable=False)
        .add("c", st.ArrayType(st.DoubleType()))
        .add("d", st.MapType(st.StringType(), st.LongType()))
        .add("e", st.StructType().add("f", st.TimestampType()))
        .add("g", st.DecimalType(5, 1))
        .add("h", st.BinaryType())
    )
    schema = avro_schema(kind, "my-output", "here")
    fastavro.parse_schema(schema)
    assert spark_type(schema, "here").simpleString() == kind.simpleString()


def test_a_column_that_avro_can_not_name_or_hold_is_told() -> None:
    for kind in (
        st.StructType().add("a b", st.IntegerType()),
        st.StructType().add("a", st.DayTimeIntervalType()),
    ):
        with pytest.raises(ConfigurationError, match="output 'o': column 'a"):
            avro_schema(kind, "o", "output 'o'")


def test_values_are_read_alone_or_as_single_objects_and_whole_or_not_at_all() -> None:
    text = '{"type": "record", "name": "R", "fields": [{"name": "x", "type": "long"}]}'
    reader = ValueReader(text, "bad", 0)
    value = encode_row({"x": -3}, fastavro.parse_schema(json.loads(text)))
    assert reader.read(value) == {"x": -3, "bad": None}
    assert reader.read(reader.header + value) == {"x": -3, "bad": None}
    assert "left over" in reader.read(value + b"\x00")["bad"]
    assert "not valid Avro" in reader.read(b"")["bad"]
