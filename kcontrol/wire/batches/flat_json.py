"""Values that are flat JSON objects as columns, by the compiled loop where there is one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from kcontrol.wire.batches.codec import default_codec
from kcontrol.wire.batches.columns import Bytes, BytesSpans, Flags, Ints, Longs, bytes_column


class FlatFields(NamedTuple):
    """columns: the fields of all rows, null in each row that is not in `taken`."""

    columns: Sequence[pa.Array]
    taken: Flags


class FlatObjects:
    """Parses values by one schema. None comes of `fields` where one is neither text, boolean, double nor a whole number
    of 16 to 64 bits, or nothing is compiled."""

    def __init__(self, names: Sequence[str], kinds: Sequence[pa.DataType]) -> None:
        self._kinds = tuple(kinds)
        self._names = bytes_column(pa.array(names, pa.string()), "names")
        self._is_known = default_codec().name == "compiled" and all(map(_is_flat, kinds))
        self._codes: Longs = np.array([_code(kind) for kind in kinds] if self._is_known else [], np.int64)
        whole = [np.iinfo(kind.to_pandas_dtype()) if pat.is_integer(kind) else None for kind in kinds]
        self._least: Longs = np.array([0 if each is None else each.min for each in whole], np.int64)
        self._most: Longs = np.array([0 if each is None else each.max for each in whole], np.int64)

    def fields(self, values: BytesSpans) -> FlatFields | None:
        """Those of the objects of which all parsers say the same (`compiled_flat`); None: see the class."""
        if not self._is_known:
            return None
        from kcontrol.wire.batches import compiled_flat

        fields, rows = len(self._kinds), len(values.ends)
        starts, ends = np.empty((2, fields, rows), np.int64)
        sizes, wholes = np.zeros((2, fields, rows), np.int64)
        doubles, said = np.zeros((fields, rows), np.float64), np.zeros(rows, np.uint8)
        schema = (self._names.data, self._names.ends, self._codes, self._least, self._most)
        compiled_flat.flat_objects(*values, *schema, starts, ends, sizes, wholes, doubles, said)
        taken: Flags = said != compiled_flat.LEFT
        is_wide: Flags = (said & compiled_flat.HAS_WIDE) != 0
        if is_wide.any() and not is_utf8(values.data[values.starts[0] : values.ends[-1]]):
            taken &= ~is_wide
        columns = []
        for field, kind in enumerate(self._kinds):
            is_there: Flags = (starts[field] >= 0) & taken
            if pat.is_string(kind):
                column = _texts(values.data, starts[field], ends[field], sizes[field], is_there)
            elif pat.is_boolean(kind):
                column = pa.array(wholes[field].astype(np.bool_), mask=~is_there)
            elif pat.is_floating(kind):
                column = pa.array(doubles[field], mask=~is_there)
            else:
                column = pa.array(wholes[field].astype(kind.to_pandas_dtype()), mask=~is_there)
            columns.append(column)
        return FlatFields(columns, taken)


def is_utf8(text: Bytes) -> bool:
    """Whether all of it is."""
    size = pa.py_buffer(np.array([0, len(text)], np.int64))
    try:
        pa.Array.from_buffers(pa.large_binary(), 1, [None, size, pa.py_buffer(text)]).cast(pa.large_string())
    except pa.ArrowInvalid:
        return False
    return True


def warm() -> None:
    """Compile the loops, or load them."""
    FlatObjects(["a"], [pa.string()]).fields(bytes_column(pa.array([b"{}"]), "value").spans)


def _texts(data: Bytes, starts: Longs, ends: Longs, sizes: Longs, is_there: Flags) -> pa.Array:
    from kcontrol.wire.batches import compiled_flat

    kept = np.where(is_there, sizes, 0)
    out_ends: Ints = np.zeros(len(starts) + 1, np.int32)
    np.cumsum(kept, dtype=np.int32, out=out_ends[1:])
    out = np.empty(int(out_ends[-1]), np.uint8)
    compiled_flat.copy_texts(data, starts, ends, out_ends, out)
    bits = None if is_there.all() else pa.py_buffer(np.packbits(is_there, bitorder="little"))
    return pa.StringArray.from_buffers(len(starts), pa.py_buffer(out_ends), pa.py_buffer(out), bits)


def _is_flat(kind: pa.DataType) -> bool:
    return any(
        test(kind)
        for test in (pat.is_string, pat.is_boolean, pat.is_int16, pat.is_int32, pat.is_int64, pat.is_float64)
    )


def _code(kind: pa.DataType) -> int:
    from kcontrol.wire.batches import compiled_flat

    if pat.is_string(kind):
        return compiled_flat.TEXT
    if pat.is_boolean(kind):
        return compiled_flat.BOOLEAN
    return compiled_flat.DOUBLE if pat.is_floating(kind) else compiled_flat.WHOLE
