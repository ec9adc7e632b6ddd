"""Fields of JSON values as columns beside them, parsed by Arrow in the task's Python as far as Arrow and Spark's `from_json`
are certain to say the same.

What is not certain is left to Spark: values that are no plain objects (`compiled_json`), and each piece of a batch of which
Arrow says that something in it is wrong for the schema. So a result is never another, wherever batches begin and end.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType

from kcontrol.adapters.spark.values.json_types import IS_NULL, UNPARSED, json_fields
from kcontrol.wire.batches.columns import Bytes, bytes_column
from kcontrol.wire.batches.plain_json import PlainObjects, plain_objects

Flags = npt.NDArray[np.bool_]

SMALL_PIECE_ROWS = 256
"""A piece that Arrow can't parse is halved down to this, so that a few odd values don't leave all the others to Spark."""
_LEAST_BLOCK_BYTES = 1 << 16
"""The least that Arrow's reader may have at once."""


class JsonColumns:
    """The columns that stand beside the values of one schema; its types are sure (`json_types.is_sure`)."""

    def __init__(self, schema: StructType) -> None:
        fields = json_fields(schema)
        kinds = [to_arrow_type(field.dataType, timezone="UTC") for field in fields]
        self._fields = [pa.field(field.name, kind) for field, kind in zip(fields, kinds, strict=True)]
        named = pa.schema(list(zip(schema.fieldNames(), kinds, strict=True)))
        self._none = pa.RecordBatch.from_pylist([], named)
        self._parsing = arrow_json.ParseOptions(explicit_schema=named, unexpected_field_behavior="ignore")

    def beside(self, schema: pa.Schema) -> pa.Schema:
        """A schema and, at its end, our columns."""
        return pa.schema(
            [*schema, pa.field(UNPARSED, pa.binary()), pa.field(IS_NULL, pa.bool_()), *self._fields]
        )

    def added(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch and, at its end, what is in its column `value`."""
        values = batch.column("value")
        objects = plain_objects(bytes_column(values, "value"))
        found: list[pa.RecordBatch] = []
        is_parsed = np.zeros(batch.num_rows, np.bool_)
        self._parse(objects, 0, batch.num_rows, found, is_parsed)
        fields = pa.concat_batches(found) if found else self._none
        if is_parsed.all():
            unparsed = pa.nulls(batch.num_rows, values.type)
        else:
            fields = fields.take(pa.array(np.cumsum(is_parsed) - 1, mask=~is_parsed))
            unparsed = pc.if_else(pa.array(is_parsed), pa.scalar(None, values.type), values)
        added = [*batch.columns, unparsed, values.is_null(), *fields.columns]
        return pa.RecordBatch.from_arrays(added, schema=self.beside(batch.schema))

    def _parse(
        self, objects: PlainObjects, from_: int, to: int, found: list[pa.RecordBatch], is_parsed: Flags
    ) -> None:
        """Appends the fields of the plain objects of the rows [from_, to), and says which these are. What can't be parsed as a
        whole is parsed by halves."""
        plain = objects.plain[from_:to].view(np.bool_)
        rows = int(plain.sum())
        if rows == 0:
            return
        begin = int(objects.line_ends[from_ - 1]) if from_ else 0
        fields = self._parsed(objects.text[begin : int(objects.line_ends[to - 1])], rows)
        if fields is not None:
            found.append(fields)
            is_parsed[from_:to] = plain
        elif to - from_ > SMALL_PIECE_ROWS:
            half = (from_ + to) // 2
            self._parse(objects, from_, half, found, is_parsed)
            self._parse(objects, half, to, found, is_parsed)

    def _parsed(self, lines: Bytes, rows: int) -> pa.RecordBatch | None:
        """None: one of them is no object of the schema, or can't be told to be one."""
        text = pa.py_buffer(lines)
        if not _is_utf8(text):
            return None
        reading = arrow_json.ReadOptions(
            use_threads=False, block_size=max(_LEAST_BLOCK_BYTES, len(lines) + 1)
        )
        try:
            fields = arrow_json.read_json(pa.BufferReader(text), reading, self._parsing)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None
        return fields.combine_chunks().to_batches()[0] if fields.num_rows == rows else None


def _is_utf8(text: pa.Buffer) -> bool:
    ends = pa.py_buffer(np.array([0, text.size], np.int64))
    try:
        pa.Array.from_buffers(pa.large_binary(), 1, [None, ends, text]).cast(pa.large_string())
    except pa.ArrowInvalid:
        return False
    return True
