"""The hashes that Spark has of a row, `hash` and `xxhash64`, of Arrow columns, so that rows need not go through the JVM to be
told where they belong and what their digest is made of.

Here is what can be read; the loops over rows are compiled (`wire.batches.compiled_hash`), where there is a compiler. Nested
columns, decimals and numbers of floating point are left to Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from kcontrol.wire.batches.codec import default_codec
from kcontrol.wire.batches.columns import Bytes, BytesColumn, Ints, Longs, bytes_column

SEED = 42
MOST_COLUMNS = 62
"""Which of so many are null is hashed as one long."""
_MASK32, _MASK64 = (1 << 32) - 1, (1 << 64) - 1
_PRIMES = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


def shards_of(columns: Sequence[pa.Array], rows: int, shards: int) -> Ints:
    """`pmod(hash(columns), shards)` of each row; 0 of no columns. columns: of bytes, text, booleans, whole numbers, days or
    microseconds."""
    if not columns:
        return np.zeros(rows, np.int32)
    codes = np.full(rows, SEED, np.uint32)
    for column in columns:
        _go_on("murmur", column, codes)
    return (codes.view(np.int32).astype(np.int64) % shards).astype(np.int32)


def row_hashes(columns: Sequence[pa.Array], rows: int) -> tuple[Longs, Longs]:
    """`xxhash64(1, mask, columns)` and `xxhash64(2, mask, columns)` of each row. mask: a long, of which a bit is set for each
    column that is null. columns: as of `shards_of`, at most MOST_COLUMNS."""
    mask = np.zeros(rows, np.int64)
    for number, column in enumerate(columns):
        if column.null_count:
            mask |= column.is_null().to_numpy(zero_copy_only=False).astype(np.int64) << number
    plain = [_parts(column) for column in columns]
    found = []
    for first in (1, 2):
        codes = np.full(rows, xx_int(first, SEED), np.uint64)
        _numbers("xx", mask, _NO_BYTES, True, codes)
        for parts in plain:
            _one("xx", parts, codes)
        found.append(codes.view(np.int64))
    return found[0], found[1]


def warm() -> None:
    """Compile the loops, or load them."""
    row_hashes([pa.array([b""])], 1)


_NO_BYTES: Bytes = np.empty(0, np.uint8)
_Parts = BytesColumn | tuple[Longs, Bytes, bool]
"""Of a column: its bytes, or its numbers, which are valid, and whether they are long."""


def _go_on(kind: str, column: pa.Array, codes: Any) -> None:
    _one(kind, _parts(column), codes)


def _one(kind: str, parts: _Parts, codes: Any) -> None:
    if isinstance(parts, BytesColumn):
        _bytes(kind, parts, codes)
    else:
        _numbers(kind, *parts, codes)


def _parts(column: pa.Array) -> _Parts:
    if pat.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if _is_bytes(kind):
        return bytes_column(column, "")
    valid: Bytes = _NO_BYTES
    if column.null_count:
        valid = column.is_valid().to_numpy(zero_copy_only=False).view(np.uint8)
        column = column.fill_null(False if pat.is_boolean(kind) else pa.scalar(0, pa.int64()).cast(kind))
    are_long = _is_long(kind)
    numbers = column.cast(pa.int64() if are_long else pa.int32()).to_numpy(zero_copy_only=False)
    return numbers.astype(np.int64, copy=False), valid, are_long


def _is_bytes(kind: pa.DataType) -> bool:
    if pat.is_dictionary(kind):
        return _is_bytes(kind.value_type)
    tests = (pat.is_binary, pat.is_string, pat.is_large_binary, pat.is_large_string)
    return any(test(kind) for test in tests)


def _is_long(kind: pa.DataType) -> bool:
    return bool(pat.is_int64(kind) or (pat.is_timestamp(kind) and kind.unit == "us"))


def _is_int(kind: pa.DataType) -> bool:
    tests = (pat.is_boolean, pat.is_int8, pat.is_int16, pat.is_int32, pat.is_date32)
    return any(test(kind) for test in tests)


# --- over rows ----------------------------------------------------------------------------------------------


def _bytes(kind: str, column: BytesColumn, codes: Any) -> None:
    if default_codec().name == "compiled":
        from kcontrol.wire.batches import compiled_hash

        loop = compiled_hash.xx_bytes if kind == "xx" else compiled_hash.murmur_bytes
        loop(column.ends, column.data, column.valid, codes)
        return
    of = xx_bytes if kind == "xx" else murmur_bytes
    for row in _valid_rows(column.valid, codes):
        data = column.data[column.ends[row] : column.ends[row + 1]].tobytes()
        codes[row] = of(data, int(codes[row]))


def _numbers(kind: str, numbers: Longs, valid: Bytes, are_long: bool, codes: Any) -> None:
    if default_codec().name == "compiled":
        from kcontrol.wire.batches import compiled_hash

        loop = compiled_hash.xx_numbers if kind == "xx" else compiled_hash.murmur_numbers
        loop(numbers, valid, are_long, codes)
        return
    of = {
        ("xx", True): xx_long,
        ("xx", False): xx_int,
        ("murmur", True): murmur_long,
        ("murmur", False): murmur_int,
    }[kind, are_long]
    for row in _valid_rows(valid, codes):
        codes[row] = of(int(numbers[row]), int(codes[row]))


def _valid_rows(valid: Bytes, codes: Any) -> Iterable[int]:
    return range(len(codes)) if not len(valid) else np.flatnonzero(valid).tolist()


# --- of one value, on from `seed` ---------------------------------------------------------------------------


def xx_int(value: int, seed: int) -> int:
    """Spark's XXH64.hashInt, as an unsigned number."""
    return _xx_end(_xx_four(seed + _PRIMES[4] + 4, value & _MASK32))


