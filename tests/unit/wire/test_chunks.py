"""Rows as chunks for other nodes: whatever Arrow carries arrives as it was sent, each row at its node."""

from __future__ import annotations

import datetime as dt
import decimal
import math

import numpy as np
import pyarrow as pa
import pytest

from kcontrol.errors import ConfigurationError, DamagedRecordError
from kcontrol.wire.chunks import CHUNK_BYTES, RowChunk, pack, unpack

WHERE = "exchange 'x', topic 'x', partition 0, offset 0"
_NOW = dt.datetime(2026, 11, 25, 1, 2, 3, 4, tzinfo=dt.UTC)
_PAIR = pa.struct([pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.string())])

COLUMNS = {
    "boolean": pa.array([True, None, False]),
    "byte": pa.array([1, None, -1], pa.int8()),
    "short": pa.array([1, None, -1], pa.int16()),
    "int": pa.array([1, None, -1], pa.int32()),
    "long": pa.array([2**62, None, -1], pa.int64()),
    "float": pa.array([1.5, None, math.inf], pa.float32()),
    "double": pa.array([-0.0, None, 1e300], pa.float64()),
    "decimal": pa.array([decimal.Decimal("1.20"), None, decimal.Decimal("-9.99")], pa.decimal128(38, 2)),
    "string": pa.array(["", None, "zażółć"]),
    "large string": pa.array(["", None, "x"], pa.large_string()),
    "string view": pa.array(["", None, "longer than twelve bytes"], pa.string_view()),
    "binary": pa.array([b"", None, b"\0\xff"]),
    "binary view": pa.array([b"", None, b"longer than twelve bytes"], pa.binary_view()),
    "fixed binary": pa.array([b"ab", None, b"cd"], pa.binary(2)),
    "date": pa.array([dt.date(2026, 11, 25), None, dt.date(1, 1, 1)]),
    "time": pa.array([dt.time(1, 2, 3), None, dt.time(0)], pa.time64("us")),
    "timestamp": pa.array([_NOW, None, _NOW], pa.timestamp("us", tz="UTC")),
    "timestamp without zone": pa.array([_NOW.replace(tzinfo=None), None, None], pa.timestamp("us")),
    "day interval": pa.array([dt.timedelta(days=1), None, dt.timedelta(0)], pa.duration("us")),
    "month interval": pa.array([pa.MonthDayNano([1, 2, 3]), None, pa.MonthDayNano([0, 0, 0])]),
    "array": pa.array([[1, None], None, []], pa.list_(pa.int32())),
    "array of arrays": pa.array([[["a"], []], None, [None]], pa.list_(pa.list_(pa.string()))),
    "fixed array": pa.array([[1, 2], None, [3, None]], pa.list_(pa.int32(), 2)),
    "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": 2, "b": None}], _PAIR),
    "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    "dictionary": pa.array(["x", None, "y"]).dictionary_encode(),
    "null": pa.nulls(3),
}


