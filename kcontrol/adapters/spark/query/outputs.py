"""From a query's frame to the columns of a Kafka record: key, value, headers, partition,
and what the digest is made of.

A raw output takes the columns of Spark's own Kafka sink. With a value format, every column but `headers`,
`partition` and `output` goes into the value, the key's column too: a reader that has only the value misses
nothing. It all happens in the streaming plan, before the writer tasks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, BooleanType, DataType, DoubleType, FloatType, MapType, StructType

from kcontrol.adapters.spark.channel.client import ChannelAddress
from kcontrol.adapters.spark.channel.schemas import OutputPlan
from kcontrol.adapters.spark.channel.targets import DIGEST_COLUMN, OUTPUT_COLUMN
from kcontrol.adapters.spark.query.confluent_columns import confluent_json, confluent_value, plans_of
from kcontrol.adapters.spark.values.avro_columns import avro_value
from kcontrol.definition.parts import KafkaOutput
from kcontrol.definition.schemas import of_registry
from kcontrol.errors import ConfigurationError

_HEADERS_TYPE = "array<struct<key: string, value: binary>>"
_KAFKA_COLUMNS = ("key", "value", "headers", "partition", OUTPUT_COLUMN)
_BESIDE_VALUE = ("headers", "partition")


def to_kafka_columns(
    frame: DataFrame, outputs: Sequence[KafkaOutput], address: ChannelAddress, more: Sequence[Column] = ()
) -> DataFrame:
    """`frame` as key, value, headers, partition (those it has), `output` when it serves
    several, the digest's column, and more of its columns. address: of the driver, whom tasks ask for schemas.

    Raises ConfigurationError naming the output and the column that is missing, unknown or of a wrong type.
    """
    first = outputs[0]
    routed = len(outputs) > 1
    if routed:
        _check_alike(frame, outputs)
    kept = [sf.col(OUTPUT_COLUMN).cast("string")] if routed else []
    if first.value_format is None:
        return frame.select(*kept, *_raw_columns(frame, first, routed), *more)
    return frame.select(*kept, *_formatted_columns(frame, first, routed, address), *more)


def output_plans(frame: DataFrame, outputs: Sequence[KafkaOutput]) -> list[OutputPlan]:
    """The schemas by which a frame's values are written that a registry has, or is to have. Raises ConfigurationError."""
    first = outputs[0]
    if not of_registry(first.value_format):
        return []
    kind = _value_frame(frame, _value_fields(frame, first, routed=len(outputs) > 1)).schema
    return plans_of(kind, outputs)


def _check_alike(frame: DataFrame, outputs: Sequence[KafkaOutput]) -> None:
    names = [output.name for output in outputs]
    if OUTPUT_COLUMN not in frame.columns:
        raise ConfigurationError(
            f"outputs {', '.join(names)}: a frame that serves several outputs needs a column "
            f"{OUTPUT_COLUMN!r}"
        )
    shapes = {
        (
            *(output.value_format, output.key, str(output.schema), output.digest, output.partitioner),
            output.deleted_by,
        )
        for output in outputs
    }
    if len(shapes) > 1:
        raise ConfigurationError(
            f"outputs {', '.join(names)} are served by one frame, so they must have the same value_format, "
            "key, schema, digest, partitioner and deleted_by"
        )


def _raw_columns(frame: DataFrame, output: KafkaOutput, routed: bool) -> list[Column]:
    allowed = _KAFKA_COLUMNS if routed else _KAFKA_COLUMNS[:-1]
    unknown = [name for name in frame.columns if name not in allowed]
    if unknown or "value" not in frame.columns:
        raise ConfigurationError(
            f"output {output.name!r}: without value_format its frame may have the columns key, value "
            f"(needed), headers and partition; it has {', '.join(frame.columns)}: select those, or set "
            "value_format='json' or 'avro'"
        )
    if output.digest.startswith("float:"):
        raise ConfigurationError(
            f"output {output.name!r}: digest={output.digest!r} needs a value_format: raw values have no "
            "numbers"
        )
    columns = []
    for name in ("key", "value"):
        if name in frame.columns:
            columns.append(_as_bytes(frame, name, output))
    return columns + _beside(frame)


def _as_bytes(frame: DataFrame, name: str, output: KafkaOutput) -> Column:
    kind = frame.schema[name].dataType.typeName()
    if kind not in ("binary", "string", "void"):
        raise ConfigurationError(
            f"output {output.name!r}: column {name!r} is {kind}; cast it to string or binary"
        )
    return sf.col(name).cast("binary").alias(name)


