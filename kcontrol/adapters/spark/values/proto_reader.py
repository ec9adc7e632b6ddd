"""Reads Protobuf's messages by the schema that they were written with, as rows of another.

Fields belong together by their numbers, whatever their names, as Protobuf has it. What the two schemas do not have in
common is told beforehand: without the writer's schema a field whose type was changed would be passed over in silence. The
bytes are parsed by Google's library, which forgives what Protobuf says is to be forgiven, unknown fields above all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

from google.protobuf.descriptor import FieldDescriptor as Field
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from kcontrol.adapters.spark.values.proto_types import (
    LARGE,
    MESSAGES,
    MIDDLE,
    SMALL,
    TIMESTAMP,
    WRAPPERS,
    cells_of,
    declared_within,
    is_map,
    single_type,
    whole_range,
)
from kcontrol.definition.protos import ProtoSchema, pool_of
from kcontrol.wire.avro_reader import CELLS_PER_BYTE, BadValueError

_MAX_DEPTH = 100
_WHOLE = (*SMALL, *MIDDLE, *LARGE)
_TEXTS = (Field.TYPE_STRING, Field.TYPE_BYTES)
_FLOATS = (Field.TYPE_FLOAT, Field.TYPE_DOUBLE)
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799
"""0001-01-01 and the end of 9999, which are Spark's first and last timestamp."""


@dataclass(slots=True)
class Left:
    """cells: what the repeated fields of a value may still hold, in values of columns."""

    cells: int

    def take(self, cells: int) -> None:
        """Raises BadValueError when there are too many."""
        self.cells -= cells
        if self.cells < 0:
            raise BadValueError("its repeated fields hold more than max_cells allows")


Read = Callable[[Any, Left], Any]


