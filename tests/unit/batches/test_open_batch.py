"""How records fill batches: limits, single records that are too large for them, and
compression that does not pay."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from kcontrol.wire.batches import (
    BatchFormat,
    Codec,
    Compression,
    PartitionedBatches,
    Producer,
    SealedBatch,
    codec_named,
)
from kcontrol.wire.digest import DigestKind
from tests.property.batches.made import parsed


@pytest.fixture(params=["compiled", "reference"])
def codec(request: pytest.FixtureRequest) -> Codec:
    return codec_named(request.param)


def sealed(
    codec: Codec, values: list[bytes], limit: int, compression: Compression = Compression.NONE
) -> list[SealedBatch]:
    form = BatchFormat(Producer(1, 0), 5, (), compression, limit, DigestKind.OUTPUT, 1)
    made = PartitionedBatches(codec, form)
    rows = pa.record_batch({"value": pa.array(values, pa.binary())})
    return [batch for _, batch in (*made.add(rows, np.zeros(len(values), np.int32)), *made.flush())]


def test_a_record_larger_than_a_batch_has_one_of_its_own(codec: Codec) -> None:
    values = [b"a" * 10, b"b" * 5000, b"c" * 10, b"d" * 10]
    found = sealed(codec, values, limit=200)
    assert [batch.records for batch in found] == [1, 1, 2]
    assert found[1].largest_record_bytes > 5000
    assert found[2].largest_record_bytes < 30
    assert [row[3] for batch in found for row in parsed(batch.data)] == values


def test_batches_are_filled_to_the_last_record_that_fits(codec: Codec) -> None:
    one = sealed(codec, [b"x" * 100], limit=10_000)[0]
    record = len(one.data) - 61
    exact = 61 + 3 * record
    assert [batch.records for batch in sealed(codec, [b"x" * 100] * 6, limit=exact)] == [3, 3]
    assert [batch.records for batch in sealed(codec, [b"x" * 100] * 6, limit=exact - 1)] == [2, 2, 2]


def test_a_buffer_grows_from_batch_to_batch_without_changing_what_is_in_it(codec: Codec) -> None:
    rng = random.Random(7)
    values = [rng.randbytes(rng.choice([0, 1, 100, 40_000])) for _ in range(300)]
    found = sealed(codec, values, limit=1_000_000)
    assert [row[3] for batch in found for row in parsed(batch.data)] == values
    assert all(len(batch.data) <= 1_000_000 for batch in found)


@pytest.mark.parametrize("compression", list(Compression))
def test_compression_is_used_where_it_pays(codec: Codec, compression: Compression) -> None:
    random_bytes = random.Random(3).randbytes(500)
    (packed,) = sealed(codec, [b"same" * 100] * 20, limit=100_000, compression=compression)
    (plain,) = sealed(codec, [random_bytes], limit=100_000, compression=compression)
    assert packed.data[22] & 7 == compression
    assert plain.data[22] & 7 == 0
    assert [row[3] for row in parsed(packed.data)] == [b"same" * 100] * 20
    assert [row[3] for row in parsed(plain.data)] == [random_bytes]
