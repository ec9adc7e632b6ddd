"""Which types of columns can be exchanged and hashed, and the hashes that a digest of exchanged rows is made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from kcontrol.adapters.spark.channel.targets import SHARD_COLUMN
from kcontrol.errors import ConfigurationError

_HASHED: tuple[type[DataType], ...] = (
    ArrayType,
    StructType,
    BooleanType,
    ByteType,
    ShortType,
    IntegerType,
    LongType,
    DecimalType,
    StringType,
    BinaryType,
    DateType,
    TimestampType,
    TimestampNTZType,
)
_CARRIED = (*_HASHED, MapType, FloatType, DoubleType)
BINARY_COLLATION = "UTF8_BINARY"
_MASKED_AT_ONCE = 62
"""So many columns have a bit each in a long."""


def check_hashed(where: str, fields: Sequence[StructField]) -> None:
    """Raise ConfigurationError for a column of `by` whose equal values may have different hashes, or that has none."""
    for field in fields:
        for kind in within(field.dataType):
            if isinstance(kind, StringType) and kind.collation != BINARY_COLLATION:
                raise ConfigurationError(
                    f"{where}: by = {field.name!r}: text with the collation {kind.collation} may be equal and have "
                    "other hashes: exchange by lower(...) of it, or whatever makes equal text the same"
                )
            if isinstance(kind, FloatType | DoubleType):
                raise ConfigurationError(
                    f"{where}: by = {field.name!r} is of type {field.dataType.simpleString()}: numbers of floating "
                    "point that are equal may have other hashes (-0.0, NaN): cast it to decimal, or to string"
                )
            if not isinstance(kind, _HASHED):
                raise ConfigurationError(
                    f"{where}: by = {field.name!r} is of type {field.dataType.simpleString()}, which has no hash by "
                    "which rows could meet: exchange by a part of it, or by its text"
                )


def check_carried(where: str, schema: StructType) -> None:
    """Raise ConfigurationError for a column of a type that can't travel between nodes."""
    for field in schema.fields:
        for kind in within(field.dataType):
            if not isinstance(kind, _CARRIED):
                raise ConfigurationError(
                    f"{where}: column {field.name!r} is of type {field.dataType.simpleString()}, which can't be "
                    "exchanged between nodes: leave it out, or cast it to a type such as string or binary"
                )


def digest_columns(schema: StructType) -> tuple[Column, Column]:
    """Two different hashes of a row, longs.

    Spark's hash passes over nulls, as if the next column were in their place, so which columns are null is hashed
    too.
    """
    fields = schema.fields
    parts = [
        *[_mask(fields[at : at + _MASKED_AT_ONCE]) for at in range(0, len(fields), _MASKED_AT_ONCE)],
        *[_hashable(named(field.name), field.dataType) for field in fields],
    ]
    return sf.xxhash64(sf.lit(1), *parts), sf.xxhash64(sf.lit(2), *parts)


def shard_of(by: Sequence[str], shards: int) -> Column:
    """The column that says to which of so many shards a row belongs, by these columns of its frame; without any, all rows
    are of shard 0."""
    found = sf.pmod(sf.hash(*[named(name) for name in by]), sf.lit(shards)) if by else sf.lit(0)
    return found.cast("int").alias(SHARD_COLUMN)


def _mask(fields: Sequence[StructField]) -> Column:
    bits = sf.lit(0).cast("long")
    for number, field in enumerate(fields):
        bits = bits + sf.when(named(field.name).isNull(), sf.lit(1 << number).cast("long")).otherwise(
            sf.lit(0).cast("long")
        )
    return bits


def _hashable(column: Column, kind: DataType) -> Column:
    """Maps have no hash in Spark: their entries have, in the order in which they are."""
    if not any(isinstance(inner, MapType) for inner in within(kind)):
        return column
    if isinstance(kind, MapType):
        entry = StructType([StructField("key", kind.keyType), StructField("value", kind.valueType)])
        return _hashable(sf.map_entries(column), ArrayType(entry))
    if isinstance(kind, ArrayType):
        return sf.transform(column, lambda item: _hashable(item, kind.elementType))
    assert isinstance(kind, StructType)
    fields = [_hashable(column.getField(f.name), f.dataType).alias(f.name) for f in kind.fields]
    return sf.when(column.isNotNull(), sf.struct(*fields))


def within(kind: DataType) -> Iterator[DataType]:
    """The type and all within it."""
    yield kind
    if isinstance(kind, ArrayType):
        yield from within(kind.elementType)
    elif isinstance(kind, MapType):
        yield from within(kind.keyType)
        yield from within(kind.valueType)
    elif isinstance(kind, StructType):
        for field in kind.fields:
            yield from within(field.dataType)


def named(name: str) -> Column:
    """The column of exactly that name."""
    return sf.col(quoted(name))


def quoted(name: str) -> str:
    """A column's name as Spark reads it, whatever is in it."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"
