"""Records of Avro as rows of JSON, by the schema that they were written with.

A field becomes what it would be in a row of NDJSON: the branch of a union without its name, a symbol as its text, bytes in
base64, times as text. Whether that fits the input's schema is looked at as of every row.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from kcontrol.requests.push import forms
from kcontrol.requests.push.forms import NoJsonError
from kcontrol.requests.push.kinds import RowKind, ValueKind
from kcontrol.wire.avro_reader import PRIMITIVES, BadValueError, Datum, TooManyCellsError, read_blocks

Read = Callable[[Datum], str]
"""The next value, as JSON. Raises NoJsonError, also for what is no value of the schema, and TooManyCellsError."""

_SPECIAL = ("duration", "big-decimal")
_MOMENTS = {
    "timestamp-millis": (forms.MILLIS, "Z"),
    "timestamp-micros": (forms.MICROS, "Z"),
    "timestamp-nanos": (forms.NANOS, "Z"),
    "local-timestamp-millis": (forms.MILLIS, ""),
    "local-timestamp-micros": (forms.MICROS, ""),
    "local-timestamp-nanos": (forms.NANOS, ""),
}
_LEAST_BYTES = {"null": 0, "float": 4, "double": 8}


def row_reader(schema: Any, kind: RowKind | None, row_bytes: int) -> Read:
    """schema: as fastavro gives it back. kind: of the rows, if it is known. Raises NoJsonError: it has no rows."""
    if not isinstance(schema, Mapping) or schema.get("type") != "record":
        raise NoJsonError("the schema is no record, so its values are no rows")
    fields = None if kind is None else kind.fields
    return _Readers(row_bytes).record(schema, fields, 1)


class _Readers:
    """Makes them, each once for a named type and what it is read for."""

    def __init__(self, row_bytes: int) -> None:
        self._row_bytes = row_bytes
        self._named: dict[str, Mapping[str, Any]] = {}
        self._made: dict[tuple[str, int], Read | None] = {}

    def of(self, schema: Any, kind: ValueKind | None, depth: int) -> Read:
        if depth > forms.MAX_DEPTH:
            raise NoJsonError(f"is nested more than {forms.MAX_DEPTH} deep")
        if isinstance(schema, list):
            return self._union(schema, kind, depth)
        if isinstance(schema, str):
            return (
                self._by_name(self._named[schema], kind, depth)
                if schema in self._named
                else _simple(schema, {}, kind)
            )
        inner = schema["type"]
        if not isinstance(inner, str):
            return self.of(inner, kind, depth + 1)
        if inner in ("record", "enum", "fixed"):
            self._named[schema["name"]] = schema
            return self._by_name(schema, kind, depth)
        match inner:
            case "array":
                return self._array(self.of(schema["items"], kind and kind.inner, depth + 1), schema["items"])
            case "map":
                return self._map(self.of(schema["values"], kind and kind.inner, depth + 1))
        return _simple(inner, schema, kind) if inner in PRIMITIVES else self.of(inner, kind, depth)

    def _by_name(self, schema: Mapping[str, Any], kind: ValueKind | None, depth: int) -> Read:
        place = (schema["name"], id(kind))
        if place not in self._made:
            self._made[place] = None
            self._made[place] = self._definition(schema, kind, depth)
        found = self._made[place]
        if found is None:
            raise NoJsonError(
                f"is of the type {schema['name']!r}, which holds itself: rows are not nested without end"
            )
        return found

    def _definition(self, schema: Mapping[str, Any], kind: ValueKind | None, depth: int) -> Read:
        match schema["type"]:
            case "enum":
                return _enum(tuple(map(forms.text, schema["symbols"])))
            case "fixed":
                return _fixed(schema, kind)
        return self.record(schema, None if kind is None else kind.fields, depth)

    def record(self, schema: Mapping[str, Any], kinds: Mapping[str, ValueKind] | None, depth: int) -> Read:
        fields = []
        if "name" in schema:
            self._named.setdefault(schema["name"], schema)
        names = Counter(field["name"] for field in schema["fields"])
        twice = [name for name, count in names.items() if count > 1]
        if twice:
            raise NoJsonError(f"has the field {twice[0][: forms.MAX_SHOWN]!r} twice")
        for field in schema["fields"]:
            name = field["name"]
            try:
                read = self.of(field["type"], (kinds or {}).get(name), depth + 1)
            except NoJsonError as error:
                raise error.within(name) from error
            fields.append((name, f"{forms.text(name)}:", read))
        most = self._row_bytes

        def record(datum: Datum) -> str:
            parts, size = [], 0
            for name, prefix, read in fields:
                try:
                    part = prefix + read(datum)
                except NoJsonError as error:
                    raise error.within(name) from error
                except TooManyCellsError:
                    raise
                except BadValueError as error:
                    raise NoJsonError(f"is damaged: {error}", (name,)) from error
                parts.append(part)
                size += len(part)
                if size > most:
                    raise NoJsonError(f"has more than {most} bytes, which are the most of a row", (name,))
            return f"{{{','.join(parts)}}}"

        return record

    def _union(self, schema: list[Any], kind: ValueKind | None, depth: int) -> Read:
        if any(isinstance(branch, list) for branch in schema):
            raise NoJsonError("has a union within a union")
        reads = [self.of(branch, kind, depth) for branch in schema]

        def union(datum: Datum) -> str:
            index = datum.varint()
            if not 0 <= index < len(reads):
                raise BadValueError(f"a union of {len(reads)} types has no type {index}")
            return reads[index](datum)

        return union

    def _array(self, read: Read, items: Any) -> Read:
        most, least = self._row_bytes, _least(items)

        def array(datum: Datum) -> str:
            parts: list[str] = []
            read_blocks(datum, least, 1, lambda datum: parts.append(read(datum)))
            return forms.array_of(parts, most)

        return array

    def _map(self, read: Read) -> Read:
        most, key_of = self._row_bytes, PRIMITIVES["string"].read

        def mapping(datum: Datum) -> str:
            found: dict[str, str] = {}

            def one(datum: Datum) -> None:
                key = key_of(datum)
                if key in found:
                    raise NoJsonError(f"has the key {key[: forms.MAX_SHOWN]!r} twice")
                found[key] = read(datum)

            read_blocks(datum, 1, 1, one)
            return forms.object_of([forms.text(key) for key in found], list(found.values()), most)

        return mapping


def _least(schema: Any) -> int:
    """Bytes that a value takes at least, where that is plain to see."""
    return _LEAST_BYTES.get(schema, 1 if schema in PRIMITIVES else 0) if isinstance(schema, str) else 0


def _enum(symbols: tuple[str, ...]) -> Read:
    def enum(datum: Datum) -> str:
        index = datum.varint("int")
        if not 0 <= index < len(symbols):
            raise BadValueError(f"an enumeration of {len(symbols)} symbols has no symbol {index}")
        return symbols[index]

    return enum


def _fixed(schema: Mapping[str, Any], kind: ValueKind | None) -> Read:
    size, logical = int(schema["size"]), schema.get("logicalType")
    if logical == "uuid" and size == 16:
        return lambda datum: f'"{uuid.UUID(bytes=datum.take(size))}"'
    return _of_bytes(lambda datum: datum.take(size), schema, kind)


def _of_bytes(take: Callable[[Datum], bytes], schema: Mapping[str, Any], kind: ValueKind | None) -> Read:
    logical = schema.get("logicalType")
    if logical in _SPECIAL:
        raise NoJsonError(f"is of Avro's logical type {logical!r}, which has no form in JSON")
    if logical != "decimal":
        forms.check_bytes(kind)
        return lambda datum: forms.of_bytes(take(datum))
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if type(precision) is not int or type(scale) is not int:
        raise NoJsonError("is a decimal without a number of digits")
    forms.check_digits(precision, scale)

    def decimal(datum: Datum) -> str:
        data = take(datum)
        if len(data) > forms.MAX_DIGITS:
            raise NoJsonError(f"is a decimal of {len(data)} bytes")
        return forms.decimal(int.from_bytes(data, "big", signed=True), precision, scale)

    return decimal


def _simple(name: str, schema: Mapping[str, Any], kind: ValueKind | None) -> Read:
    if name not in PRIMITIVES:
        raise NoJsonError(f"is of the type {name!r}, which is none of Avro's")
    take, logical = PRIMITIVES[name].read, schema.get("logicalType")
    match name, logical:
        case "null", _:
            return lambda _datum: forms.NULL
        case "boolean", _:
            return lambda datum: forms.TRUE if take(datum) else forms.FALSE
        case "string", _:
            return lambda datum: forms.text(take(datum))
        case "bytes", _:
            return _of_bytes(take, schema, kind)
        case "float" | "double", _:
            return lambda datum: forms.number(take(datum), kind)
        case "int", "date":
            return lambda datum: forms.day(take(datum))
        case "int", "time-millis":
            return lambda datum: forms.time_of_day(take(datum), forms.MILLIS)
        case "long", "time-micros":
            return lambda datum: forms.time_of_day(take(datum), forms.MICROS)
        case "long", str() if logical in _MOMENTS:
            per_s, zone = _MOMENTS[logical]
            return lambda datum: forms.moment(take(datum), per_s, zone)
    return lambda datum: str(take(datum))
