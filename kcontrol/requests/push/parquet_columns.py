"""Columns of Arrow, as Parquet is read, as JSON: of each value its text."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from kcontrol.requests.push import forms
from kcontrol.requests.push.forms import NULL, NoJsonError
from kcontrol.requests.push.kinds import ValueKind

Column = Callable[[Any], list[str]]
"""Of an array, each value as JSON. Raises NoJsonError, not saying of which row."""

_PER_S = {"s": 1, "ms": forms.MILLIS, "us": forms.MICROS, "ns": forms.NANOS}
_DAY_MS = 86_400_000
_TEXTS = ("ENUM", "JSON")
"""Logical types of text that Arrow gives as bytes."""


def cells_of(array: Any) -> int:
    """How many values there are in it, at any depth, where there may be more than rows."""
    kind = array.type
    if _is_list(kind):
        return len(array) + cells_of(array.flatten())
    if pat.is_map(kind):
        return len(array) + sum(map(cells_of, _entries(array)[1:]))
    if pat.is_struct(kind):
        return len(array) + sum(cells_of(array.field(at)) for at in range(kind.num_fields))
    return len(array)


def _entries(array: Any) -> tuple[list[int], Any, Any]:
    """Of a map: where each one's entries begin, and where the last ones end; the keys and the values of all."""
    places = array.offsets.to_pylist()
    begin, end = places[0], places[-1]
    return (
        [at - begin for at in places],
        array.keys.slice(begin, end - begin),
        array.items.slice(begin, end - begin),
    )


def _is_list(kind: Any) -> bool:
    return bool(pat.is_list(kind) or pat.is_large_list(kind) or pat.is_fixed_size_list(kind))


class ColumnTexts:
    """Makes them, in the order of a file's schema."""

    def __init__(self, schema: Any, row_bytes: int) -> None:
        self._leaves: Iterator[Any] = (schema.column(at) for at in range(len(schema)))
        self._row_bytes = row_bytes

    def named(self, field: Any, kind: ValueKind | None, depth: int) -> Column:
        """Of a field. kind: what it must be, if it is known. Raises NoJsonError: it can't be."""
        try:
            column = self._of(field.type, kind, depth)
        except NoJsonError as error:
            raise error.within(field.name) from error

        def named(array: Any) -> list[str]:
            try:
                return column(array)
            except NoJsonError as error:
                raise error.within(field.name) from error

        return named

    def _of(self, of: Any, kind: ValueKind | None, depth: int) -> Column:
        if depth > forms.MAX_DEPTH:
            raise NoJsonError(f"is nested more than {forms.MAX_DEPTH} deep")
        if pat.is_map(of):
            return self._map(of, kind, depth)
        if _is_list(of):
            return self._list(self._of(of.value_type, kind and kind.inner, depth + 1))
        if pat.is_struct(of):
            return self._struct(of, kind, depth)
        leaf = next(self._leaves)
        if pat.is_dictionary(of):
            return _dictionary(_simple(of.value_type, leaf, kind))
        return _simple(of, leaf, kind)

    def _list(self, inner: Column) -> Column:
        most = self._row_bytes

        def column(array: Any) -> list[str]:
            parts, at, found = inner(array.flatten()), 0, []
            for length in pc.list_value_length(array).to_pylist():
                if length is None:
                    found.append(NULL)
                else:
                    found.append(forms.array_of(parts[at : at + length], most))
                    at += length
            return found

        return column

    def _map(self, of: Any, kind: ValueKind | None, depth: int) -> Column:
        if not _is_text(of.key_type):
            raise NoJsonError(f"is a map with keys of {of.key_type}, and JSON has texts only")
        key = self._of(of.key_type, None, depth + 1)
        value = self._of(of.item_type, kind and kind.inner, depth + 1)
        most = self._row_bytes

        def column(array: Any) -> list[str]:
            places, all_keys, all_values = _entries(array)
            keys, values, found = key(all_keys), value(all_values), []
            for is_null, (begin, end) in zip(array.is_null().to_pylist(), pairwise(places), strict=True):
                found.append(NULL if is_null else _object(keys[begin:end], values[begin:end], most))
            return found

        return column

    def _struct(self, of: Any, kind: ValueKind | None, depth: int) -> Column:
        fields = [of.field(at) for at in range(of.num_fields)]
        kinds = {} if kind is None or kind.fields is None else kind.fields
        names = [forms.text(field.name) for field in fields]
        if len(set(names)) < len(names):
            raise NoJsonError("has two fields of one name")
        columns = [self.named(field, kinds.get(field.name), depth + 1) for field in fields]
        most = self._row_bytes

        def column(array: Any) -> list[str]:
            made = [column(part) for column, part in zip(columns, array.flatten(), strict=True)]
            found = []
            for is_null, *values in zip(array.is_null().to_pylist(), *made, strict=True):
                found.append(NULL if is_null else forms.object_of(names, values, most))
            return found

        return column


