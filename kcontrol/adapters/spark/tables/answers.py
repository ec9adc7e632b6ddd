"""Runs a statement that was checked, within limits, and brings its rows as JSON has them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, DataType, DecimalType

from kcontrol.adapters.spark.internals import thrown_by
from kcontrol.adapters.spark.tables.guard import first_line
from kcontrol.requests.table_questions import StatementRefusedError, TableColumn

MAX_RESULT = "spark.driver.maxResultSize"
_TIMES = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
_TO_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": _TIMES,
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def columns_of(frame: DataFrame) -> list[TableColumn]:
    return [TableColumn(field.name, field.dataType.simpleString()) for field in frame.schema.fields]


def rows_of(
    spark: SparkSession, sql: str, most_rows: int, most_bytes: int
) -> tuple[list[TableColumn], list[Sequence[Any]], bool]:
    """Columns, rows, and whether there are more than these.

    Raises StatementRefusedError: Spark refuses the statement, it fails on the data, or a row is too large.
    """
    try:
        frame = spark.sql(sql)
        columns = columns_of(frame)
        texts = [row[0] for row in _as_json(frame.limit(most_rows + 1)).collect()]
    except PySparkException as error:
        raise _refused(error, most_bytes) from error
    except Exception as error:
        if not thrown_by(error):
            raise
        raise _refused(error, most_bytes) from error
    rows: list[Sequence[Any]] = []
    size = 0
    for text in texts[:most_rows]:
        size += len(text)
        if size > most_bytes:
            if not rows:
                raise StatementRefusedError(
                    f"the first row alone has more than the {most_bytes:,} bytes of an answer"
                )
            return columns, rows, True
        rows.append(list(json.loads(text).values()))
    return columns, rows, len(texts) > most_rows


def _as_json(frame: DataFrame) -> DataFrame:
    """One text a row. Fields are named by their places, since a statement may give two columns one name."""
    kinds = [field.dataType for field in frame.schema.fields]
    named = frame.toDF(*[f"c{place}" for place in range(len(kinds))])
    whole = sf.struct(*[_readable(f"c{place}", kind).alias(f"c{place}") for place, kind in enumerate(kinds)])
    return named.select(sf.to_json(whole, _TO_JSON))


def _readable(name: str, kind: DataType) -> Column:
    value = sf.col(name)
    if isinstance(kind, DecimalType):
        return value.cast("string")
    if isinstance(kind, BinaryType):
        text = value.cast("string")
        return sf.when(sf.is_valid_utf8(text), text).otherwise(sf.concat(sf.lit("base64:"), sf.base64(value)))
    return value


def _refused(error: Exception, most_bytes: int) -> StatementRefusedError:
    said = first_line(error)
    if MAX_RESULT in str(error):
        return StatementRefusedError(
            f"the answer has more than {most_bytes:,} bytes: ask for fewer rows or columns"
        )
    return StatementRefusedError(f"Spark refuses the statement: {said}")