def indexes_of(value: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """(which message of its file a value is, where the message begins): behind the schema's id are the number of steps into the
    file and each step, as zigzag varints; a single zero stands for the first message. Raises BadValueError."""
    count, at = _varint(value, at)
    if count == 0:
        return (0,), at
    if not 0 < count <= _MAX_DEPTH:
        raise BadValueError(f"the indexes of its message are said to be {count}")
    found = []
    for _ in range(count):
        index, at = _varint(value, at)
        found.append(index)
    return tuple(found), at


def message_at(file: Any, indexes: Sequence[int]) -> Any:
    """The message of a file to which indexes lead. Raises BadValueError."""
    messages, found = list(file.message_types_by_name.values()), None
    for index in indexes:
        if not 0 <= index < len(messages):
            raise BadValueError(f"its schema has no message at {'.'.join(map(str, indexes))}")
        found = messages[index]
        messages = declared_within(found)
    assert found is not None
    return found


def read_by(writer: Any, reader: Any) -> Callable[[bytes, int], dict[str, Any]]:
    """A function of (message, cells) that gives the fields of `reader`, read from a message of `writer`. cells: how many values
    of columns its repeated fields may hold together, besides CELLS_PER_BYTE for each byte. The function raises BadValueError.

    Raises ValueError if the two do not go together.
    """
    if writer.name != reader.name:
        raise ValueError(f"it is a message {writer.full_name} and not a {reader.full_name}")
    fields, parse = _message(writer, reader), GetMessageClass(writer).FromString

    def read(value: bytes, cells: int) -> dict[str, Any]:
        try:
            message = parse(value)
        except DecodeError as error:
            raise BadValueError(str(error)) from None
        row: dict[str, Any] = fields(message, Left(cells + CELLS_PER_BYTE * len(value)))
        return row

    return read


@lru_cache(maxsize=64)
def reader_message(carried: str) -> Any:
    """The message of a schema as tasks have it."""
    schema = ProtoSchema.of_carried(carried)
    return pool_of(schema.file)[0].FindMessageTypeByName(schema.message)


def _varint(value: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    for byte in value[at : at + 5]:
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise BadValueError("the indexes of its message end too early")


def _message(writer: Any, reader: Any) -> Read:
    written = {each.number: each for each in writer.fields}
    reads = [(each.name, _field(written.get(each.number), each)) for each in reader.fields]

    def read(message: Any, left: Left) -> dict[str, Any]:
        return {name: of_field(message, left) for name, of_field in reads}

    return read


def _field(writer: Any, reader: Any) -> Read:
    """Of a message of the writer's, what a field of the reader's is."""
    absent = _absent(reader)
    if writer is None:
        return lambda _message, _left: absent
    where = f"field {reader.name} ({reader.number})"
    if is_map(writer) != is_map(reader) or bool(writer.is_repeated) != bool(reader.is_repeated):
        raise ValueError(f"{where} is {_shape(writer)} there and {_shape(reader)} here")
    name = writer.name
    if is_map(writer):
        return _map(name, *_pairs(writer, reader, where), _cells(reader))
    one = _single(writer, reader, where)
    if writer.is_repeated:
        return _list(name, one, _cells(reader))
    if not writer.has_presence:
        return lambda message, left: one(getattr(message, name), left)
    return lambda message, left: one(getattr(message, name), left) if message.HasField(name) else absent


def _list(name: str, one: Read, cells: int) -> Read:
    def read(message: Any, left: Left) -> list[Any]:
        found = getattr(message, name)
        left.take(len(found) * cells)
        return [one(each, left) for each in found]

    return read


def _map(name: str, key: Read, value: Read, cells: int) -> Read:
    def read(message: Any, left: Left) -> list[tuple[Any, Any]]:
        found = getattr(message, name)
        left.take(len(found) * cells)
        # In an order of its own: the library's differs from process to process, and digests would.
        return sorted((key(k, left), value(found[k], left)) for k in sorted(found))

    return read


def _pairs(writer: Any, reader: Any, where: str) -> tuple[Read, Read]:
    theirs, ours = writer.message_type.fields_by_name, reader.message_type.fields_by_name
    return _single(theirs["key"], ours["key"], where), _single(theirs["value"], ours["value"], where)


def _cells(reader: Any) -> int:
    if is_map(reader):
        inner = reader.message_type.fields_by_name
        return 1 + cells_of(single_type(inner["value"], ""))
    return cells_of(single_type(reader, ""))


def _single(writer: Any, reader: Any, where: str) -> Read:
    theirs, ours = writer.type, reader.type
    if theirs in MESSAGES and ours in MESSAGES:
        return _inner(writer.message_type, reader.message_type, where)
    if theirs in _WHOLE and ours in _WHOLE:
        return _whole(ours, where)
    if theirs == ours == Field.TYPE_ENUM:
        return _enum(writer.enum_type, reader.enum_type, where)
    if theirs in _TEXTS and ours in _TEXTS and theirs != ours:
        return _as_text(where) if ours == Field.TYPE_STRING else lambda value, _: value.encode()
    if theirs == ours or (theirs, ours) == _FLOATS:
        return lambda value, _: value
    raise ValueError(f"{where} is {_kind(writer)} there and {_kind(reader)} here")


def _inner(writer: Any, reader: Any, where: str) -> Read:
    special = {TIMESTAMP, *WRAPPERS}
    if writer.full_name != reader.full_name and {writer.full_name, reader.full_name} & special:
        raise ValueError(f"{where} is {writer.full_name} there and {reader.full_name} here")
    if reader.full_name == TIMESTAMP:
        return _timestamp(where)
    fields = _message(writer, reader)
    return (lambda value, left: fields(value, left)["value"]) if reader.full_name in WRAPPERS else fields


def _whole(ours: int, where: str) -> Read:
    least, most = whole_range(ours)

    def read(value: int, _left: Left) -> Any:
        if not least <= value <= most:
            raise BadValueError(f"{where} is {value}, which does not fit")
        return Decimal(value) if ours in LARGE else value

    return read


def _enum(writer: Any, reader: Any, where: str) -> Read:
    """The reader's name of a number, or else the writer's."""
    names = {number: each.name for kind in (writer, reader) for number, each in kind.values_by_number.items()}

    def read(value: int, _left: Left) -> Any:
        if value not in names:
            raise BadValueError(f"{where} is {value}, for which {writer.full_name} has no name")
        return names[value]

    return read


def _as_text(where: str) -> Read:
    def read(value: bytes, _left: Left) -> str:
        try:
            return str(value, "utf-8")
        except UnicodeDecodeError as error:
            raise BadValueError(f"{where} is to be a string and is not UTF-8: {error.reason}") from None

    return read


def _timestamp(where: str) -> Read:
    def read(value: Any, _left: Left) -> int:
        if not (_FIRST_S <= value.seconds <= _LAST_S and 0 <= value.nanos < 1_000_000_000):
            raise BadValueError(f"{where} is {value.seconds} s and {value.nanos} ns, which is no timestamp")
        return int(value.seconds * 1_000_000 + value.nanos // 1_000)

    return read


def _absent(field: Any) -> Any:
    """What a field is that was not written: null, or its default if Protobuf can't tell the two apart."""
    if field.is_repeated:
        return []
    if field.has_presence:
        return None
    if field.type == Field.TYPE_ENUM:
        return field.enum_type.values[0].name
    return Decimal(0) if field.type in LARGE else field.default_value


def _shape(field: Any) -> str:
    return "a map" if is_map(field) else "repeated" if field.is_repeated else "a single value"


def _kind(field: Any) -> str:
    if field.type in MESSAGES:
        return str(field.message_type.full_name)
    names = {value: name for name, value in vars(Field).items() if name.startswith("TYPE_")}
    return str(names[field.type]).removeprefix("TYPE_").lower()
