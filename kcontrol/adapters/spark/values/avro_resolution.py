"""Reads values of one Avro schema as those of another: Avro 1.12, "Schema resolution", as strict as `avro_reader`.

Both schemas are *whole*: all names in them were replaced by what they stand for. A value is read once, by the writer's
schema, straight into what the reader's says; what the reader does not have is read and dropped.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException, UnknownType, parse_schema

from kcontrol.core.model import SchemaReference
from kcontrol.errors import ConfigurationError
from kcontrol.wire.avro_reader import (
    CELLS_PER_BYTE,
    BadValueError,
    Datum,
    Kind,
    kind_of,
    read_blocks,
    with_logical_type,
)

_LOGICAL = ("logicalType", "precision", "scale")
_PROMOTIONS: Mapping[tuple[str, str], Callable[[Any], Any]] = {
    ("int", "long"): int,
    ("int", "float"): float,
    ("int", "double"): float,
    ("long", "float"): float,
    ("long", "double"): float,
    ("float", "double"): float,
    ("string", "bytes"): str.encode,
    ("bytes", "string"): lambda value: _text(value),
}


def whole_schema(text: str, references: Iterable[SchemaReference] = ()) -> Any:
    """A schema of which all names were replaced by what they stand for. references: each after those that it needs.

    Raises ValueError, saying why, for what is no Avro schema, or a recursive one.
    """
    named: dict[str, Any] = {}
    try:
        for each in references:
            parse_schema(json.loads(each.text), named, expand=True)
        whole: Any = _plain(parse_schema(json.loads(text), named, expand=True))
        kind_of(_without_logical_types(whole), {}, "")
    except (SchemaParseException, UnknownType, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"it is not an Avro schema: {error!r}") from error
    except KeyError as error:
        raise ValueError(f"it is recursive, at {error}, or lacks something") from error
    return whole


def resolved_reader(writer: Any, reader: Any, where: str) -> Callable[[bytes, int, int], dict[str, Any]]:
    """As `avro_reader.reader_of`, of values that were written by another whole schema.

    Where the two do not go together, a value is bad. Raises ConfigurationError as `reader_of` does for the reader's.
    """
    kind = _resolved(writer, reader, where)

    def read(value: bytes, begin: int, cells: int) -> dict[str, Any]:
        datum = Datum(value, begin, cells + CELLS_PER_BYTE * len(value))
        row: dict[str, Any] = kind.read(datum)
        if datum.at != len(value):
            raise BadValueError(f"{len(value) - datum.at} bytes are left over")
        return row

    return read


def same_values(one: Any, other: Any) -> bool:
    """Whether values of two whole schemas are the same bytes and mean the same."""
    return bool(_essence(one) == _essence(other))


def _plain(schema: Any) -> Any:
    """Without what the parser has added."""
    if isinstance(schema, dict):
        return {name: _plain(value) for name, value in schema.items() if not name.startswith("__")}
    return [_plain(each) for each in schema] if isinstance(schema, list) else schema


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {
            name: value if name == "default" else _without_logical_types(value)
            for name, value in schema.items()
            if name not in _LOGICAL
        }
    return [_without_logical_types(each) for each in schema] if isinstance(schema, list) else schema


def _essence(schema: Any) -> Any:
    """What decides about bytes and their meaning: neither documentation nor defaults, aliases or others' properties, nor
    the names of types."""
    if isinstance(schema, list):
        return [_essence(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "fields" in schema:
        return [[each["name"], _essence(each["type"])] for each in schema["fields"]]
    kept = ("type", "items", "values", "symbols", "size", *_LOGICAL)
    found = {name: _essence(schema[name]) for name in kept if name in schema}
    return found["type"] if set(found) == {"type"} else found


def _base(schema: Any) -> str:
    """The type's word; '' for a union."""
    while isinstance(schema, dict):
        schema = schema["type"]
    return schema if isinstance(schema, str) else ""


def _inner(schema: Any) -> Mapping[str, Any]:
    """The properties of a type."""
    while isinstance(schema, dict) and isinstance(schema["type"], dict):
        schema = schema["type"]
    return schema if isinstance(schema, dict) else {"type": schema}


def _refusal(why: str) -> Kind:
    def read(_: Datum) -> Any:
        raise BadValueError(why)

    return Kind(read, 0, 1)


def _resolved(writer: Any, reader: Any, where: str) -> Kind:
    """Of values of `writer` that are to be read as `reader` says."""
    if isinstance(writer, dict) and isinstance(writer["type"], list):
        writer = writer["type"]
    if isinstance(reader, dict) and isinstance(reader["type"], list):
        reader = reader["type"]
    if isinstance(writer, list):
        return _from_union([_resolved(branch, reader, where) for branch in writer])
    if isinstance(reader, list):
        return _resolved(writer, _branch_for(writer, reader), where)
    written, read = _base(writer), _base(reader)
    if read in ("record", "error") and written in ("record", "error"):
        return _records(_inner(writer), _inner(reader), where)
    match (written, read):
        case ("array", "array"):
            return _arrays(_resolved(_inner(writer)["items"], _inner(reader)["items"], where))
        case ("map", "map"):
            return _maps(_resolved(_inner(writer)["values"], _inner(reader)["values"], where))
        case ("enum", "enum"):
            return _enums(_inner(writer), _inner(reader), where)
    return _leaves(_inner(writer), _inner(reader), where)


def _branch_for(writer: Any, union: list[Any]) -> Any:
    """The type of a reader's union that a value becomes: the same one, or else one that it can be promoted to."""
    base = _base(writer)
    same = [branch for branch in union if _base(branch) == base]
    promoted = [branch for branch in union if (base, _base(branch)) in _PROMOTIONS]
    return next(iter([*same, *promoted]), next((each for each in union if each != "null"), "null"))


