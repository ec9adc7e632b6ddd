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

from kcontrol.adapters.spark.channel.targets import EXACT, PLAIN, SHARD_COLUMN
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
_NESTED = (ArrayType, MapType, StructType)


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
    """Two different hashes of a row: longs. Where there are nested columns, each is a struct of two, of which the second one
    is exact (decision 189).

    Spark's hash passes over nulls, as if the next column were in their place, so which columns are null is hashed
    too.
    """
    fields = schema.fields
    mask = [_mask(fields[at : at + _MASKED_AT_ONCE]) for at in range(0, len(fields), _MASKED_AT_ONCE)]
    plain = [*mask, *[_hashable(named(field.name), field.dataType) for field in fields]]
    if not any(isinstance(field.dataType, _NESTED) for field in fields):
        return sf.xxhash64(sf.lit(1), *plain), sf.xxhash64(sf.lit(2), *plain)
    exact = [*mask, *[_exact_of(named(field.name), field.dataType) for field in fields]]
    first, second = (
        sf.struct(
            sf.xxhash64(sf.lit(number), *plain).alias(PLAIN),
            sf.xxhash64(sf.lit(number), *exact).alias(EXACT),
        )
        for number in (1, 2)
    )
    return first, second


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


def _exact_of(column: Column, kind: DataType) -> Column:
    """What can't be the same of different values of a column, in the order in which Spark hashes it. Columns that are not
    nested are it themselves, whose nulls the mask has."""
    if not isinstance(kind, _NESTED):
        return column
    numbered = _numbered(kind)
    return _exact(column if numbered == kind else column.cast(numbered), numbered)


def _exact(column: Column, kind: DataType) -> Column:
    """Whether a value is null and how long an array is stand before what they hold: Spark passes over nulls within values,
    and goes from the end of one array on to what is behind it. Whether Spark thinks that there may be nulls changes nothing:
    that need not be the same when a step is run again."""
    if isinstance(kind, MapType):
        entry = StructType([StructField("key", kind.keyType), StructField("value", kind.valueType)])
        return _exact(sf.map_entries(column), ArrayType(entry, containsNull=False))
    if isinstance(kind, ArrayType):
        items = sf.transform(column, lambda item: _exact(item, kind.elementType))
        return sf.struct(sf.coalesce(sf.size(column), sf.lit(-1)), items)
    if isinstance(kind, StructType):
        return sf.struct(column.isNull(), *[_exact(column.getField(f.name), f.dataType) for f in kind.fields])
    return sf.struct(column.isNull(), column)


def _numbered(kind: DataType) -> DataType:
    """The same with numbers for the names of fields, by which each is found: some may be the same, in capitals or not."""
    if isinstance(kind, ArrayType):
        return ArrayType(_numbered(kind.elementType), kind.containsNull)
    if isinstance(kind, MapType):
        return MapType(_numbered(kind.keyType), _numbered(kind.valueType), kind.valueContainsNull)
    if not isinstance(kind, StructType):
        return kind
    fields = [(field.name, _numbered(field.dataType), field.nullable) for field in kind.fields]
    is_clear = len({name.lower() for name, _, _ in fields}) == len(fields)
    return StructType(
        [
            StructField(name if is_clear else f"_{at}", inner, null)
            for at, (name, inner, null) in enumerate(fields)
        ]
    )


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
