"""The loops over records, compiled: record batches v2 to Arrow buffers and back,
digests, and Kafka's partitioner.

Nothing here makes an array, so that none is counted (`jit`). Nothing checks array bounds by itself, so `decode`
looks at every length before it follows it, and the callers size the outputs for the worst case. Whatever `decode`
finds odd (damage, or an encoding that no usual producer makes) it leaves to the reference codec, whose verdict is
final: it returns without rows that count.

One file on purpose: numba's cache of a function does not notice changes of functions in other files.
Formats: Kafka's record format v2 (KIP-98), MurmurHash3_x64_128, Kafka's `Utils.murmur2`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from kcontrol.wire.batches.intrinsics import copy, load_u64
from kcontrol.wire.batches.jit import BYTES_IN, LONGS_IN, compiled, inlined

Number = Any
"""A 64-bit number: signed for positions and sizes, unsigned (`np.uint64`) where bits are shifted or
hashed. Mixing the two gives a float."""

DECODED = 0
NEEDS_REFERENCE = 1

ROWS, HEADERS, HEADER_KEY_BYTES, HEADER_VALUE_BYTES = range(4)
"""What `decode` counts."""
POSITION, COUNT, LARGEST, NEXT = range(4)
"""What `encode` carries on in a batch from call to call: its end, its records, bytes of the largest,
and of the one that did not fit."""
START, END, BASE_OFFSET, LAST_DELTA, TIMESTAMP, RECORDS, APPEND_TIME, FIRST, TO, RUN = range(10)
"""Columns of a batch in `decode`'s table of batches."""

_INTS_IN = types.Array(types.int32, 1, "C", readonly=True)
_TABLE_IN = types.Array(types.int64, 2, "C", readonly=True)
_BYTES, _INTS, _LONGS, _ULONGS = types.uint8[::1], types.int32[::1], types.int64[::1], types.uint64[::1]
_DIGESTS = types.uint64[:, ::1]

_INPUT = np.uint64(3)
"""`DigestKind.INPUT`, whose hashes cover the timestamp as well."""
_LIMIT_MS = 9_223_372_036_854_775
"""The largest timestamp, either side of zero, that still fits 64 bits in microseconds."""
_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_N1, _N2 = np.uint64(0x52DCE729), np.uint64(0x38495AB5)
_F1, _F2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)


# --- variable-length numbers ---


@inlined
def _read_varint(data: Any, at: Number, end: Number) -> tuple[Number, Number]:
    """(number, position after it); position -1 if it does not end before `end`, or is not the shortest
    encoding."""
    if at >= end:
        return np.int64(0), np.int64(-1)
    byte = np.uint64(data[at])
    if byte < np.uint64(128):
        return np.int64(byte >> np.uint64(1)) ^ -np.int64(byte & np.uint64(1)), at + 1
    number = byte & np.uint64(127)
    shift = np.uint64(7)
    at += 1
    while at < end and shift < np.uint64(64):
        byte = np.uint64(data[at])
        at += 1
        if shift == np.uint64(63) and byte > np.uint64(1):
            break
        number |= (byte & np.uint64(127)) << shift
        if byte < np.uint64(128):
            if byte == np.uint64(0):
                break
            return np.int64(number >> np.uint64(1)) ^ -np.int64(number & np.uint64(1)), at
        shift += np.uint64(7)
    return np.int64(0), np.int64(-1)


@inlined
def _read_size(data: Any, at: Number, end: Number, least: Number) -> tuple[Number, Number]:
    """As `_read_varint`, for the size of what follows: at least `least`, and no more than there is."""
    size, at = _read_varint(data, at, end)
    if at >= 0 and (size < least or size > end - at):
        at = np.int64(-1)
    return size, at


@inlined
def _varint_size(number: Number) -> Number:
    rest = np.uint64((number << 1) ^ (number >> 63)) >> np.uint64(7)
    size = 1
    while rest:
        size += 1
        rest >>= np.uint64(7)
    return size


@inlined
def _write_varint(out: Any, at: Number, number: Number) -> Number:
    rest = np.uint64((number << 1) ^ (number >> 63))
    while rest > np.uint64(127):
        out[at] = np.uint8((rest & np.uint64(127)) | np.uint64(128))
        at += 1
        rest >>= np.uint64(7)
    out[at] = np.uint8(rest)
    return at + 1


# --- digests ---


