"""Protobuf's messages as rows and back: byte by byte, and by the numbers of fields of two schemas."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as spark

from kcontrol.adapters.spark.query.confluent import header_of
from kcontrol.adapters.spark.values.proto_reader import indexes_of, message_at, read_by, reader_message
from kcontrol.adapters.spark.values.proto_types import message_type
from kcontrol.adapters.spark.values.proto_writer import header_of_message, writer_of
from kcontrol.definition.protos import pool_of, proto_schema, proto_text
from kcontrol.errors import ConfigurationError
from kcontrol.wire.avro_reader import BadValueError

ORDER = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Order {
  int64 id = 1;
  optional double amount = 2;
  Country country = 3;
  repeated Line lines = 4;
  map<string, int32> counts = 5;
  google.protobuf.Timestamp at = 6;
  google.protobuf.StringValue note = 7;
  uint64 big = 8;
  oneof way { string post = 9; bool fetched = 10; }
  message Line { string what = 1; message Part { bytes raw = 1; } Part part = 2; }
}
enum Country { UNKNOWN = 0; CH = 1; NL = 2; }
message Refund { int64 id = 1; }
"""
AT = dt.datetime(2026, 11, 26, 12, 0, 0, 5, tzinfo=dt.UTC)
ROW: dict[str, Any] = {
    "id": -5,
    "amount": None,
    "country": "NL",
    "lines": [{"what": "a", "part": {"raw": b"\x00"}}, {"what": "", "part": None}],
    "counts": [("b", 2), ("a", 1)],
    "at": AT,
    "note": "n",
    "big": Decimal(2**64 - 1),
    "post": None,
    "fetched": False,
}
GOLDEN = bytes.fromhex(
    "08fbffffffffffffffff01"  # id
    "1802"  # country
    "22080a01611203" + "0a0100" + "2200"  # lines
    "2a050a01611001" + "2a050a01621002"  # counts, by key
    "320908c0bea0d80610" + "8827"  # at
    "3a030a016e"  # note
    "40ffffffffffffffffff01"  # big
    "5000"  # fetched: it is of a oneof, so it is there though it is false
)


def message_of(text: str, name: str | None = None) -> Any:
    schema = {"proto": text, "message": name} if name else text
    return reader_message(proto_schema("here", schema).carried)


def row_of(value: bytes, writer: Any, reader: Any, cells: int = 100) -> dict[str, Any]:
    return read_by(writer, reader)(value, cells)


def test_a_message_becomes_columns() -> None:
    kind = message_type(message_of(ORDER), "here")
    assert kind.simpleString() == (
        "struct<id:bigint,amount:double,country:string,lines:array<struct<what:string,part:struct<raw:binary>>>,"
        "counts:map<string,int>,at:timestamp,note:string,big:decimal(20,0),post:string,fetched:boolean>"
    )


