"""Rows out of a Parquet file, as JSON.

Texts and bytes stay in their dictionaries until a row is written, so a text of a megabyte that a million rows have is there
once. A batch is made into columns of JSON; if something is wrong with it, then row by row, to name the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kcontrol.requests.push import forms
from kcontrol.requests.push.forms import NoJsonError
from kcontrol.requests.push.limits import Rules
from kcontrol.requests.push.parquet_columns import Column, ColumnTexts, cells_of
from kcontrol.requests.push.parquet_pages import BYTE_ARRAY, MAX_STRUCTS, Leaf, check_pages

MAX_BATCH_ROWS = 8_192
MAX_BATCH_CELLS = 262_144
"""Values that are made into JSON at once."""


def parquet_rows(body: bytes, rules: Rules) -> Iterator[str]:
    """Each row, as JSON. Raises ConfigurationError."""
    rows, leaves = check_pages(body, rules)
    found = 0
    try:
        file = _opened(body, leaves)
        names, columns = _columns(file, rules)
        size = max(1, min(MAX_BATCH_ROWS, MAX_BATCH_CELLS // len(leaves)))
        # Of one group at a time: a batch of two would have two dictionaries, which Arrow can't do within lists.
        for group in range(file.num_row_groups):
            for batch in file.iter_batches(size, [group], use_threads=False):
                for piece in _pieces(batch):
                    yield from _rows(piece, found, names, columns, rules)
                    found += piece.num_rows
    except (pa.ArrowException, OSError, ValueError) as error:
        why = str(error)[:200] or type(error).__name__
        raise rules.refused(f"the Parquet file is damaged: behind row {found} {why}") from error
    if found != rows:
        raise rules.refused(f"the Parquet file is damaged: it has {found} rows, and says that it has {rows}")


def _opened(body: bytes, leaves: Sequence[Leaf]) -> Any:
    return pq.ParquetFile(
        pa.BufferReader(body),
        read_dictionary=[leaf.path for leaf in leaves if leaf.physical == BYTE_ARRAY],
        pre_buffer=False,
        coerce_int96_timestamp_unit="us",
        thrift_string_size_limit=len(body),
        thrift_container_size_limit=MAX_STRUCTS,
        page_checksum_verification=True,
    )


def _columns(file: Any, rules: Rules) -> tuple[list[str], list[Column]]:
    schema, kinds = file.schema_arrow, {} if rules.kind is None else rules.kind.fields
    names = list(schema.names)
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise rules.refused(f"the Parquet file has the column {twice[0][: forms.MAX_SHOWN]!r} twice")
    made = ColumnTexts(file.schema, rules.limits.row_bytes)
    try:
        columns = [made.named(field, kinds.get(field.name), 1) for field in schema]
    except NoJsonError as error:
        raise rules.refused(f"of the Parquet file, {error}") from error
    return list(map(forms.text, names)), columns


def _pieces(batch: Any) -> Iterator[Any]:
    """Of few enough values each, or of one row."""
    if batch.num_rows > 1 and sum(map(cells_of, batch.columns)) > MAX_BATCH_CELLS:
        half = batch.num_rows // 2
        yield from _pieces(batch.slice(0, half))
        yield from _pieces(batch.slice(half))
    else:
        yield batch


def _rows(
    piece: Any, before: int, names: Sequence[str], columns: Sequence[Column], rules: Rules
) -> Iterator[str]:
    try:
        made = _made(piece, columns, rules.limits.row_bytes)
    except NoJsonError as error:
        if piece.num_rows == 1:
            raise rules.refused(f"row {before + 1} {error}") from error
        for at in range(piece.num_rows):
            yield from _rows(piece.slice(at, 1), before + at, names, columns, rules)
        return
    for number, values in enumerate(zip(*made, strict=True), before + 1):
        try:
            yield forms.object_of(names, values, rules.limits.row_bytes)
        except NoJsonError as error:
            raise rules.refused(f"row {number} {error}") from error


def _made(piece: Any, columns: Sequence[Column], row_bytes: int) -> list[list[str]]:
    """By column: of each row, its JSON."""
    cells = sum(map(cells_of, piece.columns))
    if piece.num_rows == 1 and cells - len(columns) > row_bytes // 2:
        raise NoJsonError(f"has {cells} values, for which a row has no room")
    return [column(array) for column, array in zip(columns, piece.columns, strict=True)]