@inlined
def _rotate(number: Number, left: Number) -> Number:
    return (number << np.uint64(left)) | (number >> np.uint64(64 - left))


@inlined
def _finish(number: Number) -> Number:
    number ^= number >> np.uint64(33)
    number *= _F1
    number ^= number >> np.uint64(33)
    number *= _F2
    return number ^ (number >> np.uint64(33))


@inlined
def _mix(h1: Number, h2: Number, k1: Number, k2: Number) -> tuple[Number, Number]:
    h1 ^= _rotate(k1 * _C1, 31) * _C2
    h1 = (_rotate(h1, 27) + h2) * np.uint64(5) + _N1
    h2 ^= _rotate(k2 * _C2, 33) * _C1
    h2 = (_rotate(h2, 31) + h1) * np.uint64(5) + _N2
    return h1, h2


@inlined
def _last_bytes(data: Any, end: Number, count: Number) -> Number:
    """The `count` (1 to 8) bytes before `end` as a little-endian number."""
    if end >= 8:
        return load_u64(data, end - 8) >> np.uint64(64 - 8 * count)
    number = np.uint64(0)
    for at in range(count):
        number |= np.uint64(data[end - count + at]) << np.uint64(8 * at)
    return number


@inlined
def _add_digest(total: Any, kind: Number, number: Number, data: Any, start: Number, end: Number) -> None:
    """Add the hash of (kind, number, data[start:end]) to the 128-bit `total` (low, high)."""
    h1, h2 = _mix(np.uint64(0), np.uint64(0), kind, number)
    at = start
    while at + 16 <= end:
        h1, h2 = _mix(h1, h2, load_u64(data, at), load_u64(data, at + 8))
        at += 16
    rest = end - at
    if rest > 8:
        h2 ^= _rotate(_last_bytes(data, end, rest - 8) * _C2, 33) * _C1
        rest = 8
        h1 ^= _rotate(load_u64(data, at) * _C1, 31) * _C2
    elif rest > 0:
        h1 ^= _rotate(_last_bytes(data, end, rest) * _C1, 31) * _C2
    length = np.uint64(16 + end - start)
    h1 ^= length
    h2 ^= length
    h1 += h2
    h2 += h1
    h1 = _finish(h1)
    h2 = _finish(h2)
    h1 += h2
    h2 += h1
    low = total[0] + h1
    total[1] += h2 + np.uint64(low < h1)
    total[0] = low


@compiled(types.void(BYTES_IN, LONGS_IN, LONGS_IN, types.int64, types.uint64, _ULONGS))
def digest_lines(data: Any, starts: Any, ends: Any, base: Number, kind: Number, digest: Any) -> None:
    """Add the hashes of data[starts[r]:ends[r]], each numbered by where it starts behind `base`."""
    for row in range(len(starts)):
        start = starts[row]
        _add_digest(digest, kind, np.uint64(base + start), data, start, ends[row])


# --- decode ---


@inlined
def _stamped(kind: Number, time: Number, append: Number) -> Number:
    """Of input: when it was written, above the eight bits of the kind: a bit of type and at most 55 of
    time."""
    if kind != _INPUT:
        return kind
    return np.uint64(time) << np.uint64(9) | np.uint64(append) << np.uint64(8) | kind


@inlined
def _take(
    data: Any, at: Number, end: Number, out: Any, filled: Number, valid: Any, row: Number
) -> tuple[Number, Number]:
    """Copy a key or value to `out[filled:]`; returns the position after it, or -1, and how much is filled
    then."""
    size, at = _read_size(data, at, end, -1)
    if at < 0 or size < 0:
        return at, filled
    copy(out, filled, data, at, size)
    valid[row >> 3] |= np.uint8(1 << (row & 7))
    return at + size, filled + size


@inlined
def _check_headers(data: Any, at: Number, end: Number, counts: Any) -> Number:
    """Walk over a record's headers; the position after them or -1."""
    number, at = _read_size(data, at, end, 0)
    if at < 0:
        return at
    counts[HEADERS] += number
    for _ in range(number):
        size, at = _read_size(data, at, end, 0)
        if at < 0:
            return at
        for index in range(at, at + size):
            if data[index] > 127:
                return np.int64(-1)
        counts[HEADER_KEY_BYTES] += size
        at += size
        size, at = _read_size(data, at, end, -1)
        if at < 0:
            return at
        if size > 0:
            counts[HEADER_VALUE_BYTES] += size
            at += size
    return at