def test_rows_go_out_as_these_bytes_and_come_in_again() -> None:
    order = message_of(ORDER)
    value = writer_of(message_type(order, "here"), order, "here")(ROW)
    assert value == GOLDEN
    at_us = (AT - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
    assert row_of(value, order, order) == {**ROW, "counts": [("a", 1), ("b", 2)], "at": at_us}
    assert row_of(b"", order, order) == {
        **{"id": 0, "amount": None, "country": "UNKNOWN", "lines": [], "counts": [], "at": None},
        **{"note": None, "big": Decimal(0), "post": None, "fetched": None},
    }


def test_behind_the_id_it_says_which_message_of_the_file_it_is() -> None:
    """Bytes as Confluent's serializer for Java writes them."""
    file = proto_schema("here", ORDER).file
    _, found = pool_of(file)
    names = {
        "Order": "00",
        "Refund": "0202",
        "Order.Line": "040000",
        "Order.Line.Part": "06000000",
    }
    for name, expected in names.items():
        message = message_of(ORDER, name)
        assert header_of_message(message).hex() == expected
        indexes, at = indexes_of(header_of(7) + bytes.fromhex(expected) + b"rest", 5)
        assert message_at(found, indexes).full_name == f"shop.{name}"
        assert at == 5 + len(bytes.fromhex(expected))


@pytest.mark.parametrize(
    ("indexes", "why"),
    [("", "end too early"), ("02", "end too early"), ("01", "said to be -1"), ("0208", "no message at 4")],
)
def test_indexes_that_lead_nowhere_are_refused(indexes: str, why: str) -> None:
    _, file = pool_of(proto_schema("here", ORDER).file)
    with pytest.raises(BadValueError, match=why):
        message_at(file, indexes_of(bytes.fromhex(indexes), 0)[0])


def test_fields_belong_together_by_number_whatever_was_added_renamed_or_widened() -> None:
    writer = message_of(
        'syntax = "proto3"; message Order { sint32 number = 1; string gone = 2; repeated fixed32 many = 3;'
        " bytes text = 4; Way way = 5; float small = 6; } enum Way { A = 0; B = 1; C = 2; }"
    )
    reader = message_of(
        'syntax = "proto3"; message Order { int64 id = 1; repeated uint64 many = 3; string text = 4; Way way = 5;'
        " double small = 6; optional int32 new = 7; int32 zero = 8; } enum Way { NONE = 0; B = 1; }"
    )
    value = GetMessageClass(writer)(number=-3, gone="x", many=[1, 2], text=b"t", way=2, small=0.5)
    assert row_of(value.SerializeToString(), writer, reader) == {
        **{"id": -3, "many": [Decimal(1), Decimal(2)], "text": "t", "way": "C", "small": 0.5},
        **{"new": None, "zero": 0},
    }


PLAIN = 'syntax = "proto3"; message M {{ {} }} enum E {{ A = 0; }} message N {{ int32 a = 1; }}'


@pytest.mark.parametrize(
    ("written", "read", "why"),
    [
        ("int32 a = 1;", "string a = 1;", r"field a \(1\) is int32 there and string here"),
        ("int32 a = 1;", "bool a = 1;", "int32 there and bool here"),
        ("E a = 1;", "int32 a = 1;", "enum there and int32 here"),
        ("N a = 1;", "bytes a = 1;", "N there and bytes here"),
        ("repeated int32 a = 1;", "int32 a = 1;", "is repeated there and a single value here"),
        ("map<string, int32> a = 1;", "repeated N a = 1;", "is a map there and repeated here"),
        ("double a = 1;", "float a = 1;", "double there and float here"),
    ],
)
def test_schemas_that_do_not_go_together_are_told_beforehand(written: str, read: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_by(message_of(PLAIN.format(written)), message_of(PLAIN.format(read)))


def test_a_message_of_another_name_is_not_read_as_if_it_were_one() -> None:
    with pytest.raises(ValueError, match=r"it is a message shop\.Refund and not a shop\.Order"):
        read_by(message_of(ORDER, "Refund"), message_of(ORDER))


@pytest.mark.parametrize(
    ("fields", "value", "why"),
    [
        ("int32 a = 1;", "08", "corrupt|parsing"),
        ("string a = 1;", "0a01ff", "UTF-8|corrupt|parsing"),
        ("E a = 1;", "0805", r"field a \(1\) is 5, for which E has no name"),
        ("repeated N a = 1;", "0a00" * 50, "more than max_cells allows"),
    ],
)
def test_bad_values_are_told(fields: str, value: str, why: str) -> None:
    message = message_of(PLAIN.format(fields))
    narrow = "repeated N" in fields
    with pytest.raises(BadValueError, match=why):
        row_of(bytes.fromhex(value), message, message, -1_580 if narrow else 0)


def test_numbers_and_times_that_no_column_holds_are_bad() -> None:
    wide, narrow = message_of(PLAIN.format("int64 a = 1;")), message_of(PLAIN.format("int32 a = 1;"))
    value = GetMessageClass(wide)(a=1 << 40).SerializeToString()
    with pytest.raises(BadValueError, match="which does not fit"):
        row_of(value, wide, narrow)
    order = message_of(ORDER)
    late = GetMessageClass(order)(at={"seconds": 253_402_300_800}).SerializeToString()
    with pytest.raises(BadValueError, match="which is no timestamp"):
        row_of(late, order, order)


def fails(fields: str, kind: str, row: dict[str, Any]) -> Callable[[], object]:
    message = message_of(PLAIN.format(fields))
    return lambda: writer_of(spark.StructType.fromDDL(kind), message, "output 'o'")(row)


def spark_kind(*fields: tuple[str, spark.DataType]) -> spark.StructType:
    return spark.StructType([spark.StructField(*field) for field in fields])


@pytest.mark.parametrize(
    ("fields", "kind", "value", "why"),
    [
        ("int32 a = 1;", spark.LongType(), 1 << 31, "is 2147483648, and must be -2147483648 to 2147483647"),
        ("uint32 a = 1;", spark.LongType(), -1, "must be 0 to 4294967295"),
        ("int32 a = 1;", spark.LongType(), None, "is null, which its field can't be: declare it optional"),
        ("E a = 1;", spark.StringType(), "X", "is 'X', and must be one of A"),
        ("repeated int32 a = 1;", spark.ArrayType(spark.IntegerType()), [1, None], "an item is null"),
        ("map<string, int32> a = 1;", spark.MapType(spark.StringType(), spark.IntegerType()), [("k", None)], "a value is null"),
    ],
)  # fmt: skip
def test_values_that_a_field_does_not_hold_are_refused(
    fields: str, kind: spark.DataType, value: Any, why: str
) -> None:
    write = writer_of(spark_kind(("a", kind)), message_of(PLAIN.format(fields)), "output 'o'")
    with pytest.raises(ValueError, match=f"output 'o': column 'a'.*{why}"):
        write({"a": value})


def test_of_a_oneof_one_column_at_most_has_a_value() -> None:
    message = message_of(PLAIN.format("oneof way { int32 a = 1; int32 b = 2; }"))
    write = writer_of(
        spark_kind(("a", spark.IntegerType()), ("b", spark.IntegerType())), message, "output 'o'"
    )
    assert write({"a": None, "b": 0}).hex() == "1000"
    with pytest.raises(ValueError, match="a and b have values, and one of way at most can have one"):
        write({"a": 1, "b": 0})


@pytest.mark.parametrize(
    ("fields", "kind", "why"),
    [
        ("int32 b = 1;", spark.IntegerType(), "message M has no field for column 'a'; it has b"),
        ("int32 a = 1;", spark.StringType(), "column 'a' is string, which field 'a' of M does not hold"),
        ("float a = 1;", spark.DoubleType(), "column 'a' is double"),
        ("uint64 a = 1;", spark.DecimalType(20, 2), "column 'a' is decimal"),
        ("repeated int32 a = 1;", spark.IntegerType(), "which repeated does not hold"),
        ("N a = 1;", spark.IntegerType(), "which N does not hold"),
    ],
)
def test_columns_that_are_not_the_messages_are_refused_before_anything_is_read(
    fields: str, kind: spark.DataType, why: str
) -> None:
    with pytest.raises(ConfigurationError, match=why):
        writer_of(spark_kind(("a", kind)), message_of(PLAIN.format(fields)), "output 'o'")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("message M {", "protoc does not take it"),
        ('syntax = "proto3";', "its file has no message"),
        ('syntax = "proto3"; import "other.proto"; message M { int32 a = 1; }', "protoc does not take it: .*other.proto"),
        (5, "it must be the text of a .proto file"),
        ({"proto": ORDER, "message": "Nothing"}, "has no message 'Nothing'; it has shop.Order, shop.Order.Line"),
        ({"message": "M"}, "a dictionary for Protobuf has 'proto'"),
    ],
)  # fmt: skip
def test_what_is_no_schema_is_refused_in_words(text: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^here: schema.*{why}"):
        proto_schema("here", text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('syntax = "proto3"; message M { M m = 1; }', "message M is recursive"),
        ('syntax = "proto3"; message M { }', "message M has no fields"),
    ],
)
def test_messages_that_are_no_columns_are_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        message_type(message_of(text), "here")


