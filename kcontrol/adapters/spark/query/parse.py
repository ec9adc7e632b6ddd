"""Values of input records as columns, and what becomes of a record whose value can't be parsed.

Spark's JSON reader and, for Avro, fastavro in the Python workers give each record its fields or the fact that
it is bad. A bad record halts the pipeline, is left out and counted, or goes with the reason to a dead-letter
topic in the same step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import BooleanType, StringType, StructField, StructType

from kcontrol.adapters.spark.channel.client import ChannelAddress
from kcontrol.adapters.spark.query.confluent_columns import (
    NO_ID,
    begins_with_id,
    confluent_fields,
    json_behind_id,
)
from kcontrol.adapters.spark.query.exponents import json_without_large
from kcontrol.adapters.spark.query.watermark import SKIPPED_METRIC
from kcontrol.adapters.spark.values.avro_columns import avro_fields
from kcontrol.adapters.spark.values.json_types import (
    IS_NULL,
    UNPARSED,
    is_beside,
    is_sure,
    json_column,
    left_column,
)
from kcontrol.core.model import BadRecords
from kcontrol.definition.files import FileInput
from kcontrol.definition.inputs import Input
from kcontrol.definition.parts import KafkaInput
from kcontrol.errors import ConfigurationError

_PARSED = "__kcontrol_parsed"
BAD = "__kcontrol_bad"
"""Column: why the record is bad; null for a good one."""
DELETED = "deleted"
"""The column that tells tombstones."""
_WHOLE, _END = "__kcontrol_value", "__kcontrol_end"
"""Around a JSON value: an object that ends where the value does."""


def parsed(raw: DataFrame, source: KafkaInput, address: ChannelAddress) -> DataFrame:
    """`raw` with the value's fields beside Kafka's columns, bad records treated as the input says.

    address: of the driver, whom tasks ask for schemas.
    """
    if source.value_format is None:
        return raw
    schema, frame = _with_parsed(raw, source, address)
    taken = [name for name in schema.fieldNames() if name in raw.columns]
    if taken:
        raise ConfigurationError(
            f"input {source.name!r}: the value's fields {', '.join(taken)} have names of Kafka's columns; "
            "rename them in the schema"
        )
    bad = sf.col(BAD)
    frame = without_bad(frame, source, bad, _complaint(raw, source, bad))
    fields = fields_of(schema)
    if source.tombstones == "drop":
        frame = frame.filter(~_is_null(raw))
    elif source.tombstones == "mark":
        if DELETED in schema.fieldNames():
            raise ConfigurationError(
                f"input {source.name!r}: tombstones='mark' adds a column {DELETED!r}, which the schema has already; rename "
                "it there, or take value IS NULL"
            )
        fields.append(_is_null(raw).alias(DELETED))
    shown = [sf.col(name) for name in raw.columns if not is_beside(name)]
    return frame.select(*shown, *fields)


def without_bad(
    frame: DataFrame, source: KafkaInput | FileInput, bad: Column, complaint: Column
) -> DataFrame:
    """The rows for which `bad` is null; what becomes of the others is as the input says."""
    if source.bad_records is BadRecords.HALT:
        halted = sf.raise_error(complaint).cast("boolean")
        return frame.filter(sf.when(bad.isNull(), sf.lit(True)).otherwise(halted))
    if source.bad_records is BadRecords.SKIP:
        frame = frame.observe(SKIPPED_METRIC + source.name, sf.count(bad).alias("records"))
    return frame.filter(bad.isNull())


def dead_letters(raw: DataFrame, source: KafkaInput, address: ChannelAddress) -> DataFrame:
    """The bad records of an input as they came, with headers that say from where and why.

    `raw` has the column headers. The columns are those of a raw output.
    """
    _, frame = _with_parsed(raw, source, address)
    bad = sf.col(BAD)
    told = {
        "kcontrol.error": bad,
        "kcontrol.topic": sf.col("topic"),
        "kcontrol.partition": sf.col("partition").cast("string"),
        "kcontrol.offset": sf.col("offset").cast("string"),
    }
    added = sf.array(
        *[
            sf.struct(sf.lit(name).alias("key"), text.cast("binary").alias("value"))
            for name, text in told.items()
        ]
    )
    kept = sf.coalesce(sf.col("headers"), sf.array().cast("array<struct<key: string, value: binary>>"))
    return frame.filter(bad.isNotNull()).select("key", "value", sf.concat(kept, added).alias("headers"))


def _complaint(raw: DataFrame, source: KafkaInput, bad: Column) -> Column:
    return sf.concat(
        sf.lit(f"input {source.name!r}: the record of topic {source.topic!r}, partition "),
        place_of_bad(raw, "partition").cast("string"),
        sf.lit(", offset "),
        place_of_bad(raw, "offset").cast("string"),
        sf.lit(f", is not what value_format={source.value_format!r} and the schema say: "),
        bad,
        sf.lit("; correct the producer or set on_bad_record='skip' or 'dead_letter'"),
    )


def place_of_bad(raw: DataFrame, name: str) -> Column:
    """One of PLACES, of a record that is bad; of others it may be null, which takes less to send to the JVM."""
    return sf.col(left_column(name) if left_column(name) in raw.columns else name)


def json_beside(source: Input) -> StructType | None:
    """The schema of values whose fields the source's tasks put beside them (`json_types`); None: Spark parses them all.

    Raises ConfigurationError.
    """
    if not isinstance(source, KafkaInput | FileInput) or source.value_format != "json":
        return None
    schema = struct_of(source.name, source.schema)
    return schema if is_sure(schema) else None


def with_fields(frame: DataFrame, fields: Sequence[Column], bad: Column) -> DataFrame:
    """`frame` with the fields of a value, by their numbers (`field_column`), and why it is bad; null for a good one."""
    named = {field_column(number): field for number, field in enumerate(fields)}
    return frame.withColumns({**named, BAD: bad})


def fields_of(schema: StructType) -> list[Column]:
    """What `with_fields` has put there, by the names of the schema."""
    return [sf.col(field_column(number)).alias(name) for number, name in enumerate(schema.fieldNames())]


def field_column(number: int) -> str:
    """Where `with_fields` has a field."""
    return f"{_PARSED}_{number}"


def with_json(raw: DataFrame, schema: StructType) -> DataFrame:
    """`raw` with the fields of its JSON values, as `with_fields`."""
    is_beside_them = UNPARSED in raw.columns
    left = sf.col(UNPARSED if is_beside_them else "value")
    text = left.cast("string")
    value, is_one = json_value(text, schema)
    fields = [value.getField(name) for name in schema.fieldNames()]
    if is_beside_them:  # Of what is not left to Spark null is parsed, which is nothing.
        fields = [sf.coalesce(sf.col(json_column(number)), field) for number, field in enumerate(fields)]
    return with_fields(raw, fields, sf.when(left.isNotNull() & ~is_one, not_json(text)))


def _is_null(raw: DataFrame) -> Column:
    return sf.col(IS_NULL) if IS_NULL in raw.columns else sf.col("value").isNull()


def _with_parsed(raw: DataFrame, source: KafkaInput, address: ChannelAddress) -> tuple[StructType, DataFrame]:
    """The schema, and `raw` with its fields as `with_fields`."""
    if source.value_format in ("avro", "confluent-avro", "confluent-protobuf"):
        value = sf.col("value")
        schema, column = (
            avro_fields(value, source, BAD)
            if source.value_format == "avro"
            else confluent_fields(value, source, BAD, address)
        )
        frame = raw.withColumn(_PARSED, column)
        fields = [sf.col(f"{_PARSED}.`{name}`") for name in schema.fieldNames()]
        return schema, with_fields(frame, fields, sf.col(f"{_PARSED}.{BAD}"))
    schema = struct_of(source.name, source.schema)
    if source.value_format == "json":
        return schema, with_json(raw, schema)
    text = json_behind_id(sf.col("value")).cast("string")
    value, is_one = json_value(text, schema)
    reason = (
        sf.when(sf.col("value").isNull(), sf.lit(None))
        .when(~begins_with_id(sf.col("value")), sf.lit(NO_ID))
        .when(~is_one, not_json(text))
    )
    return schema, with_fields(raw, [value.getField(name) for name in schema.fieldNames()], reason)


def json_value(text: Column, schema: StructType) -> tuple[Column, Column]:
    """JSON as a struct, and whether it is one object of the schema, and nothing else."""

    def read(fields: StructType) -> Column:
        return _read_whole(text, fields)

    column = _read_whole(json_without_large(text, schema, _END, read), schema)
    value = column.getField(_WHOLE)
    is_one = (
        value.isNotNull()
        & column.getField(_END).isNotNull()
        & column.getField(BAD).isNull()
        & sf.is_valid_utf8(text)
    )
    return value, is_one


def _read_whole(text: Column, schema: StructType) -> Column:
    """By itself Spark takes the first of several values, or of an array, and does not look at what follows it."""
    whole = StructType(
        [StructField(_WHOLE, schema), StructField(_END, BooleanType()), StructField(BAD, StringType())]
    )
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": BAD}
    return sf.from_json(
        sf.concat(sf.lit(f'{{"{_WHOLE}":'), text, sf.lit(f',"{_END}":true}}')), whole, options
    )


def not_json(text: Column) -> Column:
    """Why a record is bad. A dead letter has the value; here its beginning is enough."""
    return sf.concat(
        sf.lit("not valid JSON for the schema: "), sf.substring(sf.make_valid_utf8(text), 1, 100)
    )


def struct_of(input_name: str, schema: Any) -> StructType:
    """A schema as users give it, as Spark's. Raises ConfigurationError."""
    if isinstance(schema, StructType):
        return schema
    try:
        kind = StructType.fromDDL(str(schema))
    except PySparkException as error:
        said = " ".join((error.getMessage() or str(error)).split("\n")[0].split())
        raise ConfigurationError(
            f"input {input_name!r}: schema = {schema!r} is no schema to Spark: {said}"
        ) from error
    assert isinstance(kind, StructType)
    return kind