@inlined
def _time_of(batches: Any, batch: Number, delta: Number) -> Number:
    """Of a record, in ms. Where the sum wraps it is out of range all the same."""
    time = batches[batch, TIMESTAMP]
    return time + delta if batches[batch, APPEND_TIME] == 0 else time


@compiled(
    types.int64(
        BYTES_IN, _TABLE_IN, types.uint64,
        _INTS, _BYTES, _BYTES, _INTS, _BYTES, _BYTES, _LONGS, _LONGS, _INTS, _LONGS, _LONGS, _DIGESTS,
    )
)  # fmt: skip
def decode(
    data: Any, batches: Any, kind: Number,
    key_ends: Any, keys: Any, key_valid: Any, value_ends: Any, values: Any, value_valid: Any,
    offsets: Any, timestamps_us: Any, timestamp_types: Any, header_starts: Any, counts: Any, digests: Any,
) -> Number:  # fmt: skip
    """Records of `batches` (a row each, see START...) with offsets [FIRST, TO) into buffers of Arrow columns.

    key_ends, value_ends: int32 offsets of rows + 1, the first of which is 0. *_valid: bitmaps, zeroed.
    counts: zeroed. kind: a DigestKind; 0: no digest. digests: of each run the low and the high half of its
    digest and its rows, zeroed. Returns DECODED, or NEEDS_REFERENCE and then nothing in
    the outputs means anything.
    """
    row, key_bytes, value_bytes = 0, 0, 0
    for batch in range(len(batches)):
        at, stop, previous = batches[batch, START], batches[batch, END], np.int64(-1)
        digest, before = digests[batches[batch, RUN]], row
        for _ in range(batches[batch, RECORDS]):
            size, at = _read_size(data, at, stop, 1)
            if at < 0:
                return NEEDS_REFERENCE
            end = at + size
            time_delta, at = _read_varint(data, at + 1, end)
            if at < 0 or time_delta > 2 * _LIMIT_MS or time_delta < -2 * _LIMIT_MS:
                return NEEDS_REFERENCE
            delta, at = _read_varint(data, at, end)
            if at < 0 or delta <= previous or delta > batches[batch, LAST_DELTA]:
                return NEEDS_REFERENCE
            previous = delta
            offset = batches[batch, BASE_OFFSET] + delta
            if offset < batches[batch, FIRST] or offset >= batches[batch, TO]:
                at = end
                continue
            start = at
            at, key_bytes = _take(data, at, end, keys, key_bytes, key_valid, row)
            if at < 0:
                return NEEDS_REFERENCE
            at, value_bytes = _take(data, at, end, values, value_bytes, value_valid, row)
            if at < 0:
                return NEEDS_REFERENCE
            header_starts[row] = at
            if _check_headers(data, at, end, counts) != end:
                return NEEDS_REFERENCE
            at = end
            time = _time_of(batches, batch, time_delta)
            if time > _LIMIT_MS or time < -_LIMIT_MS:
                return NEEDS_REFERENCE
            if kind != np.uint64(0):
                stamped = _stamped(kind, time, batches[batch, APPEND_TIME])
                _add_digest(digest, stamped, np.uint64(offset), data, start, end)
            offsets[row] = offset
            timestamps_us[row] = time * 1000
            timestamp_types[row] = np.int32(batches[batch, APPEND_TIME])
            row += 1
            key_ends[row] = np.int32(key_bytes)
            value_ends[row] = np.int32(value_bytes)
        if at != stop:
            return NEEDS_REFERENCE
        digest[2] += np.uint64(row - before)
    counts[ROWS] = row
    return DECODED


@compiled(types.void(BYTES_IN, LONGS_IN, types.int64, _INTS, _INTS, _BYTES, _INTS, _BYTES, _BYTES))
def decode_headers(
    data: Any,
    starts: Any,
    rows: Number,
    list_ends: Any,
    key_ends: Any,
    keys: Any,
    value_ends: Any,
    values: Any,
    valid: Any,
) -> None:
    """Headers of rows that `decode` has accepted, into the buffers of list<struct<key, value>>; `valid` is
    zeroed."""
    end = len(data)
    header, key_bytes, value_bytes = 0, 0, 0
    for row in range(rows):
        number, at = _read_varint(data, starts[row], end)
        for _ in range(number):
            size, at = _read_varint(data, at, end)
            copy(keys, key_bytes, data, at, size)
            key_bytes += size
            at += size
            size, at = _read_varint(data, at, end)
            if size >= 0:
                copy(values, value_bytes, data, at, size)
                value_bytes += size
                at += size
                valid[header >> 3] |= np.uint8(1 << (header & 7))
            header += 1
            key_ends[header] = np.int32(key_bytes)
            value_ends[header] = np.int32(value_bytes)
        list_ends[row + 1] = np.int32(header)


