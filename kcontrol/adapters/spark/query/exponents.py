"""Numbers that take a processor for minutes, and all memory, to be made a DECIMAL of: those with exponents of six digits.

Java's BigDecimal takes `1e-500000000` in no time, and writes out half a billion zeros where its digits are brought to those of
a column (`setScale`). Whoever may send a record could stop a pipeline so, whatever becomes of bad records. So in values for
schemas with a DECIMAL such a number is looked for before they are parsed, and makes the record bad.

Of most values no more is asked than whether there is an `e` with as many digits behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from kcontrol.wire.exponents import LARGE

_STRING = r""""[^"\\]*+(?:\\.[^"\\]*+)*+"|'[^'\\]*+(?:\\.[^'\\]*+)*+'"""
"""Of JSON, as Spark reads it. Without going back, for which Java would take its stack."""
_ESCAPED = r"\\u00[2346]"
"""A character of a number in quotes, or another one of ASCII."""


def has_decimal(kind: DataType) -> bool:
    """Whether there is one in a type, however deep."""
    if isinstance(kind, StructType):
        return any(has_decimal(field.dataType) for field in kind)
    if isinstance(kind, ArrayType):
        return has_decimal(kind.elementType)
    return has_decimal(kind.valueType) if isinstance(kind, MapType) else isinstance(kind, DecimalType)


def json_without_large(
    text: Column, schema: StructType, end: str, read: Callable[[StructType], Column]
) -> Column:
    """JSON, or null where a DECIMAL could get such a number, or where it is none at all.

    read: it as a struct in which there are these fields, and `end` if it was read to its end.
    """
    if not has_decimal(schema):
        return text
    # Texts of fields that are no DECIMAL may look like one.
    unquoted = sf.regexp_replace(text, sf.lit(_STRING), sf.lit(""))
    found = read(StructType(_texts(schema)))
    quoted = sf.to_json(found).rlike(f'"[-+0-9.,]*{LARGE}"')
    harmless = ~unquoted.rlike(f"[0-9.]{LARGE}") & found.getField(end).isNotNull() & ~quoted
    return sf.when(~text.rlike(f"{LARGE}|{_ESCAPED}"), text).when(harmless, text)


def csv_without_large(text: Column, schema: StructType, read: Callable[[StructType], Column]) -> Column:
    """The same of a line of CSV. read: it as a struct of these fields, in their order."""
    names = [each.name for each in schema if has_decimal(each.dataType)]
    if not names:
        return text
    found = read(StructType([StructField(each.name, StringType()) for each in schema]))
    cells = [sf.coalesce(found.getField(name).rlike(LARGE), sf.lit(False)) for name in names]
    return sf.when(~text.rlike(LARGE) | ~reduce(or_, cells), text)


def _texts(schema: StructType) -> list[StructField]:
    """The fields that have a DECIMAL, as texts: what is in quotes is a number, too."""
    return [StructField(each.name, _text(each.dataType)) for each in schema if has_decimal(each.dataType)]


def _text(kind: DataType) -> DataType:
    if isinstance(kind, StructType):
        return StructType(_texts(kind))
    if isinstance(kind, ArrayType):
        return ArrayType(_text(kind.elementType))
    return MapType(StringType(), _text(kind.valueType)) if isinstance(kind, MapType) else StringType()
