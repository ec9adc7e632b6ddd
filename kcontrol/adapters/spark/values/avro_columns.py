"""Avro values as columns and back, in the Python workers: read by our own strict reader, written by fastavro.

An input's value is one datum in Avro's binary encoding, alone or behind the header of the single-object
encoding (C3 01 and the schema's CRC-64-AVRO fingerprint). An output's is the datum alone.
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Callable
from typing import Any

import fastavro
import pyarrow as pa
from fastavro.schema import fingerprint, to_parsing_canonical_form
from pyspark.sql import Column
from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

from kcontrol.adapters.spark.values.avro_types import avro_schema, spark_type
from kcontrol.definition.parts import KafkaInput, KafkaOutput
from kcontrol.errors import ConfigurationError
from kcontrol.wire.avro_reader import BadValueError, reader_of

SINGLE_OBJECT = b"\xc3\x01"
HEADER_BYTES = 10
_MAX_REASON_CHARS = 200
PIECE_ROWS = 256
"""So many values at a time, so that what they grow to in Python is never there for all of a batch at once."""


def avro_fields(value: Column, source: KafkaInput, bad_name: str) -> tuple[StructType, Column]:
    """(the value's fields, a struct column of them and of `bad_name`: why the value is bad, null for a good
    one)."""
    where = f"input {source.name!r}"
    parsed = _parsed_schema(source.schema)
    kind = spark_type(parsed, where)
    assert isinstance(kind, StructType)
    with_reason = StructType([*kind.fields, StructField(bad_name, StringType())])
    reader_of(parsed, where)
    decoder = _decoder(json.dumps(parsed), with_reason, bad_name, source.max_cells)
    return kind, value_udf(decoder, with_reason)(value)


def avro_value(row: Column, kind: StructType, output: KafkaOutput) -> Column:
    """The struct column `row`, of type `kind`, as Avro binary by the output's schema, or
    by one that follows from `kind`.

    Raises ConfigurationError when the schema asks for a field without a default that the frame does not have.
    """
    return value_udf(_encoder(json.dumps(schema_of(kind, output))), BinaryType())(row)


def schema_of(kind: StructType, output: KafkaOutput) -> dict[str, Any]:
    """The Avro schema by which an output's values are written. Raises as `avro_value`."""
    where = f"output {output.name!r}"
    schema = avro_schema(kind, output.name, where) if output.schema is None else _parsed_schema(output.schema)
    for field in schema["fields"]:
        if "default" not in field and field["name"] not in kind.fieldNames():
            raise ConfigurationError(
                f"{where}: its Avro schema needs the field {field['name']!r}, which the frame does not have; "
                f"it has {', '.join(kind.fieldNames())}"
            )
    return schema


def value_udf(function: Callable[[pa.Array], pa.Array], kind: DataType) -> Callable[[Column], Column]:
    """A function of Arrow arrays as one of columns. Spark warns of a kind of function that is said and not hinted at;
    users can do nothing about ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        made: Callable[[Column], Column] = arrow_udf(function, kind, ArrowUDFType.SCALAR)
        return made


def _parsed_schema(schema: Any) -> dict[str, Any]:
    definition: dict[str, Any] = json.loads(schema) if isinstance(schema, str) else dict(schema)
    return definition


def _decoder(
    schema_text: str, kind: StructType, bad_name: str, max_cells: int
) -> Callable[[pa.Array], pa.Array]:
    arrow_type = to_arrow_type(kind, timezone="UTC")

    def decode(values: pa.Array) -> pa.Array:
        reader = ValueReader(schema_text, bad_name, max_cells)
        pieces = [
            pa.array(
                [None if value is None else reader.read(value) for value in piece.to_pylist()], arrow_type
            )
            for piece in (values.slice(at, PIECE_ROWS) for at in range(0, len(values), PIECE_ROWS))
        ]
        return pa.concat_arrays(pieces) if pieces else pa.array([], arrow_type)

    return decode


def _encoder(schema_text: str) -> Callable[[pa.Array], pa.Array]:
    def encode(rows: pa.Array) -> pa.Array:
        schema = fastavro.parse_schema(json.loads(schema_text))
        return pa.array(
            [None if row is None else encode_row(row, schema) for row in rows.to_pylist()], pa.binary()
        )

    return encode


class ValueReader:
    """Reads values of one schema. max_cells: see `avro_reader.reader_of`."""

    def __init__(self, schema_text: str, bad_name: str, max_cells: int) -> None:
        definition = json.loads(schema_text)
        crc = bytes.fromhex(fingerprint(to_parsing_canonical_form(definition), "CRC-64-AVRO"))
        self.header = SINGLE_OBJECT + crc
        """What single objects of the schema begin with."""
        self._read, self._bad_name, self._max_cells = reader_of(definition, "input"), bad_name, max_cells

    def read(self, value: bytes) -> dict[str, Any]:
        """The fields of one value, or only why it has none under `bad_name`."""
        begin = HEADER_BYTES if value.startswith(self.header) else 0
        try:
            row = self._read(value, begin, self._max_cells)
        except BadValueError as error:
            return {self._bad_name: f"not valid Avro for the schema: {error}"[:_MAX_REASON_CHARS]}
        row[self._bad_name] = None
        return row


def encode_row(row: dict[str, Any], schema: Any) -> bytes:
    """One row as an Avro datum."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, schema, row)
    return body.getvalue()
