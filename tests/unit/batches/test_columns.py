"""Which Arrow columns can be written, and how wrong ones are refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kcontrol.errors import ConfigurationError
from kcontrol.wire.batches import BatchFormat, Compression, PartitionedBatches, Producer, codec_named
from kcontrol.wire.digest import DigestKind
from tests.property.batches.made import parsed

FORMAT = BatchFormat(Producer(1, 0), 5, (), Compression.NONE, 10_000, DigestKind.OUTPUT, 1)
HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])


def written(rows: pa.RecordBatch, name: str = "compiled") -> list[tuple[object, ...]]:
    made = PartitionedBatches(codec_named(name), FORMAT)
    partitions = np.zeros(rows.num_rows, np.int32)
    sealed = [*made.add(rows, partitions), *made.flush()]
    return [row[2:] for _, batch in sealed for row in parsed(batch.data)]


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.string(), pa.large_binary(), pa.large_string(), pa.binary(2), pa.string_view()]
)
def test_bytes_and_text_of_every_type(kind: pa.DataType) -> None:
    plain = ["ab", None, "cd"] if kind != pa.binary(2) else [b"ab", None, b"cd"]
    column = pa.array(plain, kind)
    for name in ("compiled", "reference"):
        assert [row[1] for row in written(pa.record_batch({"value": column}), name)] == [b"ab", None, b"cd"]
        assert [row[1] for row in written(pa.record_batch({"value": column})[1:], name)] == [None, b"cd"]


def test_columns_that_are_not_there_are_null() -> None:
    rows = pa.record_batch({"value": pa.nulls(2), "extra": pa.array([1, 2])})
    assert written(rows) == [(None, None, ()), (None, None, ())]


def test_null_and_sliced_headers() -> None:
    headers = [
        [{"key": "a", "value": b"1"}],
        None,
        [],
        [{"key": "b", "value": None}, {"key": "c", "value": b""}],
    ]
    for kind in (pa.list_(HEADER), pa.large_list(HEADER)):
        rows = pa.record_batch({"value": pa.array([b"v"] * 4), "headers": pa.array(headers, kind)})
        wanted = [(("a", b"1"),), (), (), (("b", None), ("c", b""))]
        assert [row[2] for row in written(rows)] == wanted
        assert [row[2] for row in written(rows[2:])] == wanted[2:]
        assert [row[2] for row in written(rows[1:3])] == wanted[1:3]


def test_headers_that_a_null_row_hides_are_not_written() -> None:
    items = pa.array([{"key": "hidden", "value": b"1"}, {"key": "seen", "value": b"2"}], HEADER)
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), items, mask=pa.array([True, False]))
    rows = pa.record_batch({"value": pa.array([b"v", b"w"]), "headers": lists})
    assert [row[2] for row in written(rows)] == [(), (("seen", b"2"),)]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"value": pa.array([1])}, "column 'value' has type int64; a Kafka record holds binary or string"),
        ({"value": pa.array([b"v"]), "key": pa.array([1.0])}, "column 'key' has type double"),
        (
            {"value": pa.array([b"v"]), "headers": pa.array(["x"])},
            "column 'headers' has type string; it must be array<struct",
        ),
        (
            {
                "value": pa.array([b"v"]),
                "headers": pa.array([[{"key": None, "value": b"x"}]], pa.list_(HEADER)),
            },
            "whose key is null",
        ),
        ({"value": pa.array([b"v"]), "headers": pa.array([[None]], pa.list_(HEADER))}, "a null header"),
    ],
)
def test_columns_that_no_record_can_hold(columns: dict[str, pa.Array], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        written(pa.record_batch(columns))


def test_every_row_needs_a_partition() -> None:
    made = PartitionedBatches(codec_named("compiled"), FORMAT)
    rows = pa.record_batch({"value": pa.array([b"a", b"b"])})
    with pytest.raises(ValueError, match="2 rows need as many partition numbers, not 1"):
        list(made.add(rows, np.zeros(1, np.int32)))
    with pytest.raises(ValueError, match="row 1 has partition -1"):
        list(made.add(rows, np.array([0, -1], np.int32)))
