"""Fields of JSON values as columns beside them, parsed in the task's Python as far as that and Spark's `from_json` are
certain to say the same.

Objects of the plainest kind are taken apart by a compiled loop (`flat_json`), Arrow parses the rest. What is not certain
is left to Spark: values that are no plain objects (`compiled_json`), and each piece of a batch of which Arrow says that
something in it is wrong for the schema. So a result is never another, wherever batches begin and end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType

from kcontrol.adapters.spark.values.json_types import IS_NULL, PLACES, UNPARSED, json_fields, left_column
from kcontrol.wire.batches.columns import Bytes, BytesSpans, Flags, bytes_column
from kcontrol.wire.batches.flat_json import FlatObjects, is_utf8
from kcontrol.wire.batches.plain_json import PlainObjects, plain_objects

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
        self._flat = FlatObjects(schema.fieldNames(), kinds)
        self._parsing = arrow_json.ParseOptions(explicit_schema=named, unexpected_field_behavior="ignore")

    def beside(self, schema: pa.Schema) -> pa.Schema:
        """A schema and, at its end, our columns."""
        added = [pa.field(UNPARSED, pa.binary()), pa.field(IS_NULL, pa.bool_())]
        places = [pa.field(left_column(each.name), each.type) for each in schema if each.name in PLACES]
        return pa.schema([*schema, *added, *places, *self._fields])

    def added(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch and, at its end, what is in its column `value`."""
        values = batch.column("value")
        return self.added_of(batch, bytes_column(values, "value").spans, batch.column)

    def added_of(
        self, batch: pa.RecordBatch, spans: BytesSpans, column: Callable[[str], pa.Array]
    ) -> pa.RecordBatch:
        """The same of values that lie elsewhere, of a batch whose columns but `wrong` may be null. column: makes one as it is:
        `value` if not all values are flat objects, one of PLACES if a record may be bad."""

        def values() -> pa.Array:
            return column("value")

        fields, is_parsed = self._parsed_fields(spans, values)
        if is_parsed.all():
            unparsed = pa.nulls(batch.num_rows, batch.schema.field("value").type)
        else:
            left = values()
            unparsed = pc.if_else(pa.array(is_parsed), pa.scalar(None, left.type), left)
        places = _places(batch, is_parsed, column)
        added = [*batch.columns, unparsed, pa.array(spans.is_null), *places, *fields]
        return pa.RecordBatch.from_arrays(added, schema=self.beside(batch.schema))

    def _parsed_fields(
        self, spans: BytesSpans, values: Callable[[], pa.Array]
    ) -> tuple[Sequence[pa.Array], Flags]:
        """The fields of each value, null where it is not parsed, and where it is."""
        flat = self._flat.fields(spans)
        if flat is None:
            return self._by_arrow(values())
        columns, is_parsed = flat.columns, flat.taken
        left = np.flatnonzero(~is_parsed)
        if len(left) == 0 or spans.is_null[left].all():
            return columns, is_parsed
        rows = len(spans.starts)
        others, are_parsed = self._by_arrow(values().take(pa.array(left)))
        is_parsed[left] = are_parsed
        merging = np.arange(rows)
        merging[left] = rows + np.arange(len(left))
        places = pa.array(merging)
        merged = [pa.concat_arrays(both).take(places) for both in zip(columns, others, strict=True)]
        return merged, is_parsed

    def _by_arrow(self, values: pa.Array) -> tuple[Sequence[pa.Array], Flags]:
        """The same, by Arrow alone."""
        objects = plain_objects(bytes_column(values, "value"))
        found: list[pa.RecordBatch] = []
        is_parsed = np.zeros(len(values), np.bool_)
        self._parse(objects, 0, len(values), found, is_parsed)
        fields = pa.concat_batches(found) if found else self._none
        if not is_parsed.all():
            fields = fields.take(pa.array(np.cumsum(is_parsed) - 1, mask=~is_parsed))
        return fields.columns, is_parsed

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
        if not is_utf8(lines):
            return None
        reading = arrow_json.ReadOptions(
            use_threads=False, block_size=max(_LEAST_BLOCK_BYTES, len(lines) + 1)
        )
        try:
            fields = arrow_json.read_json(pa.BufferReader(text), reading, self._parsing)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None
        return fields.combine_chunks().to_batches()[0] if fields.num_rows == rows else None


def _places(batch: pa.RecordBatch, is_parsed: Flags, column: Callable[[str], pa.Array]) -> Iterator[pa.Array]:
    """Where the records are that may be bad: those that are not parsed, and lines with which something is wrong."""
    may_be_bad = pa.array(~is_parsed)
    if "wrong" in batch.schema.names:
        may_be_bad = pc.or_(may_be_bad, batch.column("wrong").is_valid())
    is_any = pc.any(may_be_bad).as_py()
    for field in batch.schema:
        if field.name in PLACES:
            none = pa.scalar(None, field.type)
            yield (
                pc.if_else(may_be_bad, column(field.name), none)
                if is_any
                else pa.nulls(batch.num_rows, field.type)
            )
