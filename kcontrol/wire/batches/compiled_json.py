"""Which values are JSON objects of so plain a kind that any two parsers say the same of them, compiled; and these, a line each.

What a parser makes of the rest (whitespace other than spaces, lone surrogates, a negative zero, numbers and text of
any length, deep nesting) differs from parser to parser. Whether a plain value is JSON is only known when it has been
parsed; here it is made certain that it begins and ends where its line does. No array is made, so that none is counted (`jit`).
"""

from __future__ import annotations

from typing import Any

from numba import types

from kcontrol.wire.batches.jit import BYTES_IN, LONGS_IN, compiled, inlined

_SPACE, _NEWLINE, _QUOTE, _BACKSLASH = 32, 10, 34, 92
_OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_ARRAY, _CLOSE_ARRAY = 123, 125, 91, 93
_MINUS, _POINT, _ZERO, _NINE = 45, 46, 48, 57
_SMALL_U, _SMALL_D, _LARGE_D = 117, 100, 68
MOST_BYTES = 1 << 20
MOST_TEXT_BYTES = 10_000
MOST_DEPTH = 200
MOST_DIGITS = 300


@inlined
def _copied(data: Any, at: Any, end: Any, out: Any, filled: Any) -> Any:
    """Where `out` ends with the object data[at:end] behind `filled`; -1: it is not plain."""
    depth = 0
    digits = 0
    text = -1  # bytes of the text that we are in; -1 outside
    while at < end:
        byte = data[at]
        out[filled] = byte
        filled += 1
        at += 1
        if byte < _SPACE:
            return -1
        if text >= 0:
            text += 1
            if byte == _QUOTE:
                text = -1
            elif text > MOST_TEXT_BYTES:
                return -1
            elif byte == _BACKSLASH and at < end:
                byte = data[at]
                out[filled] = byte
                filled += 1
                at += 1
                # \ud...: half of a character.
                half = byte == _SMALL_U and at < end and (data[at] == _SMALL_D or data[at] == _LARGE_D)
                if byte < _SPACE or half:
                    return -1
        elif _ZERO <= byte <= _NINE:
            digits += 1
            if digits > MOST_DIGITS:
                return -1
        elif byte != _POINT:
            digits = 0
            if byte == _QUOTE:
                text = 0
            elif byte in (_OPEN_OBJECT, _OPEN_ARRAY):
                depth += 1
                if depth > MOST_DEPTH:
                    return -1
            elif byte in (_CLOSE_OBJECT, _CLOSE_ARRAY):
                depth -= 1
                if depth == 0:
                    return filled if at == end and byte == _CLOSE_OBJECT else -1
            elif (
                byte == _MINUS
                and at < end
                and data[at] == _ZERO
                and (at + 1 == end or data[at + 1] != _POINT)
            ):
                return -1  # As a whole number it has no sign in Java; -0.5 has.
    return -1


@compiled(types.int64(LONGS_IN, BYTES_IN, BYTES_IN, types.uint8[::1], types.int64[::1], types.uint8[::1]))
def plain_objects(ends: Any, data: Any, valid: Any, out: Any, line_ends: Any, plain: Any) -> int:
    """How many bytes of `out` are filled: with the plain values, each with a newline behind it.

    ends, data, valid: see `BytesColumn`. out: has room for all values and a newline each. line_ends: of each row, where
    `out` ends with it. plain: 1 for each row whose value is in `out`, else 0.
    """
    filled = 0
    for row in range(len(plain)):
        at, end = ends[row], ends[row + 1]
        is_null = len(valid) and valid[row] == 0
        copied = -1
        if not is_null and 2 <= end - at <= MOST_BYTES and data[at] == _OPEN_OBJECT:
            copied = _copied(data, at, end, out, filled)
        if copied >= 0:
            out[copied] = _NEWLINE
            filled = copied + 1
        line_ends[row] = filled
        plain[row] = 1 if copied >= 0 else 0
    return filled
