"""Bodies of Avro and Parquet that are damaged, or small and would be large: refused, with what is wrong, and before they are
large."""

from __future__ import annotations

import tracemalloc
import zlib
from contextlib import suppress
from typing import Any

import cramjam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kcontrol.errors import ConfigurationError
from kcontrol.requests.push.bodies import AVRO, PARQUET, rows_of
from tests.support.dice import seeded
from tests.support.packed_rows import avro, container, parquet, record, repeated, varint
from tests.unit.requests.test_push_packed import refused, rules, values

MOST = 1 << 20
LIMITS = {"unpacked_bytes": MOST, "row_bytes": 100_000}
ONE = record({"n": "int"})
SNAPPY = bytes(cramjam.snappy.compress_raw(b"\x02"))


def refused_small(body: bytes, kind: str, schema: str = "", **limits: int) -> str:
    """As `refused`, having taken less than so much memory; Arrow's, too."""
    before = pa.default_memory_pool().max_memory()
    tracemalloc.start()
    try:
        found = refused(body, kind, schema, **{**LIMITS, **limits})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32 * MOST, found
    assert pa.default_memory_pool().max_memory() <= max(before, 32 * MOST), found
    return found


# --- damage ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "the body is empty"),
        (b'{"n":1}', "does not begin as an Avro file does"),
        (b"PAR1", "does not begin as an Avro file does"),
        (b"Obj\x01", "damaged or cut off in its header"),
        (container(ONE)[:-3], "damaged or cut off in its header"),
        (container(ONE, (1, b"\x02"))[:-1], "damaged or cut off in the block at byte"),
        (container(ONE, (1, b"\x02"), sync=bytes(16)), "are not those of the header"),
        (container(ONE, (1, b"\x02\x02")), "behind row 1 its block has 1 bytes left over"),
        (container(ONE, (2, b"\x02")), "row 2 field 'n': is damaged: it ends too early"),
        (container(ONE, (-1, b"\x02")), "says that it has -1 rows"),
        (container(ONE, (1, b"\x02"), codec="lzo"), "compressed by 'lzo', which is not available: write it with one of null"),
        (container(ONE, (1, b"\xff\xff"), codec="deflate"), "damaged or cut off in the block"),
        (container(ONE, (1, b"\x01\x00\x02"), codec="snappy"), "damaged or cut off in the block"),
        (container(ONE, (1, SNAPPY + bytes(4)), codec="snappy"), "its checksum is another"),
        (container(ONE, (1, bytes(cramjam.zstd.compress(b"\x02"))[:-1]), codec="zstandard"), "damaged or cut off in the block"),
        (container(ONE, (1, b"BZh9"), codec="bzip2"), "damaged or cut off in the block"),
        (container(ONE, (1, b"\xfd7zXZ\x00"), codec="xz"), "damaged or cut off in the block"),
        (container("int", (1, b"\x02")), "the schema is no record"),
        (container(record({"n": "nothing"})), "has no schema that can be read"),
        (container(record({"n": {"type": "fixed", "name": "f", "size": "x"}})), "has no schema that can be read"),
        (container({"a": [[[[]]]]}), "has no schema that can be read"),
    ],
)  # fmt: skip
def test_an_avro_file_that_is_none_is_refused(body: bytes, said: str) -> None:
    assert said in refused_small(body, AVRO)


def test_blocks_of_zstandard_are_read() -> None:
    packed = bytes(cramjam.zstd.compress(b"\x02\x04"))
    assert values(container(ONE, (2, packed), codec="zstandard"), AVRO) == ['{"n":1}', '{"n":2}']


def in_encoding(name: str) -> bytes:
    """Texts in this encoding, in Parquet."""
    return parquet({"s": pa.array(["a", "ab"])}, use_dictionary=False, column_encoding=name)


WHOLE = parquet({"n": pa.array(range(100), pa.int32()), "s": pa.array(["text"] * 100)}, compression="snappy")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "the body is empty"),
        (b"PAR1", "does not end with PAR1"),
        (b'{"n":1}', "does not begin with PAR1"),
        (WHOLE[:-1], "does not end with PAR1: it is cut off"),
        (b"PAR1" + bytes(4) + b"PAR1", "damaged"),
        (b"PAR1" + WHOLE[-200:], "it is shorter than its footer says"),
        (WHOLE[:-8] + (1 << 30).to_bytes(4, "little") + b"PAR1", "its footer has 1073741824 bytes"),
        (WHOLE[:4] + b"\xff" * 40 + WHOLE[44:], "Parquet file"),
        (in_encoding("DELTA_BYTE_ARRAY"), "in the encoding DELTA_BYTE_ARRAY, which is not taken"),
        (in_encoding("DELTA_LENGTH_BYTE_ARRAY"), "in the encoding DELTA_LENGTH_BYTE_ARRAY, which is not taken"),
    ],
)  # fmt: skip
def test_a_parquet_file_that_is_none_is_refused(body: bytes, said: str) -> None:
    assert said in refused_small(body, PARQUET)