def nodes_of(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


def rows_at(chunks: list[RowChunk], node: int, schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(
        [batch for chunk in chunks if chunk.node == node for batch in unpack(chunk.data, schema, WHERE)],
        schema,
    )


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
@pytest.mark.parametrize("kind", COLUMNS)
def test_every_type_arrives_as_it_was_sent(kind: str, compression: str) -> None:
    rows = pa.record_batch({"c": COLUMNS[kind]})
    chunks = list(pack(rows, nodes_of(1, 0, 1), 3, compression))
    assert [(chunk.node, chunk.rows) for chunk in chunks] == [(0, 1), (1, 2)]
    whole = rows.to_pylist()
    for node, wanted in ((0, [1]), (1, [0, 2])):
        found = rows_at(chunks, node, rows.schema)
        assert found.schema == rows.schema
        assert found.to_pylist() == [whole[row] for row in wanted]


def test_an_error_in_many_columns_of_one_name_would_be_seen() -> None:
    rows = pa.RecordBatch.from_arrays([pa.array([1, 2]), pa.array(["x", "y"])], ["same", "same"])
    (chunk,) = pack(rows, nodes_of(0, 0), 1)
    (found,) = unpack(chunk.data, rows.schema, WHERE)
    assert [column.to_pylist() for column in found.columns] == [[1, 2], ["x", "y"]]


def test_no_rows_are_no_chunks() -> None:
    assert list(pack(pa.record_batch({"c": pa.array([], pa.int32())}), nodes_of(), 4)) == []


def test_rows_without_columns_are_counted() -> None:
    rows = pa.record_batch({"c": [1, 2, 3]}).select([])
    assert rows.num_rows == 3
    (chunk,) = pack(rows, nodes_of(1, 1, 1), 2)
    (found,) = unpack(chunk.data, rows.schema, WHERE)
    assert (chunk.node, chunk.rows, found.num_rows, found.num_columns) == (1, 3, 3, 0)
    split = list(pack(rows, nodes_of(1, 0, 1), 2))
    assert [(each.node, each.rows) for each in split] == [(0, 1), (1, 2)]
    assert [batch.num_rows for each in split for batch in unpack(each.data, rows.schema, WHERE)] == [1, 2]


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_chunks_are_no_larger_than_they_may_be_and_keep_the_order(compression: str) -> None:
    rng = np.random.default_rng(3)
    values = [rng.bytes(int(size)) for size in rng.integers(0, 4_000, 500)]
    nodes = rng.integers(0, 3, 500).astype(np.int32)
    rows = pa.record_batch({"n": pa.array(range(500)), "v": pa.array(values)})
    chunks = list(pack(rows, nodes, 3, compression, max_bytes=20_000))
    assert len(chunks) > 40
    assert max(chunk.data.size for chunk in chunks) <= 20_000
    assert [chunk.node for chunk in chunks] == sorted(chunk.node for chunk in chunks)
    for node in range(3):
        wanted = [(row, values[row]) for row in np.flatnonzero(nodes == node).tolist()]
        found = rows_at(chunks, node, rows.schema)
        assert list(zip(found["n"].to_pylist(), found["v"].to_pylist(), strict=True)) == wanted


@pytest.mark.parametrize("kind", ["binary", "binary_view"])
def test_a_row_that_is_larger_than_a_chunk_is_alone_in_one(kind: str) -> None:
    large = np.random.default_rng(1).bytes(3 * CHUNK_BYTES)
    rows = pa.record_batch({"v": pa.array([b"a", large, b"b", b"c"], getattr(pa, kind)())})
    chunks = list(pack(rows, nodes_of(0, 0, 0, 0), 1))
    assert [chunk.rows for chunk in chunks if chunk.data.size > CHUNK_BYTES] == [1]
    assert rows_at(chunks, 0, rows.schema)["v"].to_pylist() == [b"a", large, b"b", b"c"]


def test_a_slice_brings_no_bytes_of_its_neighbours() -> None:
    rows = pa.record_batch({"v": pa.array([bytes(100_000)] * 20), "s": pa.array(["x" * 100_000] * 20)})
    (chunk,) = pack(rows.slice(3, 1), nodes_of(0), 1, "none")
    assert 200_000 < chunk.data.size < 202_000


def test_a_dictionary_goes_as_the_values_that_the_rows_have() -> None:
    words = pa.array([f"word {number:05d}" for number in range(50_000)])
    rows = pa.record_batch({"w": pa.DictionaryArray.from_arrays(pa.array([0, 7], pa.int32()), words)})
    (chunk,) = pack(rows, nodes_of(0, 0), 1, "none")
    assert chunk.data.size < 2_000
    assert rows_at([chunk], 0, rows.schema).to_pylist() == [{"w": "word 00000"}, {"w": "word 00007"}]


def test_rows_are_brought_to_the_declared_types_and_nullability() -> None:
    sent = pa.schema(
        [pa.field("n", pa.int64(), nullable=False), pa.field("p", _PAIR), pa.field("l", pa.list_(pa.int32()))]
    )
    rows = pa.RecordBatch.from_pylist([{"n": 1, "p": {"a": 2, "b": None}, "l": [3]}], sent)
    declared = pa.schema(
        [
            pa.field("n", pa.int64()),
            pa.field("p", pa.struct([("a", pa.int32()), ("b", pa.string())])),
            pa.field("l", pa.list_(pa.field("element", pa.int32()))),
        ]
    )
    (chunk,) = pack(rows, nodes_of(0), 1)
    (found,) = unpack(chunk.data, declared, WHERE)
    assert found.schema.equals(declared)
    assert found.to_pylist() == rows.to_pylist()
    (back,) = unpack(next(pack(found, nodes_of(0), 1)).data, sent, WHERE)
    assert back.schema.equals(sent)


def test_rows_of_another_version_of_the_query_are_refused() -> None:
    rows = pa.record_batch({"n": pa.array([1, None]), "s": pa.array(["a", "b"])})
    (chunk,) = pack(rows, nodes_of(0, 0), 1)
    for declared, said in (
        (pa.schema([("n", pa.int64())]), r"the rows have the columns n, s; the exchange declares n:"),
        (
            pa.schema([pa.field("n", pa.int64(), nullable=False), ("s", pa.string())]),
            r"column 'n' holds nulls and is declared without",
        ),
        (
            pa.schema([("n", pa.int64()), ("s", pa.int32())]),
            r"can't be brought to what the exchange declares",
        ),
    ):
        with pytest.raises(ConfigurationError, match=said) as caught:
            list(unpack(chunk.data, declared, WHERE))
        assert str(caught.value).startswith(WHERE)


@pytest.mark.parametrize("data", [b"", b"nonsense", b"\xff" * 400])
def test_bytes_that_are_no_chunk_are_damage(data: bytes) -> None:
    with pytest.raises(DamagedRecordError, match="offset 0: this is no chunk of an exchange"):
        list(unpack(data, pa.schema([("n", pa.int64())]), WHERE))


def test_a_chunk_that_was_cut_off_is_damage() -> None:
    (chunk,) = pack(pa.record_batch({"n": list(range(1_000))}), np.zeros(1_000, np.int32), 1, "none")
    for size in (chunk.data.size // 2, 200):
        with pytest.raises(DamagedRecordError):
            list(unpack(chunk.data.slice(0, size), pa.schema([("n", pa.int64())]), WHERE))


def test_what_no_chunk_can_be_made_of_is_refused() -> None:
    rows = pa.record_batch({"n": [1, 2]})
    with pytest.raises(ConfigurationError, match="'snappy' of an exchange must be one of none, lz4, zstd"):
        list(pack(rows, nodes_of(0, 0), 1, "snappy"))
    with pytest.raises(ValueError, match="2 rows need as many nodes, not 1"):
        list(pack(rows, nodes_of(0), 1))
    for wrong in (-1, 2):
        with pytest.raises(ValueError, match=f"a row is for node {wrong}; there are 2"):
            list(pack(rows, nodes_of(0, wrong), 2))
