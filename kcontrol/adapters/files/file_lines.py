"""Lines of one file where they lie in what was read of it, and the rows that are made of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kcontrol.wire.batches.columns import BytesSpans, Longs
from kcontrol.wire.batches.lines import column_of_lines


def lines_schema() -> pa.Schema:
    """A line without its end, its file, and where its first byte is; `wrong` says why it can't be a record, null if it can."""
    return pa.schema(
        [
            pa.field("value", pa.binary()),
            pa.field("file", pa.string()),
            pa.field("partition", pa.int32()),
            pa.field("offset", pa.int64()),
            pa.field("wrong", pa.string()),
        ]
    )


@dataclass(frozen=True)
class FileLines:
    """places: of each line the offset of its first byte. spans: what is in it. wrong: by row, why a line can't be a record."""

    path: str
    places: Longs
    spans: BytesSpans
    wrong: Mapping[int, str]

    @cached_property
    def _values(self) -> pa.Array:
        return column_of_lines(self.spans.data, self.spans.starts, self.spans.ends)

    def rows(self, columns: Collection[str] | None = None) -> pa.RecordBatch:
        """By `lines_schema`. columns: those that somebody looks at, None for all; the others are null."""
        schema = lines_schema()
        made = [
            self.column(field.name)
            if columns is None or field.name in columns
            else pa.nulls(len(self.places), field.type)
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(made, schema=schema)

    def column(self, name: str) -> pa.Array:
        """One of `lines_schema`."""
        rows = len(self.places)
        match name:
            case "value":
                return self._values
            case "file":
                return pa.repeat(pa.scalar(self.path, pa.string()), rows)
            case "partition":
                return pa.array(np.zeros(rows, np.int32))
            case "offset":
                return pa.array(self.places)
            case _:
                return self._said()

    def _said(self) -> pa.Array:
        none = pa.nulls(len(self.places), pa.string())
        if not self.wrong:
            return none
        is_wrong = np.zeros(len(self.places), np.bool_)
        is_wrong[list(self.wrong)] = True
        return pc.replace_with_mask(
            none, pa.array(is_wrong), pa.array(list(self.wrong.values()), pa.string())
        )