def test_a_generated_class_says_the_same_as_its_text() -> None:
    made = GetMessageClass(message_of(ORDER, "Refund"))
    schema = proto_schema("here", made)
    assert schema.message == "shop.Refund"
    assert proto_text(made) == proto_text(made) != proto_text(ORDER)
    by_text = proto_schema("here", {"proto": schema.text, "message": "Refund"})
    assert (by_text.file, by_text.message) == (schema.file, schema.message)


@settings(deadline=None)
@given(
    st.fixed_dictionaries(
        {
            "id": st.integers(-(1 << 63), (1 << 63) - 1),
            "amount": st.none() | st.floats(allow_nan=False),
            "country": st.sampled_from(["UNKNOWN", "CH", "NL"]),
            "lines": st.lists(
                st.fixed_dictionaries({"what": st.text(), "part": st.none() | st.fixed_dictionaries({"raw": st.binary()})}),
                max_size=3,
            ),
            "counts": st.dictionaries(st.text(), st.integers(-(1 << 31), (1 << 31) - 1), max_size=3).map(
                lambda found: sorted(found.items())
            ),
            "note": st.none() | st.text(),
            "big": st.integers(0, (1 << 64) - 1).map(Decimal),
            "post": st.none() | st.text(),
        }
    )
)  # fmt: skip
def test_rows_come_back_as_they_went(row: dict[str, Any]) -> None:
    order = message_of(ORDER)
    whole = {**row, "at": None, "fetched": None}
    value = writer_of(message_type(order, "o"), order, "o")(whole)
    assert row_of(value, order, order, 1_000) == whole