# --- encode ---


@inlined
def _size(ends: Any, valid: Any, row: Number) -> Number:
    """Bytes of a value, -1 for null. An empty `valid` means that there are no nulls."""
    if len(valid) and valid[row] == 0:
        return np.int64(-1)
    return ends[row + 1] - ends[row]


@inlined
def _field_size(size: Number) -> Number:
    return _varint_size(size) + max(size, 0)


@inlined
def _write_field(out: Any, at: Number, data: Any, start: Number, size: Number) -> Number:
    at = _write_varint(out, at, size)
    if size > 0:
        copy(out, at, data, start, size)
        return at + size
    return at


@compiled(
    types.int64(
        _INTS_IN, types.int64, types.int64, LONGS_IN, BYTES_IN, BYTES_IN, LONGS_IN, BYTES_IN, BYTES_IN,
        LONGS_IN, LONGS_IN, BYTES_IN, LONGS_IN, BYTES_IN, BYTES_IN,
        BYTES_IN, types.int64, _BYTES, types.int64, _LONGS, types.uint64, types.uint64, _ULONGS,
    )
)  # fmt: skip
def encode(
    order: Any, index: Number, stop: Number,
    key_ends: Any, keys: Any, key_valid: Any, value_ends: Any, values: Any, value_valid: Any,
    lists: Any, name_ends: Any, names: Any, content_ends: Any, contents: Any, content_valid: Any,
    extra: Any, extra_count: Number, out: Any, limit: Number, state: Any, kind: Number, number: Number, digest: Any,
) -> Number:  # fmt: skip
    """Rows `order[index:stop]` as records after those in `out`, as many as end by `limit`;
    returns the index of the next one.

    Columns come as int64 offsets, bytes and one validity byte a row ('' without nulls). lists: rows + 1
    positions of each row's headers, or '' without headers. extra: bytes of `extra_count` further headers.
    kind 0: no digest; the digest does not cover `extra`.
    """
    at, count = state[POSITION], state[COUNT]
    while index < stop:
        row = np.int64(order[index])
        key_size, value_size = _size(key_ends, key_valid, row), _size(value_ends, value_valid, row)
        first, last = np.int64(0), np.int64(0)
        if len(lists):
            first, last = lists[row], lists[row + 1]
        size = 2 + _varint_size(count) + _field_size(key_size) + _field_size(value_size)
        size += _varint_size(last - first + extra_count) + len(extra)
        for header in range(first, last):
            size += _field_size(name_ends[header + 1] - name_ends[header])
            size += _field_size(_size(content_ends, content_valid, header))
        whole = size + _varint_size(size)
        if at + whole > limit:
            state[NEXT] = whole
            break
        state[LARGEST] = max(state[LARGEST], whole)
        at = _write_varint(out, at, size)
        out[at] = 0
        out[at + 1] = 0
        body = _write_varint(out, at + 2, count)
        at = _write_field(out, body, keys, key_ends[row], key_size)
        at = _write_field(out, at, values, value_ends[row], value_size)
        count_at = at
        at = _write_varint(out, at, last - first)
        headers_at = at
        for header in range(first, last):
            at = _write_field(out, at, names, name_ends[header], name_ends[header + 1] - name_ends[header])
            at = _write_field(
                out, at, contents, content_ends[header], _size(content_ends, content_valid, header)
            )
        if kind != np.uint64(0):
            _add_digest(digest, kind, number, out, body, at)
        if extra_count:
            # The number of headers may take a byte more now: move the headers out of its way, from their end.
            shift = count_at + _varint_size(last - first + extra_count) - headers_at
            if shift:
                for moved in range(at - 1, headers_at - 1, -1):
                    out[moved + shift] = out[moved]
            _write_varint(out, count_at, last - first + extra_count)
            copy(out, at + shift, extra, 0, len(extra))
            at += shift + len(extra)
        count += 1
        index += 1
    state[POSITION], state[COUNT] = at, count
    return index
