"""Fields of JSON values parsed in the tasks: what Spark gets is what Spark's own parser gives of the same values."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, DataType, IntegerType, StringType, StructType

from kcontrol.adapters.files.file_lines import lines_schema
from kcontrol.adapters.spark.query.parse import BAD, field_column, with_json
from kcontrol.adapters.spark.values.json_columns import SMALL_PIECE_ROWS, JsonColumns
from kcontrol.adapters.spark.values.json_types import (
    IS_NULL,
    PLACES,
    UNPARSED,
    is_sure,
    json_column,
    left_column,
)
from tests.support.dice import say_seed, seed_of_run

INNER = StructType().add("x", ArrayType(StringType())).add("y", "long")
SCHEMA = (
    StructType()
    .add("s", "string")
    .add("b", "boolean")
    .add("h", "short")
    .add("i", "integer")
    .add("l", "long")
    .add("d", "double")
    .add("a", ArrayType(IntegerType()))
    .add("t", StructType().add("s", "string").add("d", "double"))
    .add("n", ArrayType(INNER))
)
FLAT = StructType([field for field in SCHEMA if not isinstance(field.dataType, ArrayType | StructType)])
"""What a compiled loop parses, as far as it can."""
NUMBERS = (
    "0", "-0", "-0.0", "-0e1", "1", "-1", "01", "+1", "1.", ".5", "1.0", "1e2", "1E+2", "1e-400", "1e400", "5e-324", "0.1",
    "32767", "32768", "-32769", "2147483647", "2147483648", "-2147483649", "9223372036854775807", "9223372036854775808",
    "123456789012345678901234567890", "1.7976931348623157e308", "2.2250738585072014e-308", "0.30000000000000004",
    "9007199254740993", "NaN", "Infinity", "-Infinity", "INF", "1" * 400, "0." + "3" * 400, "--1", "-", "1e", "0x1",
)  # fmt: skip
TEXTS = (
    '""', '"a"', '"\\u0041"', '"\\ud83d\\ude00"', '"\\ud800"', '"\\udc00"', '"\\n"', '"\\x"', '"\\u00g0"', '"\\\\"', '"\\""',
    '"é"', '"\U0001f600"', '"\\u0000"', '"{"', '"}"', '"NaN"', '"Infinity"', '"1"', '"true"', "'a'", '"a', '"\t"', '"\x7f"',
    '"' + "x" * 12_000 + '"',
)  # fmt: skip
OTHERS = (
    "null",
    "true",
    "false",
    "True",
    "{}",
    "[]",
    "[1,2]",
    "[null]",
    '{"s":"x"}',
    "[[]]",
    '[{"x":["a",null],"y":1}]',
    "",
    "nul",
)
FRAMES = (
    "{}", " {}", "{} ", "{}\n", "\n{}", "{}{}", "{},", "{}}", "[{}]", "{};", "﻿{}", "{} {}", "/**/{}", "\t{}", "{}\r", "{}1",
)  # fmt: skip

VALUES = 1_000


def value_of(kind: DataType, dice: random.Random) -> str:
    """JSON of a type, now and then of another."""
    if dice.random() < 0.01:
        return dice.choice((*NUMBERS, *TEXTS, *OTHERS))
    if dice.random() < 0.1:
        return "null"
    if isinstance(kind, StructType):
        return object_of(kind, dice)
    if isinstance(kind, ArrayType):
        return "[" + ",".join(value_of(kind.elementType, dice) for _ in range(dice.randrange(4))) + "]"
    return {
        "string": lambda: dice.choice((*TEXTS[:12], json.dumps(str(dice.random())))),
        "boolean": lambda: dice.choice(("true", "false")),
        "short": lambda: str(dice.randrange(-(1 << 15), 1 << 15)),
        "integer": lambda: str(dice.randrange(-(1 << 31), 1 << 31)),
        "long": lambda: str(dice.randrange(-(1 << 63), 1 << 63)),
        "double": lambda: dice.choice(
            (
                *NUMBERS[:1],
                repr(dice.random()),
                repr(dice.uniform(-1e300, 1e-300)),
                str(dice.randrange(1 << 70)),
            )
        ),
    }[kind.typeName()]()


def object_of(kind: StructType, dice: random.Random) -> str:
    names = [field for field in kind if dice.random() < 0.8]
    fields = [f'"{field.name}":{value_of(field.dataType, dice)}' for field in names]
    if dice.random() < 0.1:
        fields.append(f'"{dice.choice(("s", "other", "S", ""))}":{dice.choice((*NUMBERS, *TEXTS, *OTHERS))}')
    dice.shuffle(fields)
    return "{" + dice.choice((",", ", ")).join(fields) + "}"


def odd_value(schema: StructType, dice: random.Random) -> bytes | None:
    """Mostly an object of the schema; else nearly one."""
    text = object_of(schema, dice)
    roll = dice.random()
    if roll < 0.02:
        return None
    if roll < 0.06:
        return dice.choice(FRAMES).replace("{}", text).encode()
    value = bytearray(text.encode())
    if roll < 0.12:
        place = dice.randrange(len(value))
        value[place : place + dice.randrange(2)] = dice.choice(
            (b"", b"{", b"}", b'"', b"\\", b",", b"\xff", b"\xc3", b"-", b"0", b"\x00", b"\n")
        )
    return bytes(value)


def both_ways(
    spark: SparkSession, schema: StructType, values: list[bytes | None]
) -> tuple[list[Row], list[Row], int]:
    """What Spark parses of them, what comes of them with fields beside them, and how many of these Spark had still to parse."""
    batch = pa.record_batch({"value": pa.array(values, pa.binary()), "at": pa.array(range(len(values)))})
    columns = JsonColumns(schema)
    # One by one, so that no value is left to Spark for what another one is.
    beside = [columns.added(batch.slice(row, 1)) for row in range(len(values))]
    found = [
        with_json(spark.createDataFrame(pa.Table.from_batches(each)), schema)
        .select("at", *[sf.to_json(sf.struct(field_column(number))) for number in range(len(schema))], BAD)
        .orderBy("at")
        .collect()
        for each in ([batch], beside)
    ]
    return found[0], found[1], sum(each.column(UNPARSED).null_count == 0 for each in beside)


@pytest.mark.parametrize("schema", [SCHEMA, FLAT], ids=["nested", "flat"])
def test_tasks_and_spark_say_the_same_of_every_value(spark: SparkSession, schema: StructType) -> None:
    seed = seed_of_run()
    say_seed(seed)
    dice = random.Random(seed)
    values = [
        f'{{"{field.name}":{text}}}'.encode() for field in schema for text in (*NUMBERS, *TEXTS, *OTHERS)
    ]
    values += [frame.encode() for frame in FRAMES]
    made: list[bytes | None] = [odd_value(schema, dice) for _ in range(VALUES)]
    by_spark, beside, left = both_ways(spark, schema, [*values, *made])
    differing = [
        (value, expected, found)
        for value, expected, found in zip([*values, *made], by_spark, beside, strict=True)
        if expected != found
    ]
    assert not differing, f"{len(differing)} differ, first {differing[:3]}"
    assert len(by_spark) - left > VALUES // 5, "too many are left to Spark for this to say much"


def test_one_wrong_value_leaves_only_those_around_it_to_spark() -> None:
    good, wrong = b'{"s":"a"}', b'{"s":1}'
    values = [good] * 5_000
    values[1_234] = wrong
    batch = pa.record_batch({"value": pa.array(values, pa.binary())})
    found = JsonColumns(SCHEMA).added(batch)
    left = len(values) - found.column(UNPARSED).null_count
    assert 1 <= left <= SMALL_PIECE_ROWS
    assert found.column(UNPARSED)[1_234].as_py() == wrong
    names = found.column(json_column(0)).to_pylist()
    assert {
        name for name, text in zip(names, found.column(UNPARSED).to_pylist(), strict=True) if text is None
    } == {"a"}


def test_rows_without_a_value_have_neither_fields_nor_anything_to_parse() -> None:
    batch = pa.record_batch({"value": pa.array([None, b'{"s":"a"}', None], pa.binary())}).slice(1)
    found = JsonColumns(SCHEMA).added(batch)
    assert found.column(IS_NULL).to_pylist() == [False, True]
    assert found.column(UNPARSED).to_pylist() == [None, None]
    assert found.column(json_column(0)).to_pylist() == ["a", None]


def test_only_of_records_that_may_be_bad_it_is_told_where_they_are() -> None:
    good, head = b'{"s":"a"}', b'{"s":"b"}'
    rows = [
        {"value": good, "file": "f", "partition": 0, "offset": 10, "wrong": None},
        {"value": b"no JSON", "file": "f", "partition": 0, "offset": 20, "wrong": None},
        {"value": head, "file": "g", "partition": 0, "offset": 30, "wrong": "it is too long"},
    ]
    batch = pa.RecordBatch.from_pylist(rows, lines_schema())
    found = JsonColumns(FLAT).added(batch)
    assert found.column(left_column("file")).to_pylist() == [None, "f", "g"]
    assert found.column(left_column("offset")).to_pylist() == [None, 20, 30]
    assert found.column(UNPARSED).to_pylist() == [None, b"no JSON", None]
    of_good = JsonColumns(FLAT).added(batch.slice(0, 1))
    assert [of_good.column(left_column(name)).null_count for name in PLACES] == [1, 1, 1]
    assert of_good.schema == found.schema


@pytest.mark.parametrize(
    "kind",
    [
        "float",
        "decimal(10,2)",
        "date",
        "timestamp",
        "binary",
        "map<string,int>",
        "struct<at:timestamp>",
        "array<float>",
        "byte",
    ],
)
def test_of_other_types_it_is_not_known(spark: SparkSession, kind: str) -> None:
    assert not is_sure(StructType.fromDDL(f"a int, b {kind}"))
    assert is_sure(StructType.fromDDL("a int, b array<struct<c: string>>"))
