"""Rows out of Avro and Parquet: each is the row of JSON that it would have been as NDJSON, or is refused, and named."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kcontrol.errors import ConfigurationError
from kcontrol.requests.push.bodies import AVRO, CSV, NDJSON, PARQUET, content_of, rows_of
from kcontrol.requests.push.limits import BodyLimits, Rules
from kcontrol.requests.push.schema import row_kind
from tests.support.packed_rows import avro, container, parquet, record

SCHEMA = (
    "s STRING, n INT, big BIGINT, f FLOAT, x DOUBLE, d DECIMAL(5,2), b BOOLEAN, raw BINARY, day DATE, at TIMESTAMP, "
    "a ARRAY<INT>, m MAP<STRING, DOUBLE>, r STRUCT<s: STRING, t: ARRAY<STRUCT<u: STRING>>>"
)
NOW = datetime(2026, 1, 31, 12, 30, 15, 250_000, UTC)
DATE = {"type": "int", "logicalType": "date"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
DURATION = {"type": "fixed", "name": "f", "size": 12, "logicalType": "duration"}
STRUCT = {"type": "record", "name": "q", "fields": [{"name": "s", "type": "bytes"}]}
R = pa.struct({"s": pa.string(), "t": pa.list_(pa.struct({"u": pa.string()}))})
FAR = pa.array([0, 9_999_999], pa.int32()).cast(pa.date32())
UUID = "00112233-4455-6677-8899-aabbccddeeff"


def rules(schema: str = SCHEMA, key: str = "", **limits: int) -> Rules:
    return Rules("input 'i'", row_kind(schema), raw=not schema, key=key, limits=BodyLimits(**limits))


def values(body: bytes, kind: str, schema: str = SCHEMA, **limits: int) -> list[str]:
    return [row.value.decode() for row in rows_of(body, kind, rules(schema, **limits))]


def refused(body: bytes, kind: str, schema: str = SCHEMA, **limits: int) -> str:
    with pytest.raises(ConfigurationError) as raised:
        values(body, kind, schema, **limits)
    return str(raised.value)


def of_avro(kind: Any, value: Any, schema: str = "") -> str:
    return values(avro({"c": kind}, [{"c": value}]), AVRO, schema)[0]


def of_parquet(array: pa.Array, schema: str = "") -> str:
    return values(parquet({"c": array}), PARQUET, schema)[0]


AVRO_VALUES = [
    ("null", None, "null"),
    ("boolean", True, "true"),
    ("int", -7, "-7"),
    ("long", 1 << 62, str(1 << 62)),
    ("float", 0.1, "0.10000000149011612"),
    ("double", 1e300, "1e+300"),
    ("string", 'é "\n\0', '"é \\"\\n\\u0000"'),
    ("bytes", b"hi", '"aGk="'),
    (["null", "string", "int"], 7, "7"),
    ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, "B", '"B"'),
    ({"type": "fixed", "name": "f", "size": 2}, b"hi", '"aGk="'),
    ({"type": "array", "items": ["null", "int"]}, [1, None], "[1,null]"),
    ({"type": "map", "values": "int"}, {"k": 1}, '{"k":1}'),
    ({"type": "record", "name": "r", "fields": [{"name": "x", "type": "int"}]}, {"x": 1}, '{"x":1}'),
    ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}, Decimal("-1.10"), "-1.10"),
    ({"type": "int", "logicalType": "date"}, date(2026, 1, 31), '"2026-01-31"'),
    ({"type": "int", "logicalType": "time-millis"}, time(12, 0, 0, 5_000), '"12:00:00.005000"'),
    ({"type": "long", "logicalType": "timestamp-millis"}, NOW, '"2026-01-31T12:30:15.250000Z"'),
    ({"type": "long", "logicalType": "timestamp-micros"}, NOW.replace(microsecond=0), '"2026-01-31T12:30:15Z"'),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, NOW.replace(tzinfo=None), '"2026-01-31T12:30:15.250000"'),
    ({"type": "long", "logicalType": "timestamp-nanos"}, -1, '"1969-12-31T23:59:59.999999999Z"'),
    ({"type": "string", "logicalType": "uuid"}, UUID, f'"{UUID}"'),
]  # fmt: skip

PARQUET_VALUES = [
    (pa.array([None]), "null"),
    (pa.array([True]), "true"),
    (pa.array([-7], pa.int8()), "-7"),
    (pa.array([(1 << 64) - 1], pa.uint64()), str((1 << 64) - 1)),
    (pa.array([0.1], pa.float32()), "0.10000000149011612"),
    (pa.array([1e300]), "1e+300"),
    (pa.array(['é "\n\0']), '"é \\"\\n\\u0000"'),
    (pa.array(["x"], pa.large_string()), '"x"'),
    (pa.array(["x"]).dictionary_encode(), '"x"'),
    (pa.array([b"hi"]), '"aGk="'),
    (pa.array([b"hi"], pa.binary(2)), '"aGk="'),
    (pa.array([[1, None]]), "[1,null]"),
    (pa.array([[["x"], None, []]]), '[["x"],null,[]]'),
    (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())), '{"k":1}'),
    (pa.array([{"x": 1, "y": [{"z": None}]}]), '{"x":1,"y":[{"z":null}]}'),
    (pa.array([Decimal("-1.10")], pa.decimal128(5, 2)), "-1.10"),
    (pa.array([date(2026, 1, 31)]), '"2026-01-31"'),
    (pa.array([time(12, 0, 0, 5_000)], pa.time64("us")), '"12:00:00.005000"'),
    (pa.array([NOW], pa.timestamp("ms", "Europe/Berlin")), '"2026-01-31T12:30:15.250000Z"'),
    (pa.array([NOW.replace(tzinfo=None)], pa.timestamp("us")), '"2026-01-31T12:30:15.250000"'),
    (pa.array([-1], pa.timestamp("ns", "UTC")), '"1969-12-31T23:59:59.999999999Z"'),
]


@pytest.mark.parametrize(("kind", "value", "becomes"), AVRO_VALUES)
def test_a_value_of_avro_is_as_in_json(kind: Any, value: Any, becomes: str) -> None:
    assert of_avro(kind, value) == f'{{"c":{becomes}}}'


@pytest.mark.parametrize(
    ("array", "becomes"), PARQUET_VALUES, ids=lambda each: str(getattr(each, "type", each))
)
def test_a_value_of_parquet_is_as_in_json(array: pa.Array, becomes: str) -> None:
    assert of_parquet(array) == f'{{"c":{becomes}}}'


def test_times_of_96_bits_are_of_utc() -> None:
    body = parquet({"c": pa.array([NOW], pa.timestamp("us"))}, use_deprecated_int96_timestamps=True)
    assert values(body, PARQUET, "c TIMESTAMP") == ['{"c":"2026-01-31T12:30:15.250000Z"}']


def test_the_same_rows_are_the_same_request_in_whatever_format() -> None:
    schema = "user STRING, amount INT"
    rows = [{"user": "ann", "amount": 1}, {"user": "zoë", "amount": 2}]
    columns = {"user": pa.array([row["user"] for row in rows]), "amount": pa.array([1, 2], pa.int32())}
    bodies = {
        NDJSON: '{"user":"ann","amount":1}\n{"user":"zoë","amount":2}'.encode(),
        AVRO: avro({"user": "string", "amount": "int"}, rows),
        PARQUET: parquet(columns),
    }
    found = {content_of(rows_of(body, kind, rules(schema, "user"))) for kind, body in bodies.items()}
    assert len(found) == 1
    assert rows_of(bodies[PARQUET], PARQUET, rules(schema, "user"))[1].key == "zoë".encode()
    assert values(b"user,amount\nann,1\n", CSV, schema) == values(bodies[AVRO], AVRO, schema)[:1]


def test_columns_may_be_missing_and_null_and_are_not_made_up() -> None:
    assert values(avro({"n": ["null", "int"]}, [{"n": None}, {"n": 1}]), AVRO) == ['{"n":null}', '{"n":1}']
    assert values(parquet({"n": pa.array([None, 1], pa.int32())}), PARQUET) == ['{"n":null}', '{"n":1}']


@pytest.mark.parametrize(
    ("fields", "row", "said"),
    [
        ({"usr": "string"}, {"usr": "x"}, "row 1 has a field 'usr'"),
        ({"n": "string"}, {"n": "7"}, "row 1 field 'n': '7' is not INT"),
        ({"n": "double"}, {"n": 1.0}, "row 1 field 'n': 1.0 is not INT"),
        ({"n": "long"}, {"n": 1 << 40}, "does not fit into INT"),
        ({"d": PRICE}, {"d": Decimal("1234.50")}, "does not fit into DECIMAL(5,2)"),
        ({"s": "bytes"}, {"s": b"x"}, "field 's': is of bytes, and must be of text"),
        ({"n": "double"}, {"n": float("nan")}, "row 1 field 'n': is nan, which is no number of JSON"),
        ({"r": STRUCT}, {"r": {"s": b""}}, "field 'r': field 's': is of bytes"),
        ({"day": DATE}, {"day": 9_999_999}, "row 1 field 'day': is a day outside of the years 1 to 9999"),
        ({"at": MICROS}, {"at": 1 << 62}, "is a time outside of the years"),
        ({"s": DURATION}, {"s": b"x" * 12}, "'duration', which has no form in JSON"),
    ],
)  # fmt: skip
def test_what_avro_has_and_the_input_does_not_take_is_named(
    fields: dict[str, Any], row: dict[str, Any], said: str
) -> None:
    found = refused(avro(fields, [row]), AVRO)
    assert said in found
    assert found.endswith("; nothing was written")


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"usr": pa.array(["x"])}, "row 1 has a field 'usr'"),
        ({"n": pa.array([1, None, 1 << 40])}, "row 3 field 'n': 1099511627776 does not fit into INT"),
        ({"s": pa.array([b"x"])}, "field 's': is of bytes, and must be of text"),
        ({"n": pa.array([1.0, float("inf")])}, "row 1 field 'n': 1.0 is not INT"),
        ({"m": pa.array([[("a", 1.0), ("a", 2.0)]], pa.map_(pa.string(), pa.float64()))}, "row 1 field 'm': has a key twice"),
        ({"m": pa.array([[(1, 1.0)]], pa.map_(pa.int32(), pa.float64()))}, "field 'm': is a map with keys of int32"),
        ({"r": pa.array([{"s": b"x"}])}, "field 'r': field 's': is of bytes"),
        ({"day": FAR}, "row 2 field 'day': is a day outside of the years 1 to 9999"),
        ({"big": pa.array([1], pa.duration("us"))}, "field 'big': is of the type duration[us], which has no form in JSON"),
        ({"s": pa.array([b"x", b"\xff"]).view(pa.string())}, "row 2 field 's': has a text that is not UTF-8"),
    ],
    ids=str,
)  # fmt: skip
def test_what_parquet_has_and_the_input_does_not_take_is_named(
    columns: dict[str, pa.Array], said: str
) -> None:
    found = refused(parquet(columns), PARQUET)
    assert said in found
    assert found.endswith("; nothing was written")


def test_numbers_that_are_none_are_taken_where_spark_takes_them_as_text() -> None:
    body = parquet({"x": pa.array([float("nan"), float("-inf")])})
    assert values(body, PARQUET) == ['{"x":"NaN"}', '{"x":"-Infinity"}']
    assert "is nan" in refused(body, PARQUET, "")


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "bzip2", "xz"])
def test_avro_of_each_codec_and_of_many_blocks_is_read(codec: str) -> None:
    rows = [{"n": row} for row in range(5_000)]
    assert values(avro({"n": "int"}, rows, codec), AVRO) == [f'{{"n":{row}}}' for row in range(5_000)]


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "gzip", "use_dictionary": False},
        {"compression": "zstd", "data_page_version": "2.0", "row_group_size": 700},
        {"compression": "brotli", "data_page_size": 512, "write_page_checksum": True},
        {"compression": "lz4", "dictionary_pagesize_limit": 600, "use_byte_stream_split": ["x"]},
        {"compression": "none", "column_encoding": {"n": "DELTA_BINARY_PACKED"}, "use_dictionary": ["s"]},
    ],
    ids=str,
)
def test_parquet_of_each_kind_of_pages_is_read(options: dict[str, Any]) -> None:
    rows = 3_000
    if options.get("use_byte_stream_split"):
        options = {**options, "use_dictionary": ["s"]}
    columns = {
        "n": pa.array(range(rows), pa.int32()),
        "s": pa.array([f"text {row % 500}" for row in range(rows)]),
        "x": pa.array([row / 2 for row in range(rows)]),
        "a": pa.array([list(range(row % 3)) for row in range(rows)], pa.list_(pa.int32())),
        "r": pa.array([{"s": None, "t": [{"u": f"text {row}"}] * (row % 3)} for row in range(rows)], R),
    }
    found = values(parquet(columns, **options), PARQUET)
    assert len(found) == rows
    struct = '{"s":null,"t":[{"u":"text 1001"},{"u":"text 1001"}]}'
    assert found[1_001] == f'{{"n":1001,"s":"text 1","x":500.5,"a":[0,1],"r":{struct}}}'


def test_wide_and_deep_rows_are_made_in_pieces() -> None:
    lists = pa.array([list(range(1_000))] * 600, pa.list_(pa.int32()))
    assert (
        values(parquet({"a": lists}), PARQUET) == [f'{{"a":{list(range(1_000))}}}'.replace(", ", ",")] * 600
    )


def test_no_rows_are_no_rows() -> None:
    assert "there are no rows" in refused(avro({"n": "int"}, []), AVRO)
    assert "there are no rows" in refused(parquet({"n": pa.array([], pa.int32())}), PARQUET)


def test_encrypted_parquet_is_told_from_damaged() -> None:
    assert "it is encrypted" in refused(b"PARE" + bytes(20) + b"PARE", PARQUET)


def test_an_avro_schema_that_makes_no_rows_is_refused() -> None:
    nested: Any = "int"
    for _ in range(80):
        nested = {"type": "array", "items": nested}
    inner = {"type": "record", "name": "node", "fields": [{"name": "next", "type": ["null", "node"]}]}
    assert "nested more than 64 deep" in refused(avro({"a": nested}, []), AVRO)
    assert "'node', which holds itself" in refused(avro({"a": inner}, []), AVRO)


@pytest.mark.parametrize("is_marked", [False, True])
def test_an_avro_field_that_is_there_twice_is_refused(is_marked: bool) -> None:
    """Of a row of JSON with both values the first would be lost in silence. Marked: as a schema that fastavro has looked at."""
    mark = {"__fastavro_parsed__": True, "__named_schemas": {}} if is_marked else {}
    inner = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "int"}] * 2, **mark}
    assert "has the field 'n' twice" in refused(container(inner, (1, b"\x02\x04")), AVRO)
    outer = container(record({"r": inner}), (1, b"\x02\x04"))
    assert "field 'r': has the field 'n' twice" in refused(outer, AVRO)


def test_groups_of_rows_with_a_dictionary_each_are_right() -> None:
    file = BytesIO()
    with pq.ParquetWriter(file, pa.schema({"a": pa.list_(pa.string())})) as writer:
        for group in range(3):
            writer.write_table(pa.table({"a": [[f"{group} {row}"] for row in range(3)]}))
    expected = [f'{{"a":["{group} {row}"]}}' for group in range(3) for row in range(3)]
    assert values(file.getvalue(), PARQUET, "a ARRAY<STRING>") == expected
