"""Whatever rows a task has, both codecs make the same batches, and aiokafka reads the
rows in them, each with its step."""

from __future__ import annotations

from collections import defaultdict

import mmh3
import numpy as np
import pyarrow as pa
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from kcontrol.wire.batches import (
    HEADERS_TYPE,
    BatchFormat,
    Codec,
    Compression,
    PartitionedBatches,
    PartitionedDigests,
    Producer,
    SealedBatch,
    codec_named,
    partition_of,
)
from kcontrol.wire.digest import Digest, DigestKind, varint
from kcontrol.wire.murmur2 import partition_of as reference_partition_of
from tests.property.batches.made import FIELDS, HEADERS, Headers, parsed

COMPILED, REFERENCE = codec_named("compiled"), codec_named("reference")
NOW_MS = 1_700_000_000_000
PARTITIONS = 4
STEP = (("step", b"17"),)

OutRow = tuple[bytes | None, bytes | None, Headers | None, int]
# From 63 to 64 and from 8191 to 8192 headers the count takes a byte more: the step header is the
# one that makes the difference.
MANY_HEADERS = st.sampled_from([62, 63, 64, 65]).map(lambda number: (("h", b"c"),) * number)
ROWS = st.lists(
    st.tuples(FIELDS, FIELDS, st.one_of(st.none(), HEADERS, MANY_HEADERS), st.integers(0, PARTITIONS - 1)),
    max_size=30,
)
BYTES_TYPES = st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view()])


def arrow(rows: list[OutRow], keys: pa.DataType, values: pa.DataType) -> pa.RecordBatch:
    headers = [
        None if row[2] is None else [{"key": name, "value": content} for name, content in row[2]]
        for row in rows
    ]
    arrays = [
        pa.array([row[0] for row in rows], keys),
        pa.array([row[1] for row in rows], values),
        pa.array(headers, HEADERS_TYPE),
    ]
    return pa.RecordBatch.from_arrays(arrays, ["key", "value", "headers"])


def numbers(rows: list[OutRow]) -> np.ndarray:
    return np.array([row[3] for row in rows], np.int32)


def batch_format(
    compression: Compression = Compression.NONE,
    size: int = 1000,
    kind: DigestKind = DigestKind.OUTPUT,
    sequence: int = 0,
) -> BatchFormat:
    return BatchFormat(Producer(99, 7), NOW_MS, STEP, compression, size, kind, PARTITIONS, sequence)


def batches_of(
    codec: Codec, form: BatchFormat, rows: list[pa.RecordBatch], parts: list[np.ndarray]
) -> PartitionedResult:
    made = PartitionedBatches(codec, form)
    sealed: dict[int, list[SealedBatch]] = defaultdict(list)
    for batch, partitions in zip(rows, parts, strict=True):
        for partition, one in made.add(batch, partitions):
            sealed[partition].append(one)
    for partition, one in made.flush():
        sealed[partition].append(one)
    return dict(sealed), made.digests()


PartitionedResult = tuple[dict[int, list[SealedBatch]], dict[int, Digest]]


def independent_digest(rows: list[OutRow]) -> Digest:
    total = 0
    for key, value, headers, _ in rows:
        data = (1).to_bytes(8, "little") + PARTITIONS.to_bytes(8, "little")
        for item in (
            key,
            value,
            len(headers or ()),
            *(p for name, content in headers or () for p in (name.encode(), content)),
        ):
            data += (
                varint(item)
                if isinstance(item, int)
                else varint(-1)
                if item is None
                else varint(len(item)) + item
            )
        total += mmh3.hash128(data, signed=False)
    return Digest(len(rows), total % 2**128)


