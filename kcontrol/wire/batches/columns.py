"""Arrow columns of records as plain numpy arrays, which is what the compiled loops take,
whatever the column's exact type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from kcontrol.errors import ConfigurationError

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

HEADERS_TYPE = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
"""Spark's type of Kafka headers."""

NO_BYTES: Bytes = np.empty(0, np.uint8)
_NO_LONGS: Longs = np.empty(0, np.int64)


class BytesSpans(NamedTuple):
    """Row r is `data[starts[r]:ends[r]]`, null where `valid[r]` is 0; `valid` is empty when there are no nulls. Rows lie in
    their order, and there may be something between them."""

    starts: Longs
    ends: Longs
    data: Bytes
    valid: Bytes

    @property
    def is_null(self) -> Flags:
        found: Flags = self.valid == 0 if len(self.valid) else np.zeros(len(self.starts), np.bool_)
        return found


class BytesColumn(NamedTuple):
    """Row r is `data[ends[r]:ends[r + 1]]`, null where `valid[r]` is 0; `valid` is empty when there are no
    nulls."""

    ends: Longs
    data: Bytes
    valid: Bytes

    @property
    def spans(self) -> BytesSpans:
        return BytesSpans(self.ends[:-1], self.ends[1:], self.data, self.valid)


class HeadersColumn(NamedTuple):
    """Row r has the headers `lists[r]` to `lists[r + 1]`; `lists` is empty when no row has any."""

    lists: Longs
    names: BytesColumn
    contents: BytesColumn


NO_HEADERS = HeadersColumn(
    _NO_LONGS, BytesColumn(_NO_LONGS, NO_BYTES, NO_BYTES), BytesColumn(_NO_LONGS, NO_BYTES, NO_BYTES)
)


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """The columns of records that are to be written."""

    rows: int
    keys: BytesColumn
    values: BytesColumn
    headers: HeadersColumn


def record_columns(batch: pa.RecordBatch) -> RecordColumns:
    """Columns `value` and, if there, `key` and `headers` (list<struct<key, value>>) of a batch; others are
    ignored.

    Raises ConfigurationError: a column has a type that is not bytes or text, or a header without a name.
    """
    names = batch.schema.names
    keys = batch.column("key") if "key" in names else pa.nulls(batch.num_rows, pa.binary())
    headers = headers_column(batch.column("headers")) if "headers" in names else NO_HEADERS
    return RecordColumns(
        batch.num_rows, bytes_column(keys, "key"), bytes_column(batch.column("value"), "value"), headers
    )


def bytes_column(array: pa.Array, name: str) -> BytesColumn:
    """The bytes of a binary or text array. Raises ConfigurationError naming the column."""
    kind = array.type
    if pat.is_null(kind):
        array = pa.nulls(len(array), pa.binary())
    elif not _is_bytes(kind):
        raise ConfigurationError(f"column {name!r} has type {kind}; a Kafka record holds binary or string")
    elif not (
        pat.is_binary(kind) or pat.is_string(kind) or pat.is_large_binary(kind) or pat.is_large_string(kind)
    ):
        array = array.cast(pa.large_binary())
    wide = pat.is_large_binary(array.type) or pat.is_large_string(array.type)
    _, ends, data = array.buffers()
    size = len(array) + 1
    if ends is None or ends.size == 0:
        whole: Any = np.zeros(size, np.int64)
    else:
        kind_of_ends = np.int64 if wide else np.int32
        whole = np.frombuffer(ends, kind_of_ends, size, array.offset * np.dtype(kind_of_ends).itemsize)
    return BytesColumn(whole.astype(np.int64, copy=False), as_bytes(data), _valid(array))


def headers_column(array: pa.Array) -> HeadersColumn:
    """The headers of each row; a null list is none. Raises ConfigurationError: wrong
    type, or a header without a name."""
    if pat.is_null(array.type):
        return NO_HEADERS
    if not _is_headers(array.type):
        raise ConfigurationError(
            f"column 'headers' has type {array.type}; it must be array<struct<key: string, value: binary>>"
        )
    # Rewriting the lists drops what null rows and slices hide in the child array.
    lengths = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    headers = array.flatten()
    if len(headers) == 0:
        return NO_HEADERS
    names, contents = headers.flatten()
    if headers.null_count or names.null_count:
        raise ConfigurationError(
            "column 'headers' holds a null header or a header whose key is null; Kafka needs a key"
        )
    lists = np.zeros(len(array) + 1, np.int64)
    np.cumsum(lengths, out=lists[1:])
    return HeadersColumn(lists, bytes_column(names, "headers.key"), bytes_column(contents, "headers.value"))


def as_bytes(data: pa.Buffer | bytes | memoryview | None) -> Bytes:
    """A read-only view."""
    if data is None or len(data) == 0:
        return NO_BYTES
    return np.frombuffer(data, np.uint8)


def _valid(array: pa.Array) -> Bytes:
    if array.null_count == 0:
        return NO_BYTES
    valid: Bytes = array.is_valid().to_numpy(zero_copy_only=False).view(np.uint8)
    return valid


def _is_bytes(kind: pa.DataType) -> bool:
    tests = (
        pat.is_binary,
        pat.is_string,
        pat.is_large_binary,
        pat.is_large_string,
        pat.is_binary_view,
        pat.is_string_view,
    )
    return pat.is_fixed_size_binary(kind) or any(test(kind) for test in tests)


def _is_headers(kind: pa.DataType) -> bool:
    if not (pat.is_list(kind) or pat.is_large_list(kind)) or not pat.is_struct(kind.value_type):
        return False
    fields = kind.value_type
    return fields.num_fields == 2 and all(_is_bytes(fields.field(index).type) for index in range(2))
