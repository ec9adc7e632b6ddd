"""Protobuf's messages as Spark types, and which fields can be absent."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import FieldDescriptor as Field
from pyspark.sql import types as st

from kcontrol.errors import ConfigurationError

TIMESTAMP = "google.protobuf.Timestamp"
WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
SMALL = (Field.TYPE_INT32, Field.TYPE_SINT32, Field.TYPE_SFIXED32)
MIDDLE = (
    *(Field.TYPE_INT64, Field.TYPE_SINT64, Field.TYPE_SFIXED64),
    *(Field.TYPE_UINT32, Field.TYPE_FIXED32),
)
LARGE = (Field.TYPE_UINT64, Field.TYPE_FIXED64)
MESSAGES = (Field.TYPE_MESSAGE, Field.TYPE_GROUP)
_TYPES: dict[int, st.DataType] = {
    **dict.fromkeys(SMALL, st.IntegerType()),
    **dict.fromkeys(MIDDLE, st.LongType()),
    **dict.fromkeys(LARGE, st.DecimalType(20, 0)),
    Field.TYPE_BOOL: st.BooleanType(),
    Field.TYPE_FLOAT: st.FloatType(),
    Field.TYPE_DOUBLE: st.DoubleType(),
    Field.TYPE_STRING: st.StringType(),
    Field.TYPE_BYTES: st.BinaryType(),
    Field.TYPE_ENUM: st.StringType(),
}


def is_map(field: Any) -> bool:
    """Whether a field holds keys and values."""
    return field.type == Field.TYPE_MESSAGE and bool(field.message_type.GetOptions().map_entry)


def message_type(message: Any, where: str, outer: tuple[str, ...] = ()) -> st.StructType:
    """The Spark type of a message: its fields, in the order of the file.

    Raises ConfigurationError, beginning with `where`, for what Spark has no type for: recursion, messages without fields.
    """
    if message.full_name in outer:
        raise ConfigurationError(
            f"{where}: message {message.full_name} is recursive: columns need a fixed structure"
        )
    if not message.fields:
        raise ConfigurationError(f"{where}: message {message.full_name} has no fields to make columns of")
    inner = (*outer, message.full_name)
    return st.StructType([st.StructField(f.name, _field_type(f, where, inner)) for f in message.fields])


def _field_type(field: Any, where: str, outer: tuple[str, ...]) -> st.DataType:
    here = f"{where}: field {field.name!r}"
    if is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return st.MapType(single_type(key, here, outer), single_type(value, here, outer))
    if field.is_repeated:
        return st.ArrayType(single_type(field, here, outer))
    return single_type(field, here, outer)


def single_type(field: Any, where: str, outer: tuple[str, ...] = ()) -> st.DataType:
    """Of one of a field's values."""
    if field.type not in MESSAGES:
        return _TYPES[field.type]
    message = field.message_type
    if message.full_name == TIMESTAMP:
        return st.TimestampType()
    if message.full_name in WRAPPERS:
        return _TYPES[message.fields_by_name["value"].type]
    return message_type(message, where, outer)


def whole_range(field_type: int) -> tuple[int, int]:
    """The least and the greatest number of a field of whole ones."""
    if field_type in (Field.TYPE_UINT32, Field.TYPE_FIXED32):
        return 0, (1 << 32) - 1
    if field_type in LARGE:
        return 0, (1 << 64) - 1
    bits = 31 if field_type in SMALL else 63
    return -(1 << bits), (1 << bits) - 1


def cells_of(kind: st.DataType) -> int:
    """How many values of columns one value is."""
    return max(1, sum(cells_of(f.dataType) for f in kind.fields)) if isinstance(kind, st.StructType) else 1


def declared_within(message: Any) -> list[Any]:
    """The messages that the text of a message declares, as indexes count them: Confluent's serializer goes by the text, which
    has none of those that maps are made of."""
    return [each for each in message.nested_types if not each.GetOptions().map_entry]
