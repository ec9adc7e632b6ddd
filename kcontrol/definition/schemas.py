"""Schemas of values as users give them: DDL or a Spark type for JSON, an Avro schema for Avro, a .proto file for Protobuf.
Does not import Spark, nor, before a schema needs it, what knows Avro or Protobuf."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kcontrol.definition.ddl import unknown_type
from kcontrol.errors import ConfigurationError

_OF_REGISTRY = ("confluent-avro", "confluent-json", "confluent-protobuf")


def of_registry(value_format: str | None) -> bool:
    """Whether values begin with the id that a registry of schemas has for theirs."""
    return value_format in _OF_REGISTRY


def check_schema(where: str, value_format: str | None, schema: Any, *, needed: bool) -> None:
    """Raise ConfigurationError if the two settings do not go together, or the schema is not one."""
    if value_format is None:
        if schema is not None:
            raise ConfigurationError(
                f"{where}: schema is given without value_format: add a value_format such as 'json' or 'avro'"
            )
        return
    if schema is None:
        if needed:
            raise ConfigurationError(
                f"{where}: value_format = {value_format!r} needs schema=: what the values look like"
            )
        return
    if value_format in ("avro", "confluent-avro"):
        _check_avro(where, schema)
    elif value_format == "confluent-protobuf":
        from kcontrol.definition.protos import proto_schema

        proto_schema(where, schema)
    elif not _is_ddl(schema) and not hasattr(schema, "jsonValue"):
        raise ConfigurationError(
            f"{where}: schema = {schema!r}: for JSON it must be a StructType or a DDL string such as "
            "'carrier STRING, delay INT'"
        )
    elif isinstance(schema, str) and (wrong := unknown_type(schema)) is not None:
        word, meant = wrong
        raise ConfigurationError(
            f"{where}: schema = {schema!r}: {word!r} is not a type of Spark"
            + (f"; did you mean {meant}?" if meant else "")
        )


def schema_text(schema: Any) -> str:
    """A schema as text: the DDL or .proto file as it was given, a Spark type, Avro schema or other Protobuf schema as JSON; ''
    for none."""
    if schema is None:
        return ""
    if isinstance(schema, type) or (isinstance(schema, Mapping) and "proto" in schema):
        from kcontrol.definition.protos import is_proto_class, proto_text

        if isinstance(schema, Mapping) or is_proto_class(schema):
            return proto_text(schema)
    if hasattr(schema, "jsonValue"):
        return json.dumps(schema.jsonValue(), sort_keys=True, separators=(",", ":"))
    return schema if isinstance(schema, str) else json.dumps(schema, separators=(",", ":"))


def _is_ddl(schema: Any) -> bool:
    return isinstance(schema, str) and bool(schema.strip())


def _check_avro(where: str, schema: Any) -> None:
    from fastavro.schema import SchemaParseException, UnknownType, parse_schema

    try:
        definition = json.loads(schema) if isinstance(schema, str) else schema
        if (
            not isinstance(definition, Mapping)
            or definition.get("type") != "record"
            or not definition.get("fields")
        ):
            raise ConfigurationError(
                f"{where}: schema must be an Avro record with fields, which become columns"
            )
        parse_schema(dict(definition))
    except (ValueError, TypeError, KeyError, AttributeError, SchemaParseException, UnknownType) as error:
        raise ConfigurationError(
            f"{where}: schema is not an Avro schema ({error!r}): give it as JSON text or a dictionary"
        ) from error
