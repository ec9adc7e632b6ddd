"""Many lines of a file at once, as a column, and their digest, by the compiled loops where there are any."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kcontrol.wire.batches.codec import default_codec
from kcontrol.wire.batches.columns import Bytes, Ints, Longs, as_bytes
from kcontrol.wire.digest import EMPTY, Digest, DigestKind, line_digest

_NEWLINE, _RETURN = 10, 13
_USUAL_BYTES = 32
"""Of a line, at least: there is room for so many of them before they are counted."""


def lines_in(data: Bytes) -> tuple[Longs, Longs]:
    """Of each line where it begins, and where it ends, without its end. `data` ends with a newline."""
    if default_codec().name == "compiled":
        from kcontrol.wire.batches import compiled_lines

        starts, ends = np.empty((2, len(data) // _USUAL_BYTES + 1), np.int64)
        found = compiled_lines.lines(data, starts, ends)
        if found != compiled_lines.FULL:
            return starts[:found], ends[:found]
    newlines = np.flatnonzero(data == _NEWLINE)
    starts = np.concatenate((np.zeros(1, np.int64), newlines[:-1] + 1))
    return starts, newlines - ((newlines > starts) & (data[newlines - 1] == _RETURN))


def digest_of_lines(data: Bytes, starts: Longs, ends: Longs, base: int) -> Digest:
    """Of data[starts[r]:ends[r]]. base: the offset of data[0]. The sum of `line_digest` of each."""
    if default_codec().name != "compiled":
        lines = zip(starts.tolist(), ends.tolist(), strict=True)
        return sum((line_digest(base + start, data[start:end].tobytes()) for start, end in lines), EMPTY)
    from kcontrol.wire.batches import compiled

    words = np.zeros(2, np.uint64)
    compiled.digest_lines(data, starts, ends, base, np.uint64(DigestKind.LINE), words)
    return Digest(len(starts), int(words[1]) << 64 | int(words[0]))


def column_of_lines(data: Bytes, starts: Longs, ends: Longs) -> pa.Array:
    """data[starts[r]:ends[r]] as a column; starts and ends grow."""
    offsets: Ints = np.zeros(len(starts) + 1, np.int32)
    np.cumsum(ends - starts, dtype=np.int32, out=offsets[1:])
    if default_codec().name == "compiled":
        from kcontrol.wire.batches import compiled_flat

        kept = np.empty(int(offsets[-1]), np.uint8)
        compiled_flat.copy_texts(data, starts, ends, offsets, kept)
    else:
        steps = np.zeros(len(data) + 1, np.int8)
        steps[starts] += 1
        steps[ends] -= 1
        kept = data[np.cumsum(steps[:-1], dtype=np.int8).view(np.bool_)]
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(kept)]
    return pa.BinaryArray.from_buffers(pa.binary(), len(starts), buffers)


def warm() -> None:
    """Compile the loops, or load them."""
    column_of_lines(as_bytes(b"\n"), *lines_in(as_bytes(b"\n")))
