"""Spark's two hashes of a row, compiled, a column at a time: what a row has got of the columns before is where its hash goes on
from, and nulls leave it as it is. Follows `Murmur3_x86_32` and `XXH64` of Spark's catalyst: see `kcontrol.wire.row_hash`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from kcontrol.wire.batches.intrinsics import byte_at, load_u64
from kcontrol.wire.batches.jit import BYTES_IN, LONGS_IN, compiled, inlined

_ULONGS = types.uint64[::1]
_UINTS = types.uint32[::1]
_1, _2, _3, _4, _5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_LOW = np.uint64(0xFFFFFFFF)


@inlined
def _turned(word: Any, bits: int) -> Any:
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@inlined
def _ended(code: Any) -> Any:
    code = (code ^ (code >> np.uint64(33))) * _2
    code = (code ^ (code >> np.uint64(29))) * _3
    return code ^ (code >> np.uint64(32))


@inlined
def _round(code: Any, word: Any) -> Any:
    return _turned(code + word * _2, 31) * _1


@inlined
def _merged(code: Any, lane: Any) -> Any:
    return (code ^ (_turned(lane * _2, 31) * _1)) * _1 + _4


@inlined
def _eight(code: Any, word: Any) -> Any:
    return _turned(code ^ (_turned(word * _2, 31) * _1), 27) * _1 + _4


@inlined
def _four(code: Any, word: Any) -> Any:
    return _turned(code ^ (word * _1), 23) * _2 + _3


@inlined
def _of_long(seed: Any, word: Any) -> Any:
    return _ended(_eight(seed + _5 + np.uint64(8), word))


@inlined
def _of_int(seed: Any, word: Any) -> Any:
    return _ended(_four(seed + _5 + np.uint64(4), word & _LOW))


@inlined
def _of_bytes(seed: Any, data: Any, at: int, end: int) -> Any:
    size = np.uint64(end - at)
    code = seed + _5
    if end - at >= 32:
        one, two, three, four = seed + _1 + _2, seed + _2, seed, seed - _1
        while at + 32 <= end:
            one = _round(one, load_u64(data, at))
            two = _round(two, load_u64(data, at + 8))
            three = _round(three, load_u64(data, at + 16))
            four = _round(four, load_u64(data, at + 24))
            at += 32
        code = _turned(one, 1) + _turned(two, 7) + _turned(three, 12) + _turned(four, 18)
        code = _merged(_merged(_merged(_merged(code, one), two), three), four)
    code += size
    while at + 8 <= end:
        code = _eight(code, load_u64(data, at))
        at += 8
    if at + 4 <= end:
        word = np.uint64(0)
        for index in range(4):
            word |= np.uint64(byte_at(data, at + index)) << np.uint64(8 * index)
        code = _four(code, word)
        at += 4
    while at < end:
        code = _turned(code ^ (np.uint64(byte_at(data, at)) * _5), 11) * _1
        at += 1
    return _ended(code)


@compiled(types.void(LONGS_IN, BYTES_IN, BYTES_IN, _ULONGS))
def xx_bytes(ends: Any, data: Any, valid: Any, codes: Any) -> None:
    """Go on with a column of bytes or text."""
    for row in range(len(codes)):
        if len(valid) == 0 or valid[row] != 0:
            codes[row] = _of_bytes(codes[row], data, ends[row], ends[row + 1])


@compiled(types.void(LONGS_IN, BYTES_IN, types.boolean, _ULONGS))
def xx_numbers(numbers: Any, valid: Any, are_long: bool, codes: Any) -> None:
    """Go on with a column of whole numbers, of 64 bits or of 32 and less."""
    for row in range(len(codes)):
        if len(valid) == 0 or valid[row] != 0:
            word = np.uint64(numbers[row])
            codes[row] = _of_long(codes[row], word) if are_long else _of_int(codes[row], word)


@inlined
def _mixed(code: Any, word: Any) -> Any:
    word = np.uint32(word * np.uint32(0xCC9E2D51))
    word = np.uint32(np.uint32(word << np.uint32(15)) | (word >> np.uint32(17)))
    code = np.uint32(code ^ np.uint32(word * np.uint32(0x1B873593)))
    code = np.uint32(np.uint32(code << np.uint32(13)) | (code >> np.uint32(19)))
    return np.uint32(np.uint32(code * np.uint32(5)) + np.uint32(0xE6546B64))


@inlined
def _final(code: Any, size: int) -> Any:
    code = np.uint32(code ^ np.uint32(size))
    code = np.uint32(np.uint32(code ^ (code >> np.uint32(16))) * np.uint32(0x85EBCA6B))
    code = np.uint32(np.uint32(code ^ (code >> np.uint32(13))) * np.uint32(0xC2B2AE35))
    return np.uint32(code ^ (code >> np.uint32(16)))


@compiled(types.void(LONGS_IN, BYTES_IN, BYTES_IN, _UINTS))
def murmur_bytes(ends: Any, data: Any, valid: Any, codes: Any) -> None:
    """Go on with a column of bytes or text."""
    for row in range(len(codes)):
        if len(valid) and valid[row] == 0:
            continue
        at, end = ends[row], ends[row + 1]
        size, code = end - at, codes[row]
        while at + 4 <= end:
            word = np.uint32(byte_at(data, at))
            for index in range(1, 4):
                word = np.uint32(
                    word | np.uint32(np.uint32(byte_at(data, at + index)) << np.uint32(8 * index))
                )
            code = _mixed(code, word)
            at += 4
        while at < end:  # Each as a number of its own, and signed.
            code = _mixed(code, np.uint32(np.int8(byte_at(data, at))))
            at += 1
        codes[row] = _final(code, size)


@compiled(types.void(LONGS_IN, BYTES_IN, types.boolean, _UINTS))
def murmur_numbers(numbers: Any, valid: Any, are_long: bool, codes: Any) -> None:
    """Go on with a column of whole numbers, of 64 bits or of 32 and less."""
    for row in range(len(codes)):
        if len(valid) and valid[row] == 0:
            continue
        word = np.uint64(numbers[row])
        code = _mixed(codes[row], np.uint32(word & _LOW))
        if are_long:
            code = _mixed(code, np.uint32(word >> np.uint64(32)))
        codes[row] = _final(code, 8 if are_long else 4)
