"""The rows of an address, as Arrow, and their digest: a pure function of address, partition and offset.

Every operation is one that IEEE 754 or two's complement defines to the last bit, so that all machines make the same rows.

The digest is a count and a sum modulo 2**128, as those of Kafka's records are, but of other hashes: two 64-bit mixes of each
row's number, time and first random number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kcontrol.errors import InputGoneError
from kcontrol.wire.addresses import Address, GeneratorAddress, address_of, check_rows_id
from kcontrol.wire.digest import Digest
from kcontrol.wire.range_read import RangeRead, RowsOfRanges

BATCH_ROWS = 65_536
_US = 1_000
_US_PER_S = 1_000_000

_Longs = np.ndarray[Any, np.dtype[np.int64]]
_Words = np.ndarray[Any, np.dtype[np.uint64]]

_GAMMA = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""Of splitmix64 (Steele, Lea, Flood, OOPSLA 2014)."""
_WORD = (1 << 64) - 1
_EXPONENT = 2.0**-53


def rows_schema(randoms: Sequence[str] = ()) -> pa.Schema:
    """The columns of Spark's rate source, then the random ones, then where a row is."""
    return pa.schema(
        [
            pa.field("timestamp", pa.timestamp("us", tz="UTC")),
            pa.field("value", pa.int64()),
            *(pa.field(name, pa.float64()) for name in randoms),
            pa.field("partition", pa.int32()),
            pa.field("offset", pa.int64()),
        ]
    )


def read_rows(
    input_name: str,
    topic: str,
    topic_id: str,
    ranges: Sequence[tuple[int, int, int]],
    randoms: Sequence[str] = (),
) -> RangeRead:
    """The rows of some ranges (partition, from, to), one after the other.

    Raises ConfigurationError for an address that is not known here, InputGoneError for rows of another version, and for a range
    that lies beyond the last row.
    """
    check_rows_id(f"input {input_name!r}", topic_id)
    address = address_of(topic)
    for partition, _, to in ranges:
        _check_there(input_name, address, partition, to)
    return RangeRead(_each(address, ranges, rows_schema(randoms)), len(ranges))


def _each(
    address: Address, ranges: Sequence[tuple[int, int, int]], schema: pa.Schema
) -> Iterator[RowsOfRanges]:
    for index, (partition, from_, to) in enumerate(ranges):
        for begin in range(from_, to, BATCH_ROWS):
            offsets = np.arange(begin, min(begin + BATCH_ROWS, to), dtype=np.int64)
            rows, digest = _rows(address, partition, offsets, schema)
            yield rows, [(index, digest)]


def _check_there(input_name: str, address: Address, partition: int, to: int) -> None:
    if not isinstance(address, GeneratorAddress) or address.rows == 0:
        return
    rows = (address.rows - partition + address.partitions - 1) // address.partitions
    if partition >= address.partitions or to > rows:
        raise InputGoneError(
            f"input {input_name!r}: {address.text} has no offset {to - 1} in partition {partition}: {rows} are there"
        )


def _rows(
    address: Address, partition: int, offsets: _Longs, schema: pa.Schema
) -> tuple[pa.RecordBatch, Digest]:
    seed = 0
    if isinstance(address, GeneratorAddress):
        seed = address.seed
        numbers = offsets * address.partitions + partition
        times_us = generated_times_us(address, numbers)
    else:
        numbers, times_us = offsets, offsets * (address.every_ms * _US)
    draws = len(schema) - 4
    words = [_random_words(seed, index, numbers) for index in range(max(1, draws))]
    columns = [
        pa.array(times_us).cast(schema.field("timestamp").type),
        pa.array(numbers),
        *(pa.array((word >> np.uint64(11)).astype(np.float64) * _EXPONENT) for word in words[:draws]),
        pa.array(np.full(len(offsets), partition, dtype=np.int32)),
        pa.array(offsets),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema), _digest(numbers, times_us, words[0])


def generated_times_us(address: GeneratorAddress, numbers: _Longs) -> _Longs:
    """When rows are due: `GeneratorAddress.time_us` for many at once; within the ramp to a microsecond."""
    start_us, rate = address.start_ms * _US, address.rows_per_second
    if rate == 0:
        return start_us + numbers * _US
    seconds, rest = np.divmod(numbers, rate)
    even = address.ramp_up_ms * _US // 2 + seconds * _US_PER_S + rest * _US_PER_S // rate
    if address.ramp_rows == 0:
        return np.asarray(start_us + even)
    # Not more rows than these are looked at: the square of a time must fit into the 53 bits of a double.
    ramped = np.minimum(numbers, address.ramp_rows).astype(np.float64)
    grown = np.floor(np.sqrt(ramped * (2.0 * address.ramp_up_ms * _US * _US_PER_S / rate))).astype(np.int64)
    return np.asarray(start_us + np.where(numbers < address.ramp_rows, grown, even))


def _random_words(seed: int, index: int, numbers: _Longs) -> _Words:
    stream = _mix_one((seed & _WORD) ^ _mix_one(index + 1))
    return _mixed(numbers.astype(np.uint64) * np.uint64(_GAMMA) + np.uint64(stream))


def _mixed(words: _Words) -> _Words:
    words = (words ^ words >> np.uint64(30)) * np.uint64(_FIRST)
    words = (words ^ words >> np.uint64(27)) * np.uint64(_SECOND)
    return np.asarray(words ^ words >> np.uint64(31))


def _mix_one(word: int) -> int:
    word = (word + _GAMMA) & _WORD
    word = (word ^ word >> 30) * _FIRST & _WORD
    word = (word ^ word >> 27) * _SECOND & _WORD
    return word ^ word >> 31


def _digest(numbers: _Longs, times_us: _Longs, words: _Words) -> Digest:
    low = _mixed(
        _mixed(numbers.astype(np.uint64) + np.uint64(_GAMMA)) ^ _mixed(times_us.astype(np.uint64)) ^ words
    )
    high = _mixed(low + np.uint64(_GAMMA))
    # 32 bits at a time, so that no sum overflows.
    total = sum(
        int((word >> np.uint64(shift) & np.uint64(0xFFFFFFFF)).sum()) << (shift + base)
        for word, base in ((low, 0), (high, 64))
        for shift in (0, 32)
    )
    return Digest(len(numbers), total % (1 << 128))