@pytest.mark.parametrize("kind", [AVRO, PARQUET])
def test_whatever_is_damaged_in_a_body_it_is_refused_or_read(kind: str) -> None:
    dice = seeded()
    columns = {"n": pa.array(range(50), pa.int32()), "s": pa.array([["text"]] * 50)}
    rows = [{"n": row, "s": ["text"]} for row in range(50)]
    whole = (
        avro({"n": "int", "s": {"type": "array", "items": "string"}}, rows, "deflate")
        if kind == AVRO
        else parquet(columns, write_page_checksum=True)
    )
    for _ in range(400):
        damaged = bytearray(whole)
        for _ in range(dice.choice((1, 1, 2, 8))):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        body = bytes(damaged if dice.random() < 0.8 else damaged[: dice.randrange(len(damaged))])
        with suppress(ConfigurationError):
            rows_of(body, kind, rules("", **LIMITS))


# --- what would be large ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["deflate", "snappy", "bzip2", "xz"])
def test_a_block_is_unpacked_as_far_as_it_may_be(codec: str) -> None:
    body = avro({"b": "bytes"}, [{"b": bytes(64 * MOST)}], codec)
    assert len(body) < 4 * MOST
    assert "unpacked, the Avro file has more than 1048576 bytes" in refused_small(body, AVRO)


def test_a_block_of_zstandard_is_unpacked_as_far_as_it_may_be() -> None:
    packed = bytes(cramjam.zstd.compress(bytes(64 * MOST)))
    assert "unpacked, the Avro file" in refused_small(container(ONE, (1, packed), codec="zstandard"), AVRO)


def test_all_blocks_together_are_bounded() -> None:
    half = zlib.compress(bytes(MOST // 2 + 1), wbits=-15)
    body = container(
        record({"b": {"type": "fixed", "name": "f", "size": MOST // 2 + 1}}),
        (1, half),
        (1, half),
        codec="deflate",
    )
    assert "unpacked, the Avro file has" in refused_small(body, AVRO, row_bytes=MOST)


def test_rows_and_values_of_no_bytes_are_counted_before_they_are_made() -> None:
    nothing = record({"x": "null"})
    assert "more than 5 rows" in refused_small(container(nothing, (1 << 60, b"")), AVRO, rows=5)
    nulls = record({"a": {"type": "array", "items": "null"}})
    assert "row 1 has more values" in refused_small(container(nulls, (1, varint(1 << 60) + b"\0")), AVRO)
    level: Any = "null"
    for depth in range(40):
        fields = [{"name": "a", "type": level}, {"name": "b", "type": f"r{depth - 1}" if depth else "null"}]
        level = {"type": "record", "name": f"r{depth}", "fields": fields}
    assert "more than 100000 bytes" in refused_small(container(record({"a": level}), (1, b"")), AVRO)
    wide = record({f"a{number}": "null" for number in range(1_000)})
    assert "as JSON the rows have more than" in refused_small(container(wide, (100_000, b"")), AVRO)


def test_types_that_name_each_other_are_not_followed_without_end() -> None:
    """None is within another in the schema, and their values are: each has one of the type before it."""
    types = [
        record({"a": f"r{depth - 1}" if depth else "null"}) | {"name": f"r{depth}"} for depth in range(3_000)
    ]
    body = container(record({"x": types}), (1, varint(len(types) - 1)))
    assert "row 1 is nested too deep" in refused_small(body, AVRO)
    assert values(container(record({"x": types}), (1, varint(1))), AVRO, "") == ['{"x":{"a":{"a":null}}}']


def test_decimals_of_many_digits_are_refused() -> None:
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 1 << 30, "scale": 1 << 30}
    assert "is a decimal of 1073741824 digits" in refused_small(container(record({"d": kind})), AVRO)


def test_pages_are_not_unpacked_if_they_are_too_large() -> None:
    zeros = parquet({"b": pa.array([bytes(64 * MOST)])}, compression="zstd", use_dictionary=False)
    assert len(zeros) < MOST
    assert "unpacked, the Parquet file has more than 1048576 bytes" in refused_small(zeros, PARQUET)


def test_a_text_that_all_rows_have_is_there_once() -> None:
    body = parquet({"s": repeated("x" * 50_000, 50_000)}, compression="zstd")
    assert len(body) < MOST
    assert "as JSON the rows have more than" in refused_small(body, PARQUET)
    lists = parquet({"a": pa.array([["x" * 1_000] * 2_000])}, compression="zstd")
    assert "row 1 field 'a': has more than 100000 bytes" in refused_small(lists, PARQUET)


def test_more_rows_or_values_than_may_be_are_refused_by_what_the_file_says() -> None:
    runs = parquet({"n": pa.array([1] * 1_000_000)}, compression="zstd")
    assert len(runs) < 50_000
    assert "more than 100000 rows" in refused_small(runs, PARQUET)
    assert "unpacked, the Parquet file has" in refused_small(runs, PARQUET, rows=1_000_000)
    lists = parquet({"a": pa.array([[1] * 1_000_000])}, compression="zstd")
    assert "unpacked, the Parquet file has" in refused_small(lists, PARQUET)


def test_a_footer_that_lies_is_not_believed() -> None:
    """It says that its column is one byte unpacked; the page's header says how many it has."""
    body = parquet({"b": pa.array([bytes(2 * MOST)])}, compression="zstd", use_dictionary=False)
    size = varint(
        pq.ParquetFile(pa.BufferReader(body)).metadata.row_group(0).column(0).total_uncompressed_size
    )
    lying = body.replace(size, b"\x82\x80\x80\x00")
    assert pq.ParquetFile(pa.BufferReader(lying)).metadata.row_group(0).column(0).total_uncompressed_size == 1
    assert "unpacked, the Parquet file has more than" in refused_small(lying, PARQUET)
