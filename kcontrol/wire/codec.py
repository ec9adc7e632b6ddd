"""Records to bytes and back: Avro single-object encoding, resolvable by any reader without a registry.

Each value is C3 01, the CRC-64-AVRO fingerprint of its schema (8 bytes, little endian), and the Avro body. A
writer puts the schema itself under the key `schema/FINGERPRINT` into a partition before it uses it there; a
reader hands these to `learn`, so that it can read what older and newer versions have written.
"""

from __future__ import annotations

import json
import struct
from io import BytesIO
from typing import Any, get_args

from fastavro import schemaless_reader, schemaless_writer
from fastavro.read import SchemaResolutionError
from fastavro.schema import SchemaParseException, UnknownType

from kcontrol.core.model import ControlRecord, StepRecord
from kcontrol.errors import DamagedRecordError, UnknownRecordError
from kcontrol.wire.schemas import Schema, current_schemas, make_schema, released_schemas
from kcontrol.wire.shapes import from_avro, to_avro

MAGIC = b"\xc3\x01"
HEADER_BYTES = 10
SCHEMA_KEY = "schema/"

AnyRecord = ControlRecord | StepRecord
RECORD_CLASSES: dict[str, type] = {
    cls.__name__: cls for cls in (*get_args(ControlRecord), *get_args(StepRecord))
}

# What fastavro and the dataclasses raise for bytes that are not what the schema says, or a
# schema that can't be resolved.
_DAMAGE = (
    *(EOFError, IndexError, KeyError, ValueError, TypeError, OverflowError, MemoryError, RecursionError),
    *(struct.error, SchemaResolutionError),
)


def is_schema_key(key: str) -> bool:
    """Whether the record under this key is a schema for `learn`."""
    return key.startswith(SCHEMA_KEY)


def schema_key(fingerprint: bytes) -> str:
    """The key of a schema: its fingerprint in hexadecimal, in the order of the bytes on the wire."""
    return SCHEMA_KEY + fingerprint.hex()


def record_bytes(record: Any, schema: Schema) -> bytes:
    """A record in single-object encoding, by the schema of the same name as its class."""
    cls: type = type(record)
    buffer = BytesIO()
    buffer.write(MAGIC + schema.fingerprint)
    schemaless_writer(buffer, schema.parsed, to_avro(cls)(record))
    return buffer.getvalue()


def record_of(data: bytes, written: Schema, reader: Schema, cls: type, where: str) -> Any:
    """The `cls` in `data`, which was written by one schema and is read as by another of the same name. Raises
    DamagedRecordError."""
    body = BytesIO(data)
    body.seek(HEADER_BYTES)
    try:
        same = written.fingerprint == reader.fingerprint
        values: Any = schemaless_reader(body, written.parsed, None if same else reader.parsed)
        record = from_avro(cls)(values)
    except _DAMAGE as error:
        raise DamagedRecordError(
            f"{where} is not a readable {written.name} ({error!r}): its bytes are damaged"
        ) from error
    if body.tell() != len(data):
        raise DamagedRecordError(
            f"{where}: {len(data) - body.tell()} bytes follow the {written.name}: its bytes are damaged"
        )
    return record


class RecordCodec:
    """Encodes and decodes every record of the control and steps topics. Keeps the
    schemas it has learnt; no I/O."""

    def __init__(self) -> None:
        self._current = current_schemas()
        self._known: dict[bytes, Schema] = {}
        for versions in (*released_schemas().values(), tuple(self._current.values())):
            self._known.update((schema.fingerprint, schema) for schema in versions)

    def encode(self, record: AnyRecord) -> bytes:
        """The record as bytes, by the schema of the same name as its class."""
        return record_bytes(record, self._current[type(record).__name__])

    def publications(self, record: AnyRecord) -> list[tuple[str, bytes]]:
        """(key, value) of each schema that must be in a partition before this record is; a writer remembers
        which are."""
        schema = self._current[type(record).__name__]
        return [(schema_key(schema.fingerprint), schema.json.encode())]

    def learn(self, key: str, value: bytes, where: str = "a schema record") -> None:
        """Take in a record found under `schema/FINGERPRINT`. Raises DamagedRecordError if it is not that
        schema."""
        try:
            schema = make_schema(json.loads(value))
        except (
            ValueError,
            TypeError,
            KeyError,
            AttributeError,
            RecursionError,
            SchemaParseException,
            UnknownType,
        ) as error:
            raise DamagedRecordError(
                f"{where}: the value under {key!r} is not an Avro schema ({error!r})"
            ) from error
        if schema_key(schema.fingerprint) != key:
            raise DamagedRecordError(
                f"{where}: the schema under {key!r} has the fingerprint {schema.fingerprint.hex()}"
            )
        self._known.setdefault(schema.fingerprint, schema)

    def knows(self, data: bytes) -> bool:
        """Whether the schema is known that wrote `data`; True also for what is no record at all, as `decode`
        will say."""
        return len(data) < HEADER_BYTES or data[:2] != MAGIC or data[2:HEADER_BYTES] in self._known

    def decode(self, data: bytes, where: str = "a record") -> AnyRecord:
        """The record in `data`, whichever known version wrote it.

        where: topic, partition and offset, for the message. Raises UnknownRecordError for a kind of record
        that only newer versions have, and DamagedRecordError for anything else that can't be read.
        """
        written = self._writer_schema(data, where)
        reader = self._current.get(written.name)
        if reader is None or reader.name not in RECORD_CLASSES:
            raise UnknownRecordError(
                f"{where} is a {written.name}, which this version of kcontrol does not know there: a newer "
                "one wrote it"
            )
        record: AnyRecord = record_of(data, written, reader, RECORD_CLASSES[reader.name], where)
        return record

    def _writer_schema(self, data: bytes, where: str) -> Schema:
        if len(data) < HEADER_BYTES or data[:2] != MAGIC:
            raise DamagedRecordError(
                f"{where} does not start like an Avro single-object record (C3 01): something other "
                "than kcontrol wrote it"
            )
        schema = self._known.get(data[2:HEADER_BYTES])
        if schema is None:
            key = schema_key(data[2:HEADER_BYTES])
            raise DamagedRecordError(
                f"{where} was written with an unknown schema: there was no {key!r} before it in its "
                "partition; either the record is damaged or its writer did not publish its schema"
            )
        return schema