def _object(keys: Sequence[str], values: Sequence[str], most: int) -> str:
    if len(set(keys)) < len(keys):
        raise NoJsonError("has a key twice")
    if NULL in keys:
        raise NoJsonError("has a key that is null")
    return forms.object_of(keys, values, most)


def _dictionary(inner: Column) -> Column:
    """Batches of one page mostly have the same one: it is made into JSON once."""
    known: list[Any] = [None, []]

    def column(array: Any) -> list[str]:
        if known[0] is None or not _is_same(known[0], array.dictionary):
            known[:] = [array.dictionary, _entries_of(array.dictionary, inner)]
        texts = known[1]
        found = [NULL if index is None else texts[index] for index in array.indices.to_pylist()]
        if None in found:
            raise NoJsonError("has a text that is not UTF-8")
        return found

    return column


def _entries_of(dictionary: Any, inner: Column) -> list[str | None]:
    """None: no text, which is nobody's fault until a row has it."""
    try:
        return list(inner(dictionary))
    except UnicodeDecodeError:
        if len(dictionary) == 1:
            return [None]
    return [each for at in range(len(dictionary)) for each in _entries_of(dictionary.slice(at, 1), inner)]


def _is_same(one: Any, other: Any) -> bool:
    """Whether they are the same bytes in memory."""
    return len(one) == len(other) and [b and b.address for b in one.buffers()] == [
        b and b.address for b in other.buffers()
    ]


def _is_text(of: Any) -> bool:
    if pat.is_dictionary(of):
        of = of.value_type
    return bool(pat.is_string(of) or pat.is_large_string(of) or pat.is_string_view(of))


def _each(form: Callable[[Any], str], change: Callable[[Any], Any] = lambda array: array) -> Column:
    return lambda array: [NULL if value is None else form(value) for value in change(array).to_pylist()]


def _simple(of: Any, leaf: Any, kind: ValueKind | None) -> Column:
    if isinstance(of, pa.BaseExtensionType):
        inner = _simple(of.storage_type, leaf, kind)
        return lambda array: inner(array.storage)
    if pat.is_null(of):
        return lambda array: [NULL] * len(array)
    if pat.is_boolean(of):
        return _each(lambda value: forms.TRUE if value else forms.FALSE)
    if pat.is_integer(of):
        return _each(str)
    if pat.is_floating(of):
        return _each(lambda value: forms.number(float(value), kind))
    if pat.is_decimal(of):
        forms.check_digits(of.precision, of.scale)
        return _each(lambda value: format(value, "f"))
    if _is_text(of):
        return _each(forms.text)
    return _of_time(of, leaf) or _of_bytes(of, leaf, kind)


def _of_bytes(of: Any, leaf: Any, kind: ValueKind | None) -> Column:
    if not (
        pat.is_binary(of) or pat.is_large_binary(of) or pat.is_binary_view(of) or pat.is_fixed_size_binary(of)
    ):
        raise NoJsonError(f"is of the type {of}, which has no form in JSON")
    logical = leaf.logical_type.type
    if logical == "UUID":
        return _each(lambda value: f'"{uuid.UUID(bytes=value)}"')
    if logical in _TEXTS:
        return _each(lambda value: forms.text(value.decode()))
    forms.check_bytes(kind)
    return _each(forms.of_bytes)


def _of_time(of: Any, leaf: Any) -> Column | None:
    if pat.is_date32(of):
        return _each(forms.day, lambda array: array.view(pa.int32()))
    if pat.is_date64(of):
        return _each(lambda value: forms.day(value // _DAY_MS), lambda array: array.view(pa.int64()))
    if pat.is_time(of):
        per_s = _PER_S[of.unit]
        width = pa.int32() if pat.is_time32(of) else pa.int64()
        return _each(lambda value: forms.time_of_day(value, per_s), lambda array: array.view(width))
    if pat.is_timestamp(of):
        # INT96 is a time of UTC, and says so nowhere.
        per_s, zone = _PER_S[of.unit], "Z" if of.tz or leaf.physical_type == "INT96" else ""
        return _each(lambda value: forms.moment(value, per_s, zone), lambda array: array.view(pa.int64()))
    return None
