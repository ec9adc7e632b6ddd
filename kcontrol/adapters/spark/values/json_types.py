"""For which schemas of JSON values the fields can stand beside the values already when Spark gets them, and as which columns.

Of the types named here it was tried that Arrow and Spark's `from_json` read each value that Arrow takes alike
(tests/integration/spark/test_json_columns.py). Of others it is not so, or is not known.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from kcontrol.adapters.spark.values.nullable import nullable

UNPARSED = "__kcontrol_unparsed"
"""Column: the value, if it is left to Spark to parse; else null."""
IS_NULL = "__kcontrol_is_null"
"""Column: whether there is no value."""
PLACES = ("file", "partition", "offset")
"""Columns that say where a record is."""
_FIELD = "__kcontrol_field_"
_LEFT = "__kcontrol_left_"
_SURE = (StringType(), BooleanType(), ShortType(), IntegerType(), LongType(), DoubleType())


def is_sure(kind: DataType) -> bool:
    """Whether Arrow reads JSON values of a type as Spark does, or says that it can't."""
    if isinstance(kind, StructType):
        names = kind.fieldNames()
        return 0 < len(names) == len(set(names)) and all(is_sure(field.dataType) for field in kind)
    return is_sure(kind.elementType) if isinstance(kind, ArrayType) else kind in _SURE


def json_column(number: int) -> str:
    """The column of a field, by its number in the schema."""
    return f"{_FIELD}{number}"


def is_beside(name: str) -> bool:
    """Whether a column of the source is one of these."""
    return name in (UNPARSED, IS_NULL) or name.startswith((_FIELD, _LEFT))


def left_column(name: str) -> str:
    """The column that has one of PLACES for records that may be bad, and null for the others."""
    return _LEFT + name


def left_columns(columns: StructType) -> list[StructField]:
    """Those of a source with these columns."""
    return [
        StructField(left_column(each.name), nullable(each.dataType))
        for each in columns
        if each.name in PLACES
    ]


def json_fields(schema: StructType) -> list[StructField]:
    """Of each field its column. Everything in it may be null."""
    return [StructField(json_column(number), nullable(field.dataType)) for number, field in enumerate(schema)]


def json_columns(columns: StructType, schema: StructType) -> list[StructField]:
    """What stands beside the values of a schema that is sure. columns: of the source, among which they are."""
    added = [StructField(UNPARSED, BinaryType()), StructField(IS_NULL, BooleanType())]
    return [*added, *left_columns(columns), *json_fields(schema)]
