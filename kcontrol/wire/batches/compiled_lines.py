"""Where lines begin and end, compiled."""

from __future__ import annotations

from typing import Any

from numba import types

from kcontrol.wire.batches.intrinsics import byte_at, find
from kcontrol.wire.batches.jit import BYTES_IN, compiled

_NEWLINE, _RETURN = 10, 13
FULL = -1
"""What `lines` says where it has no room for all of them."""


@compiled(types.int64(BYTES_IN, types.int64[::1], types.int64[::1]))
def lines(data: Any, starts: Any, ends: Any) -> int:
    """How many lines there are in `data`, of which each, the last too, ends with a newline, or FULL. starts, ends: of each,
    without the newline and a return before it."""
    row = 0
    at = 0
    while at < len(data):
        if row == len(starts):
            return FULL
        end = find(data, at, len(data), _NEWLINE)
        starts[row] = at
        ends[row] = end - 1 if end > at and byte_at(data, end - 1) == _RETURN else end
        row += 1
        at = end + 1
    return row
