"""Avro schemas and Spark types, one from the other. Spark's own Avro reader is a separate
jar that PySpark does not bring."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyspark.sql import types as st

from kcontrol.errors import ConfigurationError

_PRIMITIVES: dict[str, st.DataType] = {
    "boolean": st.BooleanType(),
    "int": st.IntegerType(),
    "long": st.LongType(),
    "float": st.FloatType(),
    "double": st.DoubleType(),
    "bytes": st.BinaryType(),
    "string": st.StringType(),
    "fixed": st.BinaryType(),
    "enum": st.StringType(),
    "null": st.NullType(),
}
_LOGICAL: dict[str, st.DataType] = {
    "date": st.DateType(),
    "timestamp-millis": st.TimestampType(),
    "timestamp-micros": st.TimestampType(),
    "uuid": st.StringType(),
}
_AVRO_OF: dict[type[st.DataType], Any] = {
    st.BooleanType: "boolean",
    st.ByteType: "int",
    st.ShortType: "int",
    st.IntegerType: "int",
    st.LongType: "long",
    st.FloatType: "float",
    st.DoubleType: "double",
    st.BinaryType: "bytes",
    st.StringType: "string",
    st.NullType: "null",
    st.DateType: {"type": "int", "logicalType": "date"},
    st.TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
}
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]")


def spark_type(schema: Any, where: str, named: Mapping[str, st.DataType] | None = None) -> st.DataType:
    """The Spark type of values of an Avro schema (parsed JSON).

    Raises ConfigurationError, beginning with `where`, for what Spark has no type for: unions of several
    types, recursion, times of day.
    """
    known = dict(named or {})
    if isinstance(schema, list):
        return _union_type(schema, where, known)
    if isinstance(schema, str):
        found = known.get(schema) or _PRIMITIVES.get(schema)
        if found is None:
            raise ConfigurationError(
                f"{where}: the Avro type {schema!r} is recursive or unknown: columns need a fixed structure"
            )
        return found
    kind = schema["type"]
    if not isinstance(kind, str):
        return spark_type(kind, where, known)
    logical = schema.get("logicalType")
    if logical == "decimal":
        return st.DecimalType(int(schema["precision"]), int(schema.get("scale", 0)))
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if logical is not None:
        raise ConfigurationError(
            f"{where}: the Avro logical type {logical!r} has no Spark type: declare it without logicalType"
        )
    if kind == "record":
        return _record_type(schema, where, known)
    if kind == "array":
        return st.ArrayType(spark_type(schema["items"], where, known), containsNull=True)
    if kind == "map":
        return st.MapType(st.StringType(), spark_type(schema["values"], where, known), valueContainsNull=True)
    return spark_type(kind, where, known)


def _record_type(schema: Mapping[str, Any], where: str, known: Mapping[str, st.DataType]) -> st.StructType:
    fields = []
    inner = dict(known)
    for field in schema["fields"]:
        kind = spark_type(field["type"], f"{where}: field {field['name']!r}", inner)
        if isinstance(field["type"], Mapping) and "name" in field["type"]:
            inner[field["type"]["name"]] = kind
        fields.append(st.StructField(field["name"], kind, nullable=True))
    return st.StructType(fields)


def _union_type(branches: list[Any], where: str, known: Mapping[str, st.DataType]) -> st.DataType:
    real = [branch for branch in branches if branch != "null"]
    if len(real) != 1:
        raise ConfigurationError(
            f"{where}: a union of several types has no Spark type; only a type with null does"
        )
    return spark_type(real[0], where, known)


def avro_schema(kind: st.StructType, name: str, where: str) -> dict[str, Any]:
    """The Avro schema for rows of a Spark type; record names are made of `name`, every
    field may be null if Spark says so.

    Raises ConfigurationError, beginning with `where`, for a Spark type that Avro has nothing for.
    """
    own = _NOT_IN_NAMES.sub("_", name)
    fields = []
    for field in kind.fields:
        if _NOT_IN_NAMES.search(field.name):
            raise ConfigurationError(
                f"{where}: column {field.name!r} can't be an Avro field: use letters, digits and underscores"
            )
        inner = _avro_type(field.dataType, f"{own}_{field.name}", f"{where}: column {field.name!r}")
        optional = field.nullable and inner != "null"
        fields.append(
            {"name": field.name, "type": ["null", inner], "default": None}
            if optional
            else {"name": field.name, "type": inner}
        )
    return {"type": "record", "name": own, "fields": fields}


def _avro_type(kind: st.DataType, name: str, where: str) -> Any:
    if isinstance(kind, st.StructType):
        return avro_schema(kind, name, where)
    if isinstance(kind, st.ArrayType):
        item = _avro_type(kind.elementType, f"{name}_item", where)
        return {"type": "array", "items": ["null", item] if kind.containsNull else item}
    if isinstance(kind, st.MapType) and isinstance(kind.keyType, st.StringType):
        value = _avro_type(kind.valueType, f"{name}_value", where)
        return {"type": "map", "values": ["null", value] if kind.valueContainsNull else value}
    if isinstance(kind, st.DecimalType):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    found = _AVRO_OF.get(type(kind))
    if found is None:
        raise ConfigurationError(f"{where}: Spark's type {kind.simpleString()} has no Avro type: cast it")
    return found
