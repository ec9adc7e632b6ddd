"""Lines of files as rows, and what becomes of a line that can't be parsed or is too long: as with values of Kafka's records."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from kcontrol.adapters.spark.query.exponents import csv_without_large
from kcontrol.adapters.spark.query.parse import (
    BAD,
    fields_of,
    place_of_bad,
    struct_of,
    with_fields,
    with_json,
    without_bad,
)
from kcontrol.definition.files import FileInput
from kcontrol.errors import ConfigurationError

_SHOWN = ("file", "partition", "offset", "value")
_CORRUPT = "__kcontrol_corrupt"


def named_by_header(source: FileInput) -> list[str]:
    """What the first line of each file must name; nothing if there is no such line."""
    return struct_of(source.name, source.schema).fieldNames() if source.header else []


def parsed_lines(raw: DataFrame, source: FileInput) -> DataFrame:
    """`raw` with the fields of its lines, bad ones treated as the input says."""
    schema, frame = _with_parsed(raw, source)
    taken = [name for name in schema.fieldNames() if name in _SHOWN]
    if taken:
        raise ConfigurationError(
            f"input {source.name!r}: the fields {', '.join(taken)} have names of columns that each input of files "
            f"has; rename them in "
            "the schema"
        )
    bad = sf.col(BAD)
    frame = without_bad(frame, source, bad, _complaint(raw, source, bad))
    return frame.select(*[sf.col(name) for name in _SHOWN], *fields_of(schema))


def dead_lines(raw: DataFrame, source: FileInput) -> DataFrame:
    """The bad lines as they are, of one that is too long its beginning, with headers that say from where and why. The columns
    are those of a raw output."""
    _, frame = _with_parsed(raw, source)
    bad = sf.col(BAD)
    told = {
        "kcontrol.error": bad,
        "kcontrol.file": sf.col("file"),
        "kcontrol.offset": sf.col("offset").cast("string"),
    }
    headers = sf.array(
        *[
            sf.struct(sf.lit(name).alias("key"), text.cast("binary").alias("value"))
            for name, text in told.items()
        ]
    )
    key = sf.lit(None).cast("binary")
    return frame.filter(bad.isNotNull()).select(key.alias("key"), "value", headers.alias("headers"))


def _with_parsed(raw: DataFrame, source: FileInput) -> tuple[StructType, DataFrame]:
    """The schema, and `raw` with its fields as `with_fields`."""
    wrong = sf.col("wrong")
    if source.value_format is None:
        return StructType(), with_fields(raw, [], wrong)
    schema = struct_of(source.name, source.schema)
    if source.value_format == "json":
        return schema, with_json(raw, schema).withColumn(BAD, sf.coalesce(wrong, sf.col(BAD)))
    value, reason = _csv(sf.col("value").cast("string"), schema)
    fields = [value.getField(name) for name in schema.fieldNames()]
    return schema, with_fields(raw, fields, sf.coalesce(wrong, reason))


def _csv(text: Column, schema: StructType) -> tuple[Column, Column]:
    """The fields, and why they are none."""
    whole = StructType([*schema.fields, StructField(_CORRUPT, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, "escape": '"'}
    cells = csv_without_large(text, schema, lambda fields: sf.from_csv(text, fields.toDDL(), {"escape": '"'}))
    value = sf.from_csv(cells, whole.toDDL(), options)
    quotes = sf.length(text) - sf.length(sf.replace(text, sf.lit('"'), sf.lit("")))
    shown = sf.substring(sf.make_valid_utf8(text), 1, 100)
    reason = (
        sf.when(~sf.is_valid_utf8(text), sf.concat(sf.lit("not UTF-8: "), shown))
        .when(quotes % 2 == 1, sf.concat(sf.lit("a field in quotes does not end within the line: "), shown))
        .when(
            value.isNull() | value.getField(_CORRUPT).isNotNull(),
            sf.concat(sf.lit("not valid CSV for the schema: "), shown),
        )
    )
    return value, reason


def _complaint(raw: DataFrame, source: FileInput, bad: Column) -> Column:
    form = "" if source.value_format is None else f" of value_format={source.value_format!r} by the schema"
    return sf.concat(
        sf.lit(f"input {source.name!r}: the line of "),
        place_of_bad(raw, "file"),
        sf.lit(" at offset "),
        place_of_bad(raw, "offset").cast("string"),
        sf.lit(f" is no record{form}: "),
        bad,
        sf.lit("; set on_bad_record='skip' or 'dead_letter', or go on behind it with kcontrol skip"),
    )
