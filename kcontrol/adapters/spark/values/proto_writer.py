"""Rows as Protobuf's messages.

A column becomes the field of its name. What a field cannot hold is refused: before anything is read, if the types say so, else
with the row.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf.descriptor import FieldDescriptor as Field
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql import types as st

from kcontrol.adapters.spark.values.proto_types import (
    LARGE,
    MESSAGES,
    MIDDLE,
    SMALL,
    TIMESTAMP,
    WRAPPERS,
    declared_within,
    is_map,
    whole_range,
)
from kcontrol.errors import ConfigurationError

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_WHOLE = (st.ByteType, st.ShortType, st.IntegerType, st.LongType)
_TAKEN: dict[int, tuple[type[st.DataType], ...]] = {
    **dict.fromkeys((*SMALL, *MIDDLE, *LARGE), _WHOLE),
    Field.TYPE_BOOL: (st.BooleanType,),
    Field.TYPE_FLOAT: (st.FloatType,),
    Field.TYPE_DOUBLE: (st.FloatType, st.DoubleType),
    Field.TYPE_STRING: (st.StringType,),
    Field.TYPE_BYTES: (st.BinaryType,),
    Field.TYPE_ENUM: (st.StringType,),
}

Put = Callable[[Any, Any], None]
"""Of (message, value): have the message hold the value in a field."""


def writer_of(kind: st.StructType, message: Any, where: str) -> Callable[[Mapping[str, Any]], bytes]:
    """A function from a row of a type to a message. It raises ValueError, beginning with `where`, for a value that its field
    does not hold.

    Raises ConfigurationError, beginning with `where`, for a column without a field, or with one of another type.
    """
    fill, new = _filler(kind, message, where), GetMessageClass(message)

    def write(row: Mapping[str, Any]) -> bytes:
        made = new()
        fill(made, row)
        return bytes(made.SerializeToString(deterministic=True))

    return write


def header_of_message(message: Any) -> bytes:
    """Which message of its file it is, as it stands behind the schema's id."""
    indexes: list[int] = []
    inner, outer = message, message.containing_type
    while outer is not None:
        indexes.insert(0, declared_within(outer).index(inner))
        inner, outer = outer, outer.containing_type
    indexes.insert(0, list(inner.file.message_types_by_name.values()).index(inner))
    return b"\x00" if indexes == [0] else b"".join(_zigzag(each) for each in (len(indexes), *indexes))


def _zigzag(number: int) -> bytes:
    left, made = 2 * number, bytearray()
    while left > 0x7F:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    made.append(left)
    return bytes(made)


def _filler(kind: st.StructType, message: Any, where: str) -> Put:
    fields = message.fields_by_name
    unknown = [each.name for each in kind.fields if each.name not in fields]
    if unknown:
        raise ConfigurationError(
            f"{where}: message {message.full_name} has no field for column {unknown[0]!r}; it has {', '.join(fields)}"
        )
    needed = [name for name, field in fields.items() if field.is_required and name not in kind.fieldNames()]
    if needed:
        raise ConfigurationError(
            f"{where}: message {message.full_name} needs the field {needed[0]!r}, which the frame does not have; it has "
            f"{', '.join(kind.fieldNames())}"
        )
    puts = [
        (each.name, _putter(each.dataType, fields[each.name], f"{where}: column {each.name!r}"))
        for each in kind.fields
    ]

    alternatives = _alternatives(kind, message)

    def fill(made: Any, row: Mapping[str, Any]) -> None:
        for oneof, names in alternatives:
            given = [name for name in names if row[name] is not None]
            if len(given) > 1:
                raise ValueError(
                    f"{where}: {' and '.join(given)} have values, and one of {oneof} at most can have one"
                )
        for name, put in puts:
            put(made, row[name])

    return fill


def _alternatives(kind: st.StructType, message: Any) -> list[tuple[str, list[str]]]:
    """Of each oneof: its columns, if there are several."""
    found = [
        (oneof.name, [field.name for field in oneof.fields if field.name in kind.fieldNames()])
        for oneof in message.oneofs
    ]
    return [(name, names) for name, names in found if len(names) > 1]


def _putter(kind: st.DataType, field: Any, where: str) -> Put:
    if is_map(field):
        return _map(kind, field, where)
    if field.is_repeated:
        return _list(kind, field, where)
    put = _single(kind, field, where)

    def put_or_leave(made: Any, value: Any) -> None:
        if value is not None:
            put(made, value)
        elif field.is_required or not field.has_presence:
            raise ValueError(f"{where} is null, which its field can't be: declare it optional")

    return put_or_leave


