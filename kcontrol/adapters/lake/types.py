"""Columns in words, as Spark has them ('customer STRING, amount DECIMAL(12,2)'), as types of Arrow."""

from __future__ import annotations

import re

import pyarrow as pa

from kcontrol.definition.ddl import split_at_commas
from kcontrol.errors import ConfigurationError

_FIELD = re.compile(r"\s*(?:`((?:[^`]|``)+)`|(\w+))(?:\s*:\s*|\s+)(.*)", re.DOTALL)
_TYPE = re.compile(r"([A-Za-z]\w*)\s*(.*)", re.DOTALL)
_DECIMAL = re.compile(r"\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)(.*)", re.DOTALL)
_NOT_NULL = re.compile(r"not\s+null", re.IGNORECASE)
_MOST_DIGITS = 38
_SIMPLE = {
    **dict.fromkeys(("string",), pa.string()),
    **dict.fromkeys(("tinyint", "byte"), pa.int8()),
    **dict.fromkeys(("smallint", "short"), pa.int16()),
    **dict.fromkeys(("int", "integer"), pa.int32()),
    **dict.fromkeys(("bigint", "long"), pa.int64()),
    **dict.fromkeys(("float", "real"), pa.float32()),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    **dict.fromkeys(("timestamp", "timestamp_ltz"), pa.timestamp("us", "UTC")),
    "timestamp_ntz": pa.timestamp("us"),
}
TYPES = (
    "STRING, BIGINT, INT, SMALLINT, TINYINT, DOUBLE, FLOAT, DECIMAL(P,S), BOOLEAN, BINARY, DATE, TIMESTAMP, \
TIMESTAMP_NTZ, ARRAY<T>, MAP<STRING, T> and STRUCT<NAME: T, ...>"
)


def schema_of(ddl: str) -> pa.Schema:
    """Raises ConfigurationError: it is no list of columns, or has a type that is not known here."""
    schema = pa.schema(_fields(ddl))
    twice = next((name for name in schema.names if schema.names.count(name) > 1), None)
    if twice is not None:
        raise ConfigurationError(f"--create: column {twice!r} is there twice")
    return schema


def columns_told(schema: pa.Schema) -> str:
    """For messages."""
    return ", ".join(f"{each.name} {each.type}{'' if each.nullable else ' not null'}" for each in schema)


def _fields(text: str) -> list[pa.Field]:
    return [_field(part) for part in split_at_commas(text)]


def _field(text: str) -> pa.Field:
    match = _FIELD.fullmatch(text)
    if match is None:
        raise ConfigurationError(
            f"--create: {text.strip()!r} is no column: give NAME TYPE, such as customer STRING"
        )
    name = (match[1] or match[2]).replace("``", "`")
    kind, rest = _type(match[3], name)
    if rest and not _NOT_NULL.fullmatch(rest):
        raise ConfigurationError(f"--create: column {name!r}: {rest!r} is not known here")
    return pa.field(name, kind, nullable=not rest)


def _type(text: str, name: str) -> tuple[pa.DataType, str]:
    """And what stands behind it."""
    match = _TYPE.fullmatch(text.strip())
    word, rest = (match[1].lower(), match[2]) if match else ("", text)
    if word in _SIMPLE:
        return _SIMPLE[word], rest.strip()
    if word in ("decimal", "dec", "numeric"):
        size = _DECIMAL.fullmatch(rest)
        precision, scale = (int(size[1]), int(size[2] or 0)) if size else (10, 0)
        if 1 <= precision <= _MOST_DIGITS and scale <= precision:
            return pa.decimal128(precision, scale), (size[3] if size else rest).strip()
    if word in ("array", "map", "struct") and rest.startswith("<"):
        inside, behind = _inside(rest)
        parts = list(split_at_commas(inside))
        if word == "struct":
            return pa.struct(_fields(inside)), behind
        if word == "array" and len(parts) == 1:
            return pa.list_(_only(parts[0], name)), behind
        if word == "map" and len(parts) == 2 and _only(parts[0], name) == pa.string():
            return pa.map_(pa.string(), _only(parts[1], name)), behind
    raise ConfigurationError(f"--create: column {name!r}: {text.strip()!r} is no type; there are {TYPES}")


def _only(text: str, name: str) -> pa.DataType:
    kind, rest = _type(text, name)
    if rest:
        raise ConfigurationError(f"--create: column {name!r}: {rest!r} is not known here")
    return kind


def _inside(rest: str) -> tuple[str, str]:
    """Between the first < and the > that belongs to it, and what is behind."""
    depth = 0
    for at, character in enumerate(rest):
        depth += (character == "<") - (character == ">")
        if depth == 0:
            return rest[1:at], rest[at + 1 :].strip()
    raise ConfigurationError(f"--create: a > is missing in {rest!r}")
