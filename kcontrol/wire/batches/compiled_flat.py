"""JSON objects of text, numbers and booleans, each found where it stands, compiled: quicker than a parser for all JSON.

An object is taken only if it is of so plain a kind that any parser says the same of it, which is less than what
`compiled_json` calls plain: no fields within fields, no escapes by number, no numbers of more digits than a double has
exactly. What is not taken is left to others to parse, or to refuse.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from kcontrol.wire.batches.compiled_json import MOST_BYTES, MOST_TEXT_BYTES
from kcontrol.wire.batches.intrinsics import byte_at, copy, load_u32, load_u64, low_zeros
from kcontrol.wire.batches.jit import BYTES_IN, LONGS_IN, compiled, inlined

TEXT, BOOLEAN, WHOLE, DOUBLE = 0, 1, 2, 3
"""Kinds of fields."""
LEFT, TAKEN, HAS_WIDE = 0, 1, 2
"""What is said of a row: it is left, or taken, and it has bytes beyond ASCII, which may be no UTF-8."""

_SPACE, _QUOTE, _BACKSLASH, _COMMA, _COLON = 32, 34, 92, 44, 58
_OPEN, _CLOSE = 123, 125
_MINUS, _PLUS, _POINT, _ZERO, _NINE, _SMALL_E, _LARGE_E = 45, 43, 46, 48, 57, 101, 69
_SMALL_B, _SMALL_F, _SMALL_N, _SMALL_R, _SMALL_T, _SLASH = 98, 102, 110, 114, 116, 47
_MOST_DIGITS = 18
_MOST_EXPONENT_DIGITS = 3
_POWERS = tuple(float(10**number) for number in range(23))
"""Those that a double has exactly. The quotient or product of one of them and a whole number below 2**53 is rounded once, as
the number that is written there is."""
_EXACT = 1 << 53

_ONES = np.uint64(0x0101010101010101)
_HIGHS = np.uint64(0x8080808080808080)
_QUOTES = np.uint64(_QUOTE * 0x0101010101010101)
_BACKSLASHES = np.uint64(_BACKSLASH * 0x0101010101010101)
_SPACES = np.uint64(_SPACE * 0x0101010101010101)

_UNSET, _NULL = -2, -1


@inlined
def _bright(word: Any) -> Any:
    """Of eight bytes, the highest bit of the first one that is a control character, a quote, a backslash or beyond ASCII; bits
    above it mean nothing. 0: none is."""
    quote = word ^ _QUOTES
    backslash = word ^ _BACKSLASHES
    found = (
        ((quote - _ONES) & ~quote) | ((backslash - _ONES) & ~backslash) | ((word - _SPACES) & ~word) | word
    )
    return found & _HIGHS


@inlined
def _is_simple_escape(byte: Any) -> Any:
    return (
        byte in (_QUOTE, _BACKSLASH, _SLASH, _SMALL_B)
        or byte in (_SMALL_F, _SMALL_N)
        or byte in (_SMALL_R, _SMALL_T)
    )


@inlined
def _text(data: Any, at: Any, end: Any) -> Any:
    """Where the text that begins at `at` has its closing quote, or -1; how many escapes it has; whether bytes beyond
    ASCII."""
    start = at
    escapes = 0
    wide = 0
    while True:
        while at + 8 <= end:
            bright = _bright(load_u64(data, at))
            if bright != np.uint64(0):
                at += low_zeros(bright) >> 3
                break
            at += 8
        is_escape = False
        while at < end:
            byte = byte_at(data, at)
            if byte == _QUOTE:
                return at if at - start <= MOST_TEXT_BYTES else -1, escapes, wide
            if byte < _SPACE:
                return -1, escapes, wide
            if byte == _BACKSLASH:
                is_escape = True
                break
            if byte > 127:
                wide = 1
            at += 1
        if not is_escape or at + 1 >= end or not _is_simple_escape(byte_at(data, at + 1)):
            return -1, escapes, wide
        escapes += 1
        at += 2


@inlined
def _is_digit(data: Any, at: Any, end: Any) -> Any:
    return at < end and _ZERO <= byte_at(data, at) <= _NINE


@inlined
def _number(data: Any, at: Any, end: Any) -> Any:
    """Behind the number that begins at `at`, or -1; its digits as a whole number; the power of ten that this is to be
    multiplied by; whether it is negative; whether it has neither point nor exponent."""
    digits, power = 0, 0
    mantissa = np.int64(0)
    is_negative = byte_at(data, at) == _MINUS
    is_whole = True
    if is_negative:
        at += 1
    if not _is_digit(data, at, end):
        return np.int64(-1), mantissa, power, is_negative, is_whole
    if byte_at(data, at) == _ZERO:
        is_negative_whole = is_negative and (at + 1 >= end or byte_at(data, at + 1) != _POINT)
        if is_negative_whole or _is_digit(data, at + 1, end):
            return np.int64(-1), mantissa, power, is_negative, is_whole
    while _is_digit(data, at, end) and digits <= _MOST_DIGITS:
        mantissa = mantissa * 10 + np.int64(byte_at(data, at) - _ZERO)
        digits += 1
        at += 1
    if at < end and byte_at(data, at) == _POINT:
        is_whole = False
        at += 1
        if not _is_digit(data, at, end):
            return np.int64(-1), mantissa, power, is_negative, is_whole
        while _is_digit(data, at, end) and digits <= _MOST_DIGITS:
            mantissa = mantissa * 10 + np.int64(byte_at(data, at) - _ZERO)
            digits += 1
            power -= 1
            at += 1
    if digits > _MOST_DIGITS:
        return np.int64(-1), mantissa, power, is_negative, is_whole
    if at < end and byte_at(data, at) in (_SMALL_E, _LARGE_E):
        is_whole = False
        at += 1
        is_small = at < end and byte_at(data, at) == _MINUS
        if is_small or (at < end and byte_at(data, at) == _PLUS):
            at += 1
        begin, exponent = at, 0
        while _is_digit(data, at, end) and at - begin <= _MOST_EXPONENT_DIGITS:
            exponent = exponent * 10 + int(byte_at(data, at) - _ZERO)
            at += 1
        is_odd = (
            is_small and begin < end and byte_at(data, begin) == _ZERO
        )  # `e-0` looks like a negative zero to whoever looks for one.
        if is_odd or at == begin or at - begin > _MOST_EXPONENT_DIGITS:
            return np.int64(-1), mantissa, power, is_negative, is_whole
        power += -exponent if is_small else exponent
    return at, mantissa, power, is_negative, is_whole


@inlined
def _word_end(data: Any, at: Any, end: Any) -> Any:
    """Behind the word null, true or false that begins at `at`, or -1."""
    if at + 4 <= end:
        a, b, c, d = byte_at(data, at), byte_at(data, at + 1), byte_at(data, at + 2), byte_at(data, at + 3)
        if a == 110 and b == 117 and c == 108 and d == 108:
            return at + 4
        if a == 116 and b == 114 and c == 117 and d == 101:
            return at + 4
        if at + 5 <= end and a == 102 and b == 97 and c == 108 and d == 115 and byte_at(data, at + 4) == 101:
            return at + 5
    return np.int64(-1)


@inlined
def _behind_spaces(data: Any, at: Any, end: Any) -> Any:
    while at < end and byte_at(data, at) == _SPACE:
        at += 1
    return at


@inlined
def _is_name(data: Any, at: Any, size: Any, names: Any, name_ends: Any, field: Any) -> Any:
    begin = name_ends[field]
    if name_ends[field + 1] - begin != size:
        return False
    same = 0
    while same + 4 <= size:
        if load_u32(data, at + same) != load_u32(names, begin + same):
            return False
        same += 4
    while same < size and byte_at(data, at + same) == byte_at(names, begin + same):
        same += 1
    return same == size


@inlined
def _field_named(data: Any, at: Any, size: Any, names: Any, name_ends: Any, likely: Any) -> Any:
    """The number of the field, or -1."""
    if likely < len(name_ends) - 1 and _is_name(data, at, size, names, name_ends, likely):
        return likely
    for field in range(len(name_ends) - 1):
        if _is_name(data, at, size, names, name_ends, field):
            return field
    return -1


@inlined
def _value(
    data: Any, at: Any, end: Any, field: Any, row: Any,
    kinds: Any, least: Any, most: Any, starts: Any, ends: Any, sizes: Any, wholes: Any, doubles: Any,
) -> Any:  # fmt: skip
    """Behind the value that begins at `at`, or -1: it is not taken; whether it has bytes beyond ASCII. field: that it is
    of, which is filled in; -1: of none."""
    if at >= end:
        return np.int64(-1), 0
    byte = byte_at(data, at)
    kind = kinds[field] if field >= 0 else -1
    if byte == _QUOTE:
        close, escapes, wide = _text(data, at + 1, end)
        if close < 0 or kind not in (-1, TEXT):
            return np.int64(-1), 0
        if field >= 0:
            starts[field, row], ends[field, row] = at + 1, close
            sizes[field, row] = close - at - 1 - escapes
        return close + 1, wide
    if byte == _MINUS or _ZERO <= byte <= _NINE:
        behind, mantissa, power, is_negative, is_whole = _number(data, at, end)
        if behind < 0 or kind in (TEXT, BOOLEAN):
            return np.int64(-1), 0
        if kind == WHOLE:
            whole = -mantissa if is_negative else mantissa
            if not is_whole or not least[field] <= whole <= most[field]:
                return np.int64(-1), 0
            wholes[field, row] = whole
        elif not -len(_POWERS) < power < len(_POWERS):
            return np.int64(-1), 0  # Arrow refuses what no double can hold in fields, too, that nobody wants.
        elif kind == DOUBLE:
            if mantissa >= _EXACT:
                return np.int64(-1), 0
            double = mantissa * _POWERS[power] if power >= 0 else mantissa / _POWERS[-power]
            doubles[field, row] = -double if is_negative else double
        if field >= 0:
            starts[field, row] = at
        return behind, 0
    behind = _word_end(data, at, end)
    if behind < 0:
        return np.int64(-1), 0
    if field >= 0:
        if byte == 110:
            starts[field, row] = _NULL
        elif kind == BOOLEAN:
            starts[field, row], wholes[field, row] = at, 1 if byte == 116 else 0
        else:
            return np.int64(-1), 0
    return behind, 0


@inlined
def _object(
    data: Any, at: Any, end: Any, row: Any, names: Any, name_ends: Any,
    kinds: Any, least: Any, most: Any, starts: Any, ends: Any, sizes: Any, wholes: Any, doubles: Any,
) -> Any:  # fmt: skip
    """What is said of the row whose value is data[at:end]."""
    said, likely = TAKEN, 0
    at = _behind_spaces(data, at + 1, end)
    if at + 1 == end and byte_at(data, at) == _CLOSE:
        return said
    while at < end and byte_at(data, at) == _QUOTE:
        close, escapes, wide = _text(data, at + 1, end)
        if close < 0 or escapes > 0:
            return LEFT
        field = _field_named(data, at + 1, close - at - 1, names, name_ends, likely)
        if field >= 0:
            if starts[field, row] != _UNSET:
                return LEFT
            likely = field + 1
        at = _behind_spaces(data, close + 1, end)
        if at >= end or byte_at(data, at) != _COLON:
            return LEFT
        at = _behind_spaces(data, at + 1, end)
        at, is_wide = _value(
            data, at, end, field, row, kinds, least, most, starts, ends, sizes, wholes, doubles
        )
        if at < 0:
            return LEFT
        if wide or is_wide:
            said = TAKEN | HAS_WIDE
        at = _behind_spaces(data, at, end)
        if at + 1 == end and byte_at(data, at) == _CLOSE:
            return said
        if at >= end or byte_at(data, at) != _COMMA:
            return LEFT
        at = _behind_spaces(data, at + 1, end)
    return LEFT


_CELLS = types.int64[:, ::1]


@compiled(
    types.void(
        LONGS_IN, LONGS_IN, BYTES_IN, BYTES_IN, BYTES_IN, LONGS_IN, LONGS_IN, LONGS_IN, LONGS_IN,
        _CELLS, _CELLS, _CELLS, _CELLS, types.float64[:, ::1], types.uint8[::1],
    )
)  # fmt: skip
def flat_objects(
    value_starts: Any, value_ends: Any, data: Any, valid: Any,
    names: Any, name_ends: Any, kinds: Any, least: Any, most: Any,
    starts: Any, ends: Any, sizes: Any, wholes: Any, doubles: Any, said: Any,
) -> None:  # fmt: skip
    """Find the fields of each row's value.

    value_starts, value_ends, data, valid: see `BytesSpans`. names, name_ends: of the fields, in UTF-8, as a BytesColumn.
    kinds: of each. least, most: of each that is WHOLE. By field and row: starts, ends: where a text lies in `data`, without
    its quotes; starts: below 0 if the field is null or not there. sizes: bytes of a text without its escapes, zeroed. wholes,
    doubles: numbers, and booleans as 0 and 1. said: of each row, LEFT (nothing else of it means anything), TAKEN, or
    that with HAS_WIDE.
    """
    for row in range(len(said)):
        at, end = value_starts[row], value_ends[row]
        for field in range(len(kinds)):
            starts[field, row] = _UNSET
        said[row] = LEFT
        is_null = len(valid) and valid[row] == 0
        if not is_null and 2 <= end - at <= MOST_BYTES and byte_at(data, at) == _OPEN:
            said[row] = _object(
                data, at, end, row, names, name_ends, kinds, least, most, starts, ends, sizes, wholes, doubles
            )


@inlined
def _unescaped(byte: Any) -> Any:
    if byte == _SMALL_N:
        return np.uint8(10)
    if byte == _SMALL_T:
        return np.uint8(9)
    if byte == _SMALL_R:
        return np.uint8(13)
    if byte == _SMALL_B:
        return np.uint8(8)
    return np.uint8(12) if byte == _SMALL_F else byte


@compiled(types.void(BYTES_IN, LONGS_IN, LONGS_IN, types.int32[::1], types.uint8[::1]))
def copy_texts(data: Any, starts: Any, ends: Any, out_ends: Any, out: Any) -> None:
    """data[starts[r]:ends[r]], without its escapes, to out[out_ends[r]:out_ends[r + 1]]; nothing where that is empty."""
    for row in range(len(starts)):
        filled = np.int64(out_ends[row])
        size = np.int64(out_ends[row + 1]) - filled
        at = starts[row]
        if size == ends[row] - at:
            copy(out, filled, data, at, size)
        elif size > 0:
            while at < ends[row]:
                byte = byte_at(data, at)
                if byte == _BACKSLASH:
                    at += 1
                    byte = _unescaped(byte_at(data, at))
                out[filled] = byte
                filled += 1
                at += 1