def _beside(frame: DataFrame) -> list[Column]:
    casts = {"headers": _HEADERS_TYPE, "partition": "int"}
    return [sf.col(name).cast(casts[name]).alias(name) for name in _BESIDE_VALUE if name in frame.columns]


def _value_fields(frame: DataFrame, output: KafkaOutput, *, routed: bool) -> list[str]:
    apart = {*_BESIDE_VALUE, output.deleted_by, *([OUTPUT_COLUMN] if routed else [])}
    return [name for name in frame.columns if name not in apart]


def _value_frame(frame: DataFrame, fields: Sequence[str]) -> DataFrame:
    return frame.select(*[_quoted(name) for name in fields])


def _formatted_columns(
    frame: DataFrame, output: KafkaOutput, routed: bool, address: ChannelAddress
) -> list[Column]:
    fields = _value_fields(frame, output, routed=routed)
    columns = []
    if output.key:
        if output.key not in frame.columns:
            raise ConfigurationError(
                f"output {output.name!r}: its key column {output.key!r} is not in the frame, which has "
                f"{', '.join(frame.columns)}"
            )
        columns.append(sf.col(_quoted(output.key)).cast("string").cast("binary").alias("key"))
    if not fields:
        raise ConfigurationError(f"output {output.name!r}: no column is left for the value")
    columns.append(_value(frame, fields, output, address).alias("value"))
    if output.digest.startswith("float:"):
        columns.append(_rounded(frame, fields, output).alias(DIGEST_COLUMN))
    return columns + _beside(frame)


def _value(frame: DataFrame, fields: Sequence[str], output: KafkaOutput, address: ChannelAddress) -> Column:
    whole = _unless_deleted(frame, sf.struct(*[sf.col(_quoted(name)) for name in fields]), output)
    text = sf.to_json(whole, {"ignoreNullFields": "false"}).cast("binary")
    if output.value_format == "json":
        return text
    kind = _value_frame(frame, fields).schema
    if output.value_format in ("confluent-avro", "confluent-protobuf"):
        return confluent_value(whole, kind, output, address)
    if output.value_format == "confluent-json":
        return confluent_json(text, kind, output, address)
    return avro_value(whole, kind, output)


def _unless_deleted(frame: DataFrame, row: Column, output: KafkaOutput) -> Column:
    """Null where the output says that its key is deleted."""
    name = output.deleted_by
    if name is None:
        return row
    if name not in frame.columns or not isinstance(frame.schema[name].dataType, BooleanType):
        found = frame.schema[name].dataType.simpleString() if name in frame.columns else "not there"
        raise ConfigurationError(
            f"output {output.name!r}: deleted_by = {name!r} must be a BOOLEAN column of its frame, and is {found}; the "
            f"frame has {', '.join(frame.columns)}"
        )
    return sf.when(sf.coalesce(sf.col(_quoted(name)), sf.lit(False)), sf.lit(None)).otherwise(row)


def _rounded(frame: DataFrame, fields: Sequence[str], output: KafkaOutput) -> Column:
    """The row as JSON with each number of floating point cut to the significant digits of the tolerance."""
    digits = max(1, math.floor(-math.log10(float(output.digest.removeprefix("float:")))))
    rounded = [
        _round(sf.col(_quoted(name)), frame.schema[name].dataType, digits).alias(name) for name in fields
    ]
    return sf.to_json(sf.struct(*rounded)).cast("binary")


def _round(column: Column, kind: DataType, digits: int) -> Column:
    if isinstance(kind, DoubleType | FloatType):
        return sf.format_string(f"%.{digits - 1}e", column.cast("double") + sf.lit(0.0))
    if isinstance(kind, StructType):
        fields = [_round(column.getField(f.name), f.dataType, digits).alias(f.name) for f in kind.fields]
        return sf.when(column.isNotNull(), sf.struct(*fields))
    if isinstance(kind, ArrayType):
        return sf.transform(column, lambda item: _round(item, kind.elementType, digits))
    if isinstance(kind, MapType):
        return sf.transform_values(column, lambda _, item: _round(item, kind.valueType, digits))
    return column


def _quoted(name: str) -> str:
    escaped = name.replace("`", "``")
    return f"`{escaped}`"
