"""The plain JSON objects among values, by the compiled loop where there is one; without it none is plain."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kcontrol.wire.batches.codec import default_codec
from kcontrol.wire.batches.columns import Bytes, BytesColumn, Longs


class PlainObjects(NamedTuple):
    """text: plain values, each with a newline behind it. line_ends: of each row of the column, where the text ends with it.
    plain: 1 for each row whose value is in the text, else 0."""

    text: Bytes
    line_ends: Longs
    plain: Bytes


def warm() -> None:
    """Compile the loop, or load it."""
    plain_objects(BytesColumn(np.zeros(1, np.int64), np.zeros(0, np.uint8), np.zeros(0, np.uint8)))


def plain_objects(values: BytesColumn) -> PlainObjects:
    """Those that end where they first close, have no whitespace but spaces, and nothing of what parsers see differently
    (`compiled_json`). Whether they are JSON is not known yet."""
    rows = len(values.ends) - 1
    line_ends, plain = np.zeros(rows, np.int64), np.zeros(rows, np.uint8)
    if default_codec().name != "compiled":
        return PlainObjects(np.zeros(0, np.uint8), line_ends, plain)
    from kcontrol.wire.batches import compiled_json

    text = np.empty(int(values.ends[-1] - values.ends[0]) + rows, np.uint8)
    filled = compiled_json.plain_objects(values.ends, values.data, values.valid, text, line_ends, plain)
    return PlainObjects(text[:filled], line_ends, plain)
