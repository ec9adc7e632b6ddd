"""Values in Confluent's wire format as columns and back, in the Python workers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from kcontrol.adapters.spark.channel.client import ChannelAddress
from kcontrol.adapters.spark.channel.schemas import OutputPlan
from kcontrol.adapters.spark.query.confluent import (
    AVRO,
    HEADER_BYTES,
    JSON,
    MAGIC,
    PROTOBUF,
    Asking,
    FramedReader,
    header_of,
    output_id,
)
from kcontrol.adapters.spark.values.avro_columns import PIECE_ROWS, encode_row, schema_of, value_udf
from kcontrol.adapters.spark.values.avro_resolution import resolved_reader, whole_schema
from kcontrol.adapters.spark.values.avro_types import spark_type
from kcontrol.adapters.spark.values.json_schema import json_schema
from kcontrol.adapters.spark.values.proto_reader import reader_message
from kcontrol.adapters.spark.values.proto_types import message_type
from kcontrol.adapters.spark.values.proto_writer import header_of_message, writer_of
from kcontrol.definition.parts import KafkaInput, KafkaOutput
from kcontrol.definition.protos import ProtoSchema, proto_schema
from kcontrol.definition.schemas import schema_text
from kcontrol.errors import ConfigurationError
from kcontrol.wire.avro_reader import reader_of

NO_ID = "it does not begin with a zero byte and a schema's id of four: no serializer of a schema registry wrote it"


def begins_with_id(value: Column) -> Column:
    """Whether a value has the five bytes before it; of JSON the registry is not asked what they stand for."""
    return (sf.length(value) >= HEADER_BYTES) & (sf.substring(value, 1, 1) == sf.lit(MAGIC))


def json_behind_id(value: Column) -> Column:
    """What follows the five bytes."""
    return sf.substring(value, HEADER_BYTES + 1, 1 << 30)


def confluent_fields(
    value: Column, source: KafkaInput, bad_name: str, address: ChannelAddress
) -> tuple[StructType, Column]:
    """(the fields of the input's own schema, a struct column of them and of `bad_name`: why the value is bad, null for a
    good one)."""
    where = f"input {source.name!r}"
    if source.value_format == "confluent-protobuf":
        text = proto_schema(where, source.schema).carried
        return _framed(
            value, source, bad_name, address, PROTOBUF, text, message_type(reader_message(text), where)
        )
    text = schema_text(source.schema)
    try:
        whole = whole_schema(text)
    except ValueError as error:
        raise ConfigurationError(f"{where}: schema: {error}") from error
    kind = spark_type(whole, where)
    assert isinstance(kind, StructType)
    reader_of(whole, where)
    # Of a writer that knows no field, so that what is wrong with a default is said here and not in a task.
    resolved_reader({**whole, "fields": []}, whole, where)
    return _framed(value, source, bad_name, address, AVRO, text, kind)


def _framed(
    value: Column,
    source: KafkaInput,
    bad_name: str,
    address: ChannelAddress,
    format_: str,
    text: str,
    kind: StructType,
) -> tuple[StructType, Column]:
    with_reason = StructType([*kind.fields, StructField(bad_name, StringType())])
    reading = _Reading(text, bad_name, source.max_cells, Asking(address, source.name), format_)
    return kind, value_udf(_decoder(reading, with_reason), with_reason)(value)


def confluent_value(row: Column, kind: StructType, output: KafkaOutput, address: ChannelAddress) -> Column:
    """The struct column `row`, of type `kind`, as Avro or Protobuf behind the id that the registry has for the output's
    schema.

    Raises ConfigurationError as `avro_value`, and for columns that are not the message's.
    """
    where = f"output {output.name!r}"
    if output.value_format == "confluent-protobuf":
        proto = proto_schema(where, output.schema)
        writer_of(kind, reader_message(proto.carried), where)
        return value_udf(_proto_encoder(proto, kind, output.name, address), BinaryType())(row)
    schema = schema_of(kind, output)
    return value_udf(_encoder(_text(schema), output.name, address), BinaryType())(row)


def confluent_json(text: Column, kind: StructType, output: KafkaOutput, address: ChannelAddress) -> Column:
    """The column `text`, rows of type `kind` as JSON, behind the id that the registry has for their schema."""
    return value_udf(_framer(_json_text(kind, output), output.name, address), BinaryType())(text)


def plans_of(kind: StructType, outputs: Sequence[KafkaOutput]) -> list[OutputPlan]:
    """By which schema the rows of a frame, of type `kind`, are written to each of its outputs."""
    first, group = outputs[0], tuple(each.name for each in outputs)
    if first.value_format == "confluent-protobuf":
        schema = proto_schema(f"output {first.name!r}", first.schema)
        format_, text, name = PROTOBUF, schema.text, schema.message
    elif first.value_format == "confluent-json":
        format_, text = JSON, _json_text(kind, first)
        name = json.loads(text)["title"]
    else:
        format_, text = AVRO, _text(schema_of(kind, first))
        parsed: Any = fastavro.parse_schema(json.loads(text))
        name = parsed["name"]
    return [
        OutputPlan(each.name, each.subject_of(name), format_, text, each.register_schema, group)
        for each in outputs
    ]


def _json_text(kind: StructType, output: KafkaOutput) -> str:
    return _text(json_schema(kind, output.name, f"output {output.name!r}"))


def _text(schema: Any) -> str:
    return json.dumps(schema, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class _Reading:
    """What a task needs to make a FramedReader."""

    text: str
    bad_name: str
    max_cells: int
    asking: Asking
    kind: str


def _decoder(reading: _Reading, kind: StructType) -> Callable[[pa.Array], pa.Array]:
    arrow_type = to_arrow_type(kind, timezone="UTC")

    def decode(values: pa.Array) -> pa.Array:
        reader = FramedReader(reading.text, reading.bad_name, reading.max_cells, reading.asking, reading.kind)
        pieces = [
            pa.array(reader.read_all(values.slice(at, PIECE_ROWS).to_pylist()), arrow_type)
            for at in range(0, len(values), PIECE_ROWS)
        ]
        return pa.concat_arrays(pieces) if pieces else pa.array([], arrow_type)

    return decode


def _encoder(text: str, output: str, address: ChannelAddress) -> Callable[[pa.Array], pa.Array]:
    def encode(rows: pa.Array) -> pa.Array:
        if not len(rows):
            return pa.array([], pa.binary())
        schema = fastavro.parse_schema(json.loads(text))
        header = header_of(output_id(address, output, text))
        rows = rows.to_pylist()
        return pa.array(
            [None if row is None else header + encode_row(row, schema) for row in rows], pa.binary()
        )

    return encode


def _proto_encoder(
    schema: ProtoSchema, kind: StructType, output: str, address: ChannelAddress
) -> Callable[[pa.Array], pa.Array]:
    def encode(rows: pa.Array) -> pa.Array:
        if not len(rows):
            return pa.array([], pa.binary())
        message = reader_message(schema.carried)
        write = writer_of(kind, message, f"output {output!r}")
        header = header_of(output_id(address, output, schema.text)) + header_of_message(message)
        return pa.array(
            [None if row is None else header + write(row) for row in rows.to_pylist()], pa.binary()
        )

    return encode


def _framer(text: str, output: str, address: ChannelAddress) -> Callable[[pa.Array], pa.Array]:
    def frame(values: pa.Array) -> pa.Array:
        if not len(values):
            return pa.array([], pa.binary())
        header = pa.scalar(header_of(output_id(address, output, text)), pa.binary())
        return pc.binary_join_element_wise(header, values.cast(pa.binary()), b"")

    return frame
