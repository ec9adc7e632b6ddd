"""The JSON Schema (draft 7) of rows as Spark writes them as JSON."""

from __future__ import annotations

from typing import Any

from pyspark.sql import types as st

from kcontrol.errors import ConfigurationError

_DRAFT = "http://json-schema.org/draft-07/schema#"
_NUMBER_OR_NAN = {"type": ["number", "string"]}
"""Spark writes NaN and the infinities as texts."""
_JSON_OF: dict[type[st.DataType], dict[str, Any]] = {
    st.BooleanType: {"type": "boolean"},
    st.ByteType: {"type": "integer"},
    st.ShortType: {"type": "integer"},
    st.IntegerType: {"type": "integer"},
    st.LongType: {"type": "integer"},
    st.FloatType: _NUMBER_OR_NAN,
    st.DoubleType: _NUMBER_OR_NAN,
    st.DecimalType: {"type": "number"},
    st.StringType: {"type": "string"},
    st.BinaryType: {"type": "string", "contentEncoding": "base64"},
    st.DateType: {"type": "string", "format": "date"},
    st.TimestampType: {"type": "string", "format": "date-time"},
    st.TimestampNTZType: {"type": "string"},
    st.NullType: {"type": "null"},
}


def json_schema(kind: st.StructType, title: str, where: str) -> dict[str, Any]:
    """Of rows of a Spark type. Every field is written, null or not.

    Raises ConfigurationError, beginning with `where`, for a type whose JSON has no schema.
    """
    return {"$schema": _DRAFT, "title": title, **_object(kind, where)}


def _object(kind: st.StructType, where: str) -> dict[str, Any]:
    properties = {
        field.name: _optional(
            _schema(field.dataType, f"{where}: column {field.name!r}"), nullable=field.nullable
        )
        for field in kind.fields
    }
    return {"type": "object", "properties": properties}


def _optional(schema: dict[str, Any], *, nullable: bool) -> dict[str, Any]:
    return {"oneOf": [{"type": "null"}, schema]} if nullable and schema.get("type") != "null" else schema


def _schema(kind: st.DataType, where: str) -> dict[str, Any]:
    if isinstance(kind, st.StructType):
        return _object(kind, where)
    if isinstance(kind, st.ArrayType):
        items = _optional(_schema(kind.elementType, where), nullable=kind.containsNull)
        return {"type": "array", "items": items}
    if isinstance(kind, st.MapType) and isinstance(kind.keyType, st.StringType):
        values = _optional(_schema(kind.valueType, where), nullable=kind.valueContainsNull)
        return {"type": "object", "additionalProperties": values}
    found = next((schema for cls, schema in _JSON_OF.items() if isinstance(kind, cls)), None)
    if found is None:
        raise ConfigurationError(f"{where}: Spark's type {kind.simpleString()} has no JSON Schema: cast it")
    return found