def xx_long(value: int, seed: int) -> int:
    """Spark's XXH64.hashLong, as an unsigned number."""
    return _xx_end(_xx_eight(seed + _PRIMES[4] + 8, value & _MASK64))


def xx_bytes(data: bytes, seed: int) -> int:
    """Spark's XXH64.hashUnsafeBytes, as an unsigned number."""
    one, two, *_ = _PRIMES
    at, code = 0, seed + _PRIMES[4]
    if len(data) >= 32:
        lanes = [seed + one + two, seed + two, seed, seed - one]
        while at + 32 <= len(data):
            for lane in range(4):
                word = int.from_bytes(data[at + 8 * lane : at + 8 * lane + 8], "little")
                lanes[lane] = _turned64(lanes[lane] + word * two, 31) * one & _MASK64
            at += 32
        code = sum(_turned64(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            code = ((code ^ _turned64(lane * two, 31) * one) * one + _PRIMES[3]) & _MASK64
    code += len(data)
    while at + 8 <= len(data):
        code = _xx_eight(code, int.from_bytes(data[at : at + 8], "little"))
        at += 8
    if at + 4 <= len(data):
        code = _xx_four(code, int.from_bytes(data[at : at + 4], "little"))
        at += 4
    for byte in data[at:]:
        code = _turned64((code & _MASK64) ^ byte * _PRIMES[4], 11) * one & _MASK64
    return _xx_end(code)


def murmur_int(value: int, seed: int) -> int:
    """Spark's Murmur3_x86_32.hashInt, as an unsigned number."""
    return _murmur_end(_murmur_word(seed, value & _MASK32), 4)


def murmur_long(value: int, seed: int) -> int:
    """Spark's Murmur3_x86_32.hashLong, as an unsigned number."""
    low = _murmur_word(seed, value & _MASK32)
    return _murmur_end(_murmur_word(low, value >> 32 & _MASK32), 8)


def murmur_bytes(data: bytes, seed: int) -> int:
    """Spark's Murmur3_x86_32.hashUnsafeBytes, as an unsigned number: what is left after whole words is a number of its own,
    byte by byte, and signed."""
    code, whole = seed, len(data) & ~3
    for at in range(0, whole, 4):
        code = _murmur_word(code, int.from_bytes(data[at : at + 4], "little"))
    for byte in data[whole:]:
        code = _murmur_word(code, (byte - 256 if byte >= 128 else byte) & _MASK32)
    return _murmur_end(code, len(data))


def _turned64(word: int, bits: int) -> int:
    word &= _MASK64
    return (word << bits | word >> 64 - bits) & _MASK64


def _turned32(word: int, bits: int) -> int:
    word &= _MASK32
    return (word << bits | word >> 32 - bits) & _MASK32


def _xx_eight(code: int, word: int) -> int:
    one, two, _, four, _ = _PRIMES
    mixed = _turned64(word * two, 31) * one & _MASK64
    return (_turned64((code & _MASK64) ^ mixed, 27) * one + four) & _MASK64


def _xx_four(code: int, word: int) -> int:
    one, two, three, *_ = _PRIMES
    return (_turned64((code & _MASK64) ^ (word * one & _MASK64), 23) * two + three) & _MASK64


def _xx_end(code: int) -> int:
    code &= _MASK64
    code = (code ^ code >> 33) * _PRIMES[1] & _MASK64
    code = (code ^ code >> 29) * _PRIMES[2] & _MASK64
    return code ^ code >> 32


def _murmur_word(code: int, word: int) -> int:
    word = _turned32(word * 0xCC9E2D51, 15) * 0x1B873593 & _MASK32
    return (_turned32(code ^ word, 13) * 5 + 0xE6546B64) & _MASK32


def _murmur_end(code: int, size: int) -> int:
    code ^= size
    code = (code ^ code >> 16) * 0x85EBCA6B & _MASK32
    code = (code ^ code >> 13) * 0xC2B2AE35 & _MASK32
    return code ^ code >> 16
