"""Records that lie elsewhere than `partitioned_by` says are found among the first of a partition, with the
way out."""

from __future__ import annotations

import json
import zlib
from io import BytesIO

import fastavro
import pyarrow as pa
import pytest

from kcontrol.adapters.spark.channel.placement_check import SAMPLED_RECORDS, DeclaredPlacing, PlacementCheck
from kcontrol.core.model import FailureKind
from kcontrol.errors import StepFailedError
from kcontrol.wire.murmur2 import partition_of

PARTITIONS = 6
NAMES = [f"customer-{number}" for number in range(200)]
AVRO = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "n", "type": "long"}, {"name": "who", "type": ["null", "string"]}],
}
BY_KEY = DeclaredPlacing("orders", "key", "raw")
BY_JSON = DeclaredPlacing("orders", "who", "json")
BY_AVRO = DeclaredPlacing("orders", "who", "avro", json.dumps(AVRO))


def value_of(declared: DeclaredPlacing, who: str | int | None) -> bytes:
    if declared.value_format != "avro":
        return json.dumps({"who": who}).encode()
    body = BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(AVRO), {"n": 1, "who": who})
    return body.getvalue()


def batch(partition: int, declared: DeclaredPlacing, names: list[str], first: int = 40) -> pa.RecordBatch:
    columns = {
        "key": pa.array([name.encode() for name in names], pa.binary()),
        "value": pa.array([value_of(declared, name) for name in names], pa.binary()),
        "partition": pa.array([partition] * len(names), pa.int32()),
        "offset": pa.array(range(first, first + len(names)), pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns)


def check_of(declared: DeclaredPlacing) -> PlacementCheck:
    return PlacementCheck(declared, "orders-topic", PARTITIONS)


@pytest.mark.parametrize("declared", [BY_KEY, BY_JSON, BY_AVRO])
def test_records_of_a_java_producer_pass_and_those_of_librdkafka_are_refused_with_the_remedy(
    declared: DeclaredPlacing,
) -> None:
    check = check_of(declared)
    for partition in range(PARTITIONS):
        own = [name for name in NAMES if partition_of(name.encode(), PARTITIONS) == partition]
        right = batch(partition, declared, own)
        assert check.look(right) is right
    theirs = [name for name in NAMES if zlib.crc32(name.encode()) % PARTITIONS == 2]
    with pytest.raises(StepFailedError, match=r"partitioner=murmur2_random.*nodes=1") as refused:
        check_of(declared).look(batch(2, declared, theirs))
    assert refused.value.kind == FailureKind.REFUSED
    assert "topic 'orders-topic'" in str(refused.value)
    assert "of partition 2 do not: offset 4" in str(refused.value)


def test_only_the_first_records_of_each_partition_are_looked_at() -> None:
    check = check_of(BY_KEY)
    own = [name for name in NAMES if partition_of(name.encode(), PARTITIONS) == 1]
    wrong = [name for name in NAMES if partition_of(name.encode(), PARTITIONS) == 3]
    many = (own * SAMPLED_RECORDS)[: SAMPLED_RECORDS - 1]
    check.look(batch(1, BY_KEY, many))
    with pytest.raises(StepFailedError, match="1 of the first 100 of partition 1"):
        check.look(batch(1, BY_KEY, wrong))
    check.look(batch(1, BY_KEY, wrong))
    with pytest.raises(StepFailedError):
        check.look(batch(2, BY_KEY, wrong))


def test_numbers_are_placed_by_their_text() -> None:
    numbers = [number for number in range(100) if partition_of(str(number).encode(), PARTITIONS) == 4]
    rows = batch(4, BY_JSON, NAMES[: len(numbers)])
    values = pa.array([value_of(BY_JSON, number) for number in numbers], pa.binary())
    check_of(BY_JSON).look(rows.set_column(1, "value", values))


@pytest.mark.parametrize(
    "value", [None, b"", b"no json", b"[1]", b"{}", b'{"who": null}', b'{"who": 1.5}', b"[" * 100_000]
)
def test_a_record_that_does_not_say_is_no_reason(value: bytes | None) -> None:
    rows = batch(4, BY_JSON, NAMES[:1]).set_column(1, "value", pa.array([value], pa.binary()))
    for declared in (BY_JSON, BY_AVRO, DeclaredPlacing("orders", "who", "raw")):
        check_of(declared).look(rows)
    check_of(BY_KEY).look(rows.set_column(0, "key", pa.array([None], pa.binary())))


def test_each_partition_of_a_batch_of_several_is_looked_at() -> None:
    own = [[name for name in NAMES if partition_of(name.encode(), PARTITIONS) == number] for number in (1, 2)]
    right = pa.concat_batches([batch(1, BY_KEY, own[0]), batch(2, BY_KEY, own[1])])
    check_of(BY_KEY).look(right)
    wrong = pa.concat_batches([batch(1, BY_KEY, own[0]), batch(2, BY_KEY, own[0][:3])])
    with pytest.raises(StepFailedError, match=r"3 of the first 3 of partition 2 do not: offset 40 has"):
        check_of(BY_KEY).look(wrong)
