"""Avro values as columns and back, with fastavro in the Python workers.

An input's value is one datum in Avro's binary encoding, alone or behind the header of the single-object encoding (C3 01 and the
schema's CRC-64-AVRO fingerprint). An output's is the datum alone.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import fastavro
import pyarrow as pa
from fastavro.schema import fingerprint, to_parsing_canonical_form
from pyspark.sql import Column
from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from kcontrol.adapters.spark.avro_types import avro_schema, spark_type
from kcontrol.errors import ConfigurationError
from kcontrol.runtime.definition import KafkaInput, KafkaOutput

SINGLE_OBJECT = b"\xc3\x01"
HEADER_BYTES = 10
_MAX_REASON_CHARS = 200


def avro_fields(value: Column, source: KafkaInput, bad_name: str) -> tuple[StructType, Column]:
    """(the value's fields, a struct column of them and of `bad_name`: why the value is bad, null for a good one)."""
    where = f"input {source.name!r}"
    parsed = _parsed_schema(source.schema)
    kind = spark_type(parsed, where)
    assert isinstance(kind, StructType)
    with_reason = StructType([*kind.fields, StructField(bad_name, StringType())])
    return kind, arrow_udf(_decoder(json.dumps(parsed), with_reason, bad_name), with_reason, ArrowUDFType.SCALAR)(value)


def avro_value(row: Column, kind: StructType, output: KafkaOutput) -> Column:
    """The struct column `row`, of type `kind`, as Avro binary by the output's schema, or by one that follows from `kind`.

    Raises ConfigurationError when the schema asks for a field without a default that the frame does not have.
    """
    where = f"output {output.name!r}"
    schema = avro_schema(kind, output.name, where) if output.schema is None else _parsed_schema(output.schema)
    for field in schema["fields"]:
        if "default" not in field and field["name"] not in kind.fieldNames():
            raise ConfigurationError(
                f"{where}: its Avro schema needs the field {field['name']!r}, which the frame does not have; "
                f"it has {', '.join(kind.fieldNames())}"
            )
    return arrow_udf(_encoder(json.dumps(schema)), BinaryType(), ArrowUDFType.SCALAR)(row)


def _parsed_schema(schema: Any) -> dict[str, Any]:
    definition: dict[str, Any] = json.loads(schema) if isinstance(schema, str) else dict(schema)
    return definition


def _decoder(schema_text: str, kind: StructType, bad_name: str) -> Callable[[pa.Array], pa.Array]:
    arrow_type = to_arrow_type(kind, timezone="UTC")

    def decode(values: pa.Array) -> pa.Array:
        schema, header = read_schema(schema_text)
        rows = [None if value is None else decode_value(value, schema, header, bad_name) for value in values.to_pylist()]
        return pa.array(rows, arrow_type)

    return decode


def _encoder(schema_text: str) -> Callable[[pa.Array], pa.Array]:
    def encode(rows: pa.Array) -> pa.Array:
        schema = fastavro.parse_schema(json.loads(schema_text))
        return pa.array([encode_row(row, schema) for row in rows.to_pylist()], pa.binary())

    return encode


def read_schema(schema_text: str) -> tuple[Any, bytes]:
    """A schema ready for reading, and the header that single objects of it begin with."""
    definition = json.loads(schema_text)
    crc = bytes.fromhex(fingerprint(to_parsing_canonical_form(definition), "CRC-64-AVRO"))
    return fastavro.parse_schema(definition), SINGLE_OBJECT + crc


def decode_value(value: bytes, schema: Any, header: bytes, bad_name: str) -> dict[str, Any]:
    """The fields of one value, or only why it has none under `bad_name`."""
    body = io.BytesIO(value)
    if value.startswith(header):
        body.seek(HEADER_BYTES)
    try:
        row = fastavro.schemaless_reader(body, schema, None)
    except Exception as error:  # noqa: BLE001 - fastavro raises whatever broken bytes lead it to; each is a bad record
        return {bad_name: f"not valid Avro for the schema: {error!r}"[:_MAX_REASON_CHARS]}
    if body.tell() != len(value):
        return {bad_name: f"not valid Avro for the schema: {len(value) - body.tell()} bytes are left over"}
    assert isinstance(row, dict)
    return {**row, bad_name: None}


def encode_row(row: dict[str, Any], schema: Any) -> bytes:
    """One row as an Avro datum."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, schema, row)
    return body.getvalue()