@given(
    rows=ROWS,
    types=st.tuples(BYTES_TYPES, BYTES_TYPES),
    compression=st.sampled_from(list(Compression)),
    size=st.integers(100, 3000),
    cut=st.integers(0, 30),
)
def test_aiokafka_reads_what_was_written(
    rows: list[OutRow], types: tuple[pa.DataType, pa.DataType], compression: Compression, size: int, cut: int
) -> None:
    whole, parts = arrow(rows, *types), numbers(rows)
    form = batch_format(compression, size)
    # Two slices, so that columns begin in the middle of their buffers.
    results = [
        batches_of(codec, form, [whole[:cut], whole[cut:]], [parts[:cut], parts[cut:]])
        for codec in (COMPILED, REFERENCE)
    ]
    assert results[0] == results[1]
    sealed, digests = results[0]
    for partition in range(PARTITIONS):
        mine = [row for row in rows if row[3] == partition]
        found = [row for one in sealed.get(partition, []) for row in parsed(one.data)]
        assert [row[2:] for row in found] == [
            (key, value, (*(headers or ()), *STEP)) for key, value, headers, _ in mine
        ]
        assert {row[1] for row in found} <= {NOW_MS}
        assert digests.get(partition, Digest()) == independent_digest(mine)


@given(rows=ROWS, size=st.integers(100, 3000))
def test_batches_are_aiokafkas_byte_for_byte(rows: list[OutRow], size: int) -> None:
    whole = arrow(rows, pa.binary(), pa.binary())
    sealed, _ = batches_of(COMPILED, batch_format(size=size), [whole], [np.zeros(len(rows), np.int32)])
    waiting = iter(rows)
    sequence = 0
    for one in sealed.get(0, []):
        builder = DefaultRecordBatchBuilder(2, 0, 1, 99, 7, sequence, 1 << 30)
        for number in range(one.records):
            key, value, headers, _ = next(waiting)
            builder.append(number, NOW_MS, key, value, [*(headers or ()), *STEP])
        assert one.data == bytes(builder.build())
        assert one.base_sequence == sequence
        assert len(one.data) <= size or one.records == 1
        sequence += one.records
    assert next(waiting, None) is None


@given(rows=ROWS, kind=st.sampled_from(list(DigestKind)))
def test_digests_alone_are_the_same_digests(rows: list[OutRow], kind: DigestKind) -> None:
    whole, parts = arrow(rows, pa.binary(), pa.binary()), numbers(rows)
    form = batch_format(size=200, kind=kind)
    for codec in (COMPILED, REFERENCE):
        alone = PartitionedDigests(codec, form)
        alone.add(whole, parts)
        assert alone.digests() == batches_of(codec, form, [whole], [parts])[1]


@given(rows=ROWS, data=st.data())
def test_digests_do_not_depend_on_the_order_of_rows(rows: list[OutRow], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(rows))
    form = batch_format()
    digests = [
        batches_of(COMPILED, form, [arrow(each, pa.binary(), pa.binary())], [numbers(each)])[1]
        for each in (rows, shuffled)
    ]
    assert digests[0] == digests[1]


@given(keys=st.lists(FIELDS, max_size=40), partitions=st.integers(1, 200))
def test_partitions_are_those_of_kafkas_default_partitioner(
    keys: list[bytes | None], partitions: int
) -> None:
    wanted = [-1 if key is None else reference_partition_of(key, partitions) for key in keys]
    assert partition_of(pa.array(keys, pa.binary()), partitions).tolist() == wanted
    assert partition_of(pa.array(keys, pa.large_binary())[1:], partitions).tolist() == wanted[1:]


@pytest.mark.parametrize("codec", [COMPILED, REFERENCE], ids=lambda codec: codec.name)
def test_sequence_numbers_begin_again_after_the_largest(codec: Codec) -> None:
    rows: list[OutRow] = [(None, b"x" * 40, None, 0)] * 8
    form = batch_format(size=200, sequence=2**31 - 3)
    sealed, _ = batches_of(codec, form, [arrow(rows, pa.binary(), pa.binary())], [np.zeros(8, np.int32)])
    assert [one.records for one in sealed[0]] == [2, 2, 2, 2]
    assert [one.base_sequence for one in sealed[0]] == [2**31 - 3, 2**31 - 1, 1, 3]
