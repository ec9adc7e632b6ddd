"""Values in Confluent's wire format as columns and back, in the Python workers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import fastavro
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from kcontrol.adapters.spark.channel.client import ChannelAddress
from kcontrol.adapters.spark.channel.schemas import OutputPlan
from kcontrol.adapters.spark.query.confluent import AVRO, Asking, FramedReader, header_of, output_id
from kcontrol.adapters.spark.values.avro_columns import PIECE_ROWS, encode_row, schema_of, value_udf
from kcontrol.adapters.spark.values.avro_reader import reader_of
from kcontrol.adapters.spark.values.avro_resolution import resolved_reader, whole_schema
from kcontrol.adapters.spark.values.avro_types import spark_type
from kcontrol.definition.parts import KafkaInput, KafkaOutput
from kcontrol.definition.schemas import schema_text
from kcontrol.errors import ConfigurationError


def confluent_fields(
    value: Column, source: KafkaInput, bad_name: str, address: ChannelAddress
) -> tuple[StructType, Column]:
    """(the fields of the input's own schema, a struct column of them and of `bad_name`: why the value is bad, null for a
    good one)."""
    where = f"input {source.name!r}"
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
    with_reason = StructType([*kind.fields, StructField(bad_name, StringType())])
    asking = Asking(address, source.name)
    return kind, value_udf(_decoder(text, with_reason, bad_name, source.max_cells, asking), with_reason)(
        value
    )


def confluent_value(row: Column, kind: StructType, output: KafkaOutput, address: ChannelAddress) -> Column:
    """The struct column `row`, of type `kind`, as Avro behind the id that the registry has for the output's schema.

    Raises ConfigurationError as `avro_value`.
    """
    schema = schema_of(kind, output)
    return value_udf(_encoder(_text(schema), output.name, address), BinaryType())(row)


def plans_of(kind: StructType, outputs: Sequence[KafkaOutput]) -> list[OutputPlan]:
    """By which schema the rows of a frame, of type `kind`, are written to each of its outputs."""
    text = _text(schema_of(kind, outputs[0]))
    parsed: Any = fastavro.parse_schema(json.loads(text))
    group = tuple(each.name for each in outputs)
    return [
        OutputPlan(each.name, each.subject_of(parsed["name"]), AVRO, text, each.register_schema, group)
        for each in outputs
    ]


def _text(schema: Any) -> str:
    return json.dumps(schema, separators=(",", ":"))


def _decoder(
    text: str, kind: StructType, bad_name: str, max_cells: int, asking: Asking
) -> Callable[[pa.Array], pa.Array]:
    arrow_type = to_arrow_type(kind, timezone="UTC")

    def decode(values: pa.Array) -> pa.Array:
        reader = FramedReader(text, bad_name, max_cells, asking)
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
        return pa.array([header + encode_row(row, schema) for row in rows.to_pylist()], pa.binary())

    return encode
