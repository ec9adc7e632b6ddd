"""The record codec alone, on one core, against aiokafka's parser and builder: `python -m bench.micro_codec`.

Processor time, not wall time, so that a busy machine changes little. Digests are included on
our side; aiokafka makes none.
"""

from __future__ import annotations

import random
import statistics
import struct
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from kcontrol.wire.batches import (
    BatchFormat,
    Compression,
    Fetched,
    PartitionedBatches,
    Producer,
    SealedBatch,
    codec_named,
    partition_of,
)
from kcontrol.wire.digest import DigestKind

RECORDS = 200_000
VALUE_BYTES = 80
BATCH_BYTES = 1_000_000
REPEATS = 7
SEED = 1
NOW_MS = 1_700_000_000_000
STEP = ("step", b"12")


def main() -> None:
    rng = random.Random(SEED)
    keys = [b"%012d" % number for number in range(RECORDS)]
    values = [rng.randbytes(VALUE_BYTES) for _ in range(RECORDS)]
    rows = pa.record_batch({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})
    log = as_log(encode(rows, DigestKind.OUTPUT, partitions=1))

    aiokafka_write = rate(lambda: aiokafka_encode(keys, values))
    aiokafka_read = rate(lambda: aiokafka_decode(log))
    print(
        f"{RECORDS} records, values of {VALUE_BYTES} bytes, million records per processor second, "
        f"medians of {REPEATS}"
    )
    show("encode, aiokafka", aiokafka_write, aiokafka_write)
    for kind in (DigestKind.NONE, DigestKind.OUTPUT):
        for partitions in (1, 4):
            name = f"encode, digest {kind.name.lower()}, {partitions} partition(s)"
            show(name, rate(partial(encode, rows, kind, partitions)), aiokafka_write)
    show("decode, aiokafka", aiokafka_read, aiokafka_read)
    for kind in (DigestKind.NONE, DigestKind.INPUT_UNTIMED, DigestKind.INPUT):
        for headers in (False, True):
            name = f"decode, digest {kind.name.lower()}{', headers' if headers else ''}"
            show(name, rate(partial(decode, log, kind, headers=headers)), aiokafka_read)
    show("partitions of keys", rate(lambda: partition_of(rows.column("key"), 4)))


def encode(rows: pa.RecordBatch, kind: DigestKind, partitions: int) -> list[SealedBatch]:
    form = BatchFormat(Producer(7, 3), NOW_MS, (STEP,), Compression.NONE, BATCH_BYTES, kind, partitions)
    made = PartitionedBatches(codec_named("compiled"), form)
    numbers = np.zeros(RECORDS, np.int32) if partitions == 1 else partition_of(rows.column("key"), partitions)
    return [batch for _, batch in (*made.add(rows, numbers), *made.flush())]


def decode(log: bytes, kind: DigestKind, *, headers: bool) -> int:
    decoded = Fetched(log, "bench").decode(codec_named("compiled"), (), 0, RECORDS, kind, headers=headers)
    return sum(run.rows.num_rows for run in decoded)


def as_log(batches: Sequence[SealedBatch]) -> bytes:
    """As a broker keeps them: with offsets."""
    out, offset = [], 0
    for batch in batches:
        out.append(struct.pack(">q", offset) + batch.data[8:])
        offset += batch.records
    return b"".join(out)


def aiokafka_encode(keys: Sequence[bytes], values: Sequence[bytes]) -> int:
    size, builder, count = 0, _builder(), 0
    for key, value in zip(keys, values, strict=True):
        if builder.append(count, NOW_MS, key, value, [STEP]) is None:
            size += len(builder.build())
            builder, count = _builder(), 0
            builder.append(count, NOW_MS, key, value, [STEP])
        count += 1
    return size + len(builder.build())


def aiokafka_decode(log: bytes) -> int:
    """To Arrow columns, as the compiled codec does."""
    found = []
    batches = MemoryRecords(log)
    while batches.has_next():
        batch = batches.next_batch()
        assert batch.validate_crc()
        found += [(record.key, record.value, record.offset, record.timestamp) for record in batch]
    keys, values, offsets, times = zip(*found, strict=True)
    columns = [pa.array(keys, pa.binary()), pa.array(values, pa.binary()), pa.array(offsets), pa.array(times)]
    return int(pa.record_batch(columns, ["key", "value", "offset", "time"]).num_rows)


def rate(work: Callable[[], object]) -> float:
    """Million records per second of processor time, the median; one run before to warm up."""
    work()
    seconds = []
    for _ in range(REPEATS):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return RECORDS / statistics.median(seconds) / 1e6


def show(name: str, found: float, base: float | None = None) -> None:
    print(f"{name:45} {found:8.2f}" + (f" {found / base:7.1f} times aiokafka" if base else ""))


def _builder() -> DefaultRecordBatchBuilder:
    return DefaultRecordBatchBuilder(2, 0, 1, 7, 3, 0, BATCH_BYTES)


if __name__ == "__main__":
    main()
