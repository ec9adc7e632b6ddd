"""Values in the wire format of Confluent's serializers: a zero byte, the id of a schema in four bytes, and the datum; of
Protobuf, which message of the schema it is before that.

What an id stands for, a task asks its driver, and a step's attempt at a time: the answer is a matter of record
(decision 089). Tasks remember schemas, which never change under their ids, and not whether a step knows them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kcontrol.adapters.spark.channel.client import ChannelAddress, client_of
from kcontrol.adapters.spark.channel.crossing import carried
from kcontrol.adapters.spark.channel.messages import AskOutputSchema, AskSchemas
from kcontrol.adapters.spark.values.avro_resolution import resolved_reader, same_values, whole_schema
from kcontrol.adapters.spark.values.proto_reader import indexes_of, message_at, read_by, reader_message
from kcontrol.core.model import InputSchema, SchemaReference
from kcontrol.definition.protos import file_of, pool_of
from kcontrol.errors import ConfigurationError
from kcontrol.wire.avro_reader import BadValueError, reader_of

MAGIC = b"\x00"
HEADER_BYTES = 5
_HEADER = struct.Struct(">bI")
_MAX_HELD = 1_024
_MAX_REASON_CHARS = 200
AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
_NAMES = {AVRO: "Avro", PROTOBUF: "Protobuf"}

Read = Callable[[bytes, int], dict[str, Any]]
"""Of (value with its five bytes, cells): its fields. Raises BadValueError."""


def id_of(value: bytes) -> int | None:
    """The schema's id in a value; None for one that is not of this format."""
    return _HEADER.unpack_from(value)[1] if len(value) >= HEADER_BYTES and value[:1] == MAGIC else None


def header_of(schema_id: int) -> bytes:
    """What each value of a schema begins with."""
    return _HEADER.pack(0, schema_id)


@dataclass(frozen=True, slots=True)
class Asking:
    """Whom a task asks, for values of which input."""

    address: ChannelAddress
    input: str

    def schemas(self, ids: Iterable[int]) -> dict[int, InputSchema | None]:
        """By id: what the step knows of it; None: nothing."""
        wanted = sorted(set(ids))
        if not wanted:
            return {}
        known = {each: _held[self.address, each] for each in wanted if (self.address, each) in _held}
        with carried():
            answer = client_of(self.address).ask(AskSchemas(self.input, tuple(wanted), tuple(known)))
        for told in answer.told:
            known[told.schema_id] = told
            if len(_held) >= _MAX_HELD:
                _held.pop(next(iter(_held)))
            _held[self.address, told.schema_id] = told
        return {each: known[each] if each in answer.known else None for each in wanted}


_held: dict[tuple[ChannelAddress, int], InputSchema] = {}
"""What this process has been told. The driver of another pipeline may have another registry."""


@lru_cache(maxsize=16)
def output_id(address: ChannelAddress, output: str, text: str) -> int:
    """Under which id the registry keeps the schema of an output."""
    with carried():
        return client_of(address).ask(AskOutputSchema(output, text)).schema_id


class FramedReader:
    """Reads values of an input whose columns follow from one schema, whatever schemas they were written with.

    kind: AVRO or PROTOBUF. schema_text: of Avro as JSON, of Protobuf as `ProtoSchema.carried`. max_cells: see
    `avro_reader.reader_of`.
    """

    def __init__(
        self, schema_text: str, bad_name: str, max_cells: int, asking: Asking, kind: str = AVRO
    ) -> None:
        self._text, self._bad_name, self._max_cells = schema_text, bad_name, max_cells
        self._asking, self._kind = asking, kind

    def read_all(self, values: Sequence[bytes | None]) -> list[dict[str, Any] | None]:
        """Of each value the fields, or only why it has none under `bad_name`; None for none."""
        ids = [None if value is None else id_of(value) for value in values]
        known = self._asking.schemas(each for each in ids if each is not None)
        return [
            None if value is None else self._row(value, schema_id, known)
            for value, schema_id in zip(values, ids, strict=True)
        ]

    def _row(
        self, value: bytes, schema_id: int | None, known: Mapping[int, InputSchema | None]
    ) -> dict[str, Any]:
        try:
            row = self._fields(value, schema_id, known)
        except BadValueError as error:
            return {self._bad_name: str(error)[:_MAX_REASON_CHARS]}
        row[self._bad_name] = None
        return row

    def _fields(
        self, value: bytes, schema_id: int | None, known: Mapping[int, InputSchema | None]
    ) -> dict[str, Any]:
        if schema_id is None:
            raise BadValueError(
                f"it does not begin with a zero byte and a schema's id of four, but with {_shown(value)}: no serializer "
                "of a schema registry wrote it"
            )
        schema = known[schema_id]
        if schema is None:
            raise BadValueError(f"the schema registry does not know its schema, id {schema_id}")
        name = _NAMES[self._kind]
        if schema.kind != self._kind:
            raise BadValueError(
                f"its schema, id {schema_id}, is {schema.kind} in the registry and not {name}"
            )
        read, why = _reader(self._kind, schema.text, schema.references, self._text)
        if read is None:
            raise BadValueError(f"its schema, id {schema_id}, can't be used: {why}")
        try:
            return read(value, self._max_cells)
        except BadValueError as error:
            raise BadValueError(f"not valid {name} for its schema, id {schema_id}: {error}") from None


@lru_cache(maxsize=256)
def _reader(
    kind: str, text: str, references: tuple[SchemaReference, ...], reader_text: str
) -> tuple[Read | None, str]:
    """How values of a schema become those of the reader's; None and why if they can't."""
    try:
        made = _proto_reader if kind == PROTOBUF else _avro_reader
        return made(text, references, reader_text), ""
    except (ValueError, ConfigurationError) as error:
        return None, str(error)


def _avro_reader(text: str, references: tuple[SchemaReference, ...], reader_text: str) -> Read:
    writer, reader = whole_schema(text, references), whole_schema(reader_text)
    read = (
        reader_of(reader, "input")
        if same_values(writer, reader)
        else resolved_reader(writer, reader, "input")
    )
    return lambda value, cells: read(value, HEADER_BYTES, cells)


def _proto_reader(text: str, references: tuple[SchemaReference, ...], reader_text: str) -> Read:
    """Each message of the schema is read in its own way, which is made when the first of them comes."""
    _, file = pool_of(_serialized(text), [(each.name, _serialized(each.text)) for each in references])
    ways: dict[tuple[int, ...], Read | str] = {}

    def read(value: bytes, cells: int) -> dict[str, Any]:
        indexes, begin = indexes_of(value, HEADER_BYTES)
        if indexes not in ways:
            message = message_at(file, indexes)
            try:
                ways[indexes] = read_by(message, reader_message(reader_text))
            except ValueError as error:
                ways[indexes] = str(error)
        way = ways[indexes]
        if isinstance(way, str):
            raise BadValueError(way)
        return way(value[begin:], cells)

    return read


def _serialized(text: str) -> bytes:
    file = file_of(text)
    if file is None:
        raise ValueError("the registry did not give it in Protobuf's serialized format, as it was asked to")
    return file


def _shown(value: bytes) -> str:
    return value[:HEADER_BYTES].hex(" ") or "nothing"
