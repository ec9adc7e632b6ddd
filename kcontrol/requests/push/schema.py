"""From the text of an input's schema, as its pipeline's spec has it, to what may be in a row. Without Spark: what is not
understood here is left to it, as in `kcontrol.definition.ddl`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from kcontrol.definition.ddl import split_at_commas
from kcontrol.requests.push.kinds import ANY, SIMPLE, RowKind, ValueKind, array_of, decimal, map_of, struct_of

_FIELD = re.compile(r"\s*(?:`((?:[^`]|``)+)`|(\w+))(?:\s*:\s*|\s+)(.*)", re.DOTALL)
_TYPE = re.compile(r"([A-Za-z]\w*)\s*(.*)", re.DOTALL)
_DECIMAL = re.compile(r"\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_DECIMALS = ("decimal", "dec", "numeric")
_DEFAULT_PRECISION = 10


def row_kind(schema: str) -> RowKind | None:
    """What a row of this schema may be; None: it is not known, and any object may be one."""
    if schema.lstrip().startswith("{"):
        try:
            kind = _of_json_fields(json.loads(schema))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        return RowKind(kind)
    fields = _of_ddl_fields(schema) if schema.strip() else None
    return None if fields is None else RowKind(fields)


def _of_json_fields(struct: Mapping[str, Any]) -> dict[str, ValueKind]:
    return {field["name"]: _of_json(field["type"]) for field in struct["fields"]}


def _of_json(kind: Any) -> ValueKind:
    """Of a type as Spark's JSON has it."""
    if isinstance(kind, str):
        return _of_ddl(kind)
    match kind.get("type"):
        case "struct":
            return struct_of(_of_json_fields(kind))
        case "array":
            return array_of(_of_json(kind["elementType"]))
        case "map":
            return map_of(_of_json(kind["valueType"]))
    return ANY


def _of_ddl_fields(text: str) -> dict[str, ValueKind] | None:
    """None for what is no list of fields."""
    found = {}
    for part in split_at_commas(text):
        match = _FIELD.fullmatch(part)
        if match is None:
            return None
        found[(match[1] or match[2]).replace("``", "`")] = _of_ddl(match[3])
    return found


def _of_ddl(text: str) -> ValueKind:
    """Of a type in words, and whatever stands behind it, such as NOT NULL or a comment."""
    match = _TYPE.fullmatch(text.strip())
    if match is None:
        return ANY
    word, rest = match[1].lower(), match[2].strip()
    if word in _DECIMALS:
        size = _DECIMAL.match(rest)
        return decimal(int(size[1]), int(size[2] or 0)) if size else decimal(_DEFAULT_PRECISION, 0)
    if word not in ("array", "map", "struct"):
        return SIMPLE.get(word, ANY)
    inside = _inside(rest)
    if inside is None:
        return ANY
    if word == "struct":
        fields = _of_ddl_fields(inside)
        return ANY if fields is None else struct_of(fields)
    parts = list(split_at_commas(inside))
    return array_of(_of_ddl(inside)) if word == "array" else map_of(_of_ddl(parts[-1]))


def _inside(rest: str) -> str | None:
    """Between the first < and the > that belongs to it."""
    depth = 0
    for at, character in enumerate(rest):
        depth += (character == "<") - (character == ">")
        if depth == 0:
            return rest[1:at] if at else None
    return None
