"""Our murmur2 against the vectors of Kafka's own UtilsTest and of its default partitioner."""

from __future__ import annotations

import pytest

from kcontrol.wire.murmur2 import murmur2, partition_of
from kcontrol.wire.names import control_partition


@pytest.mark.parametrize(
    ("data", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
        (b"", 275646681),
    ],
)
def test_kafkas_vectors(data: bytes, signed: int) -> None:
    assert murmur2(data) == signed & 0xFFFFFFFF


def test_a_negative_hash_is_made_positive_by_its_mask_not_by_its_absolute_value() -> None:
    assert partition_of(b"foobar", 50) == (-790332482 & 0x7FFFFFFF) % 50 == 16


def test_a_pipeline_lives_where_kafka_would_put_its_name() -> None:
    assert control_partition("foobar", 8) == partition_of(b"foobar", 8)