def _single(kind: st.DataType, field: Any, where: str) -> Put:
    name = field.name
    if field.type not in MESSAGES:
        of_value = _scalar(kind, field, where)
        return lambda made, value: setattr(made, name, of_value(value))
    fill = _inner(kind, field.message_type, where)

    def put(made: Any, value: Any) -> None:
        inner = getattr(made, name)
        inner.SetInParent()
        fill(inner, value)

    return put


def _inner(kind: st.DataType, message: Any, where: str) -> Put:
    if message.full_name == TIMESTAMP and isinstance(kind, st.TimestampType):
        return _put_timestamp
    if message.full_name in WRAPPERS:
        of_value = _scalar(kind, message.fields_by_name["value"], where)
        return lambda made, value: setattr(made, "value", of_value(value))
    if not isinstance(kind, st.StructType) or message.full_name == TIMESTAMP:
        raise _mismatch(kind, message.full_name, where)
    return _filler(kind, message, where)


def _put_timestamp(made: Any, value: dt.datetime) -> None:
    made.seconds, microseconds = divmod((value - _EPOCH) // _MICROSECOND, 1_000_000)
    made.nanos = 1_000 * microseconds


def _list(kind: st.DataType, field: Any, where: str) -> Put:
    if not isinstance(kind, st.ArrayType):
        raise _mismatch(kind, "repeated", where)
    name, item = field.name, f"{where}: an item"
    if field.type in MESSAGES:
        fill = _inner(kind.elementType, field.message_type, item)

        def put_messages(made: Any, values: Any) -> None:
            for each in _without_nulls(values, item):
                fill(getattr(made, name).add(), each)

        return put_messages
    of_value = _scalar(kind.elementType, field, item)

    def put_scalars(made: Any, values: Any) -> None:
        getattr(made, name).extend(of_value(each) for each in _without_nulls(values, item))

    return put_scalars


def _map(kind: st.DataType, field: Any, where: str) -> Put:
    if not isinstance(kind, st.MapType):
        raise _mismatch(kind, "map", where)
    name, inner, item = field.name, field.message_type.fields_by_name, f"{where}: a value"
    key_of = _scalar(kind.keyType, inner["key"], f"{where}: a key")
    if inner["value"].type in MESSAGES:
        fill = _inner(kind.valueType, inner["value"].message_type, item)

        def put_messages(made: Any, pairs: Any) -> None:
            for key, value in _pairs(pairs, item):
                fill(getattr(made, name)[key_of(key)], value)

        return put_messages
    of_value = _scalar(kind.valueType, inner["value"], item)

    def put_scalars(made: Any, pairs: Any) -> None:
        for key, value in _pairs(pairs, item):
            getattr(made, name)[key_of(key)] = of_value(value)

    return put_scalars


def _pairs(pairs: Any, where: str) -> list[tuple[Any, Any]]:
    found = list(pairs or ())
    _without_nulls([value for _, value in found], where)
    return found


def _without_nulls(values: Any, where: str) -> list[Any]:
    found = list(values or ())
    if any(each is None for each in found):
        raise ValueError(f"{where} is null, for which Protobuf has nothing")
    return found


def _scalar(kind: st.DataType, field: Any, where: str) -> Callable[[Any], Any]:
    whole_decimal = field.type in LARGE and isinstance(kind, st.DecimalType) and kind.scale == 0
    if not whole_decimal and not isinstance(kind, _TAKEN.get(field.type, ())):
        raise _mismatch(kind, f"field {field.name!r} of {field.containing_type.full_name}", where)
    if field.type == Field.TYPE_ENUM:
        numbers = {name: each.number for name, each in field.enum_type.values_by_name.items()}
        return lambda value: _looked_up(numbers, value, where)
    if field.type in (*SMALL, *MIDDLE, *LARGE):
        least, most = whole_range(field.type)
        return lambda value: _fitting(int(value), least, most, where)
    return lambda value: value


def _looked_up(numbers: Mapping[str, int], value: str, where: str) -> int:
    if value not in numbers:
        raise ValueError(f"{where} is {value!r}, and must be one of {', '.join(numbers)}")
    return numbers[value]


def _fitting(value: int, least: int, most: int, where: str) -> int:
    if not least <= value <= most:
        raise ValueError(f"{where} is {value}, and must be {least} to {most}")
    return value


def _mismatch(kind: st.DataType, what: str, where: str) -> ConfigurationError:
    return ConfigurationError(f"{where} is {kind.simpleString()}, which {what} does not hold: cast it")