def _from_union(branches: list[Kind]) -> Kind:
    def read(datum: Datum) -> Any:
        index = datum.varint()
        if not 0 <= index < len(branches):
            raise BadValueError(f"a union of {len(branches)} types has no type {index}")
        return branches[index].read(datum)

    return Kind(read, 1 + min(each.least for each in branches), max(each.cells for each in branches))


def _records(writer: Mapping[str, Any], reader: Mapping[str, Any], where: str) -> Kind:
    wanted = {
        name: field for field in reader["fields"] for name in (field["name"], *field.get("aliases", ()))
    }
    reads: list[tuple[str | None, Kind]] = []
    for field in writer["fields"]:
        target = wanted.get(field["name"])
        if target is None:
            reads.append((None, kind_of(_without_logical_types(field["type"]), {}, where)))
        else:
            inner = f"{where}: field {target['name']!r}"
            reads.append((target["name"], _resolved(field["type"], target["type"], inner)))
    given = {name for name, _ in reads}
    constants, lacking = {}, []
    for field in reader["fields"]:
        if field["name"] not in given:
            if "default" in field:
                constants[field["name"]] = _default(field, where)
            else:
                lacking.append(field["name"])
    if lacking:
        return _refusal(
            f"the schema it was written with has no {', '.join(lacking)}, for which there is no default"
        )

    def read(datum: Datum) -> dict[str, Any]:
        row = dict(constants)
        for name, kind in reads:
            value = kind.read(datum)
            if name is not None:
                row[name] = value
        return row

    cells = sum(kind.cells for _, kind in reads) + len(constants)
    return Kind(read, sum(kind.least for _, kind in reads), max(1, cells))


def _default(field: Mapping[str, Any], where: str) -> Any:
    """The default of a field as its values are read."""
    kind = field["type"][0] if isinstance(field["type"], list) else field["type"]
    body = io.BytesIO()
    try:
        fastavro.schemaless_writer(body, kind, _as_bytes(kind, field["default"]))
        return kind_of(kind, {}, where).read(Datum(body.getvalue(), 0, 1_000_000))
    except (ValueError, TypeError, KeyError, AttributeError, EOFError) as error:
        raise ConfigurationError(
            f"{where}: the default of field {field['name']!r} is not one of its type: {error}"
        ) from error


def _as_bytes(kind: Any, default: Any) -> Any:
    """Bytes are texts of the first 256 characters in a default."""
    if _base(kind) in ("bytes", "fixed") and isinstance(default, str):
        return default.encode("latin-1")
    return default


def _arrays(items: Kind) -> Kind:
    def read(datum: Datum) -> list[Any]:
        found: list[Any] = []
        read_blocks(datum, items.least, items.cells, lambda datum: found.append(items.read(datum)))
        return found

    return Kind(read, 1, 1)


def _maps(values: Kind) -> Kind:
    key_of = kind_of("string", {}, "").read

    def read(datum: Datum) -> list[tuple[str, Any]]:
        found: dict[str, Any] = {}

        def item(datum: Datum) -> None:
            key = key_of(datum)
            found[key] = values.read(datum)

        read_blocks(datum, 1 + values.least, 1 + values.cells, item)
        return list(found.items())

    return Kind(read, 1, 1)


def _enums(writer: Mapping[str, Any], reader: Mapping[str, Any], where: str) -> Kind:
    kind, symbols, other = kind_of(writer, {}, where), set(reader["symbols"]), reader.get("default")

    def read(datum: Datum) -> str:
        symbol: str = kind.read(datum)
        if symbol in symbols:
            return symbol
        if other is None:
            raise BadValueError(f"the reader's enumeration has no symbol {symbol!r} and no default")
        return str(other)

    return Kind(read, kind.least, 1)


def _leaves(writer: Mapping[str, Any], reader: Mapping[str, Any], where: str) -> Kind:
    """Of types that hold no others. A logical type of the reader's says what a value means; where the writer has one as
    well, that must go together with it."""
    written, read = _base(writer), _base(reader)
    plain = kind_of(_without_logical_types(writer), {}, where)
    if written == read:
        change = None
        if written == "fixed" and writer["size"] != reader["size"]:
            return _refusal(f"a fixed value of {writer['size']} bytes is to be one of {reader['size']}")
    else:
        change = _PROMOTIONS.get((written, read))
        if change is None:
            return _refusal(f"{written} can't be read as {read}")
    theirs, ours = writer.get("logicalType"), reader.get("logicalType")
    if ours is None:
        return plain if change is None else Kind(_changed(plain, change), plain.least, 1)
    if theirs is not None and {theirs, ours} == {"timestamp-millis", "timestamp-micros"}:
        return with_logical_type(writer, written, plain, where)
    if theirs not in (None, ours):
        return _refusal(f"{theirs} can't be read as {ours}")
    if theirs == "decimal" and writer.get("scale", 0) != reader.get("scale", 0):
        scales = writer.get("scale", 0), reader.get("scale", 0)
        return _refusal(f"a decimal of scale {scales[0]} is to be one of scale {scales[1]}")
    read_plain = plain.read if change is None else _changed(plain, change)
    return with_logical_type(reader, read, Kind(read_plain, plain.least, 1), where)


def _changed(kind: Kind, change: Callable[[Any], Any]) -> Callable[[Datum], Any]:
    return lambda datum: change(kind.read(datum))


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise BadValueError(f"bytes that are to be a string are not UTF-8: {error.reason}") from error
