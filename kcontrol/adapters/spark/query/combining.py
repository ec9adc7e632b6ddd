"""Rows of which those with equal keys are brought to one before they are sent: `exchange(combine=...)`.

What can be put together again from parts is counted, summed up or compared in each step by an ordinary aggregation of the
node's own rows, in its sink, because one in the streaming plan would be state. With one node nothing is sent, and each
row is as if it had been combined alone: what is behind the exchange merges the parts, however many there are (`merging`),
so it gives the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, DoubleType, FloatType, StringType

from kcontrol.adapters.spark.internals import PlanExpression, plan_of
from kcontrol.adapters.spark.query.exchanged_types import BINARY_COLLATION, named, within
from kcontrol.adapters.spark.query.exchanged_watermark import event_times
from kcontrol.adapters.spark.query.grouping import number_of, within_alias
from kcontrol.adapters.spark.query.merging import COMBINED, MERGED_BY
from kcontrol.definition.query_errors import in_one_line
from kcontrol.errors import ConfigurationError

_ALL = "_all"
"""The one key of rows that are all combined into one: without any, no rows would be combined into a row, too."""


@dataclass(frozen=True, slots=True)
class CombinedColumn:
    """One column of combined rows.

    function: count, sum, min or max. of: the column that it is made of; '' where rows are counted. kind: its type.
    """

    name: str
    function: str
    of: str
    kind: DataType

    @property
    def text(self) -> str:
        return f"{self.function}({self.of or '*'}) AS {self.name}"

    def of_several(self) -> Column:
        """Of all rows that are combined into one."""
        made: Column = getattr(sf, self.function)(named(self.of) if self.of else sf.lit(1))
        return made.alias(self.name)

    def of_one(self) -> Column:
        """Of a row alone, marked so that what is done with it can be looked at."""
        if self.function == "count":
            counted = named(self.of).isNotNull() if self.of else sf.lit(True)
            made = counted.cast("int").cast(self.kind)
        else:
            made = named(self.of).cast(self.kind)
        return made.alias(self.name, metadata={COMBINED: self.function})


class Combining:
    """How the rows of one exchange are combined. by: columns whose equal values are brought to one row. times: columns of
    event time, of which the latest goes along for the watermark."""

    def __init__(self, by: Sequence[str], parts: Sequence[CombinedColumn], times: Sequence[str]) -> None:
        self.parts, self.times = tuple(parts), tuple(times)
        sources = [part.of for part in parts if part.of]
        self._needed = [named(name) for name in dict.fromkeys((*by, *sources, *times))]
        kept = [named(name) for name in times]
        self._alone = [*(named(name) for name in by), *(part.of_one() for part in parts), *kept]
        self._keys = [named(name) for name in by] or [sf.lit(0).alias(_ALL)]
        latest = [sf.max(named(name)).alias(name) for name in times]
        self._aggregates = [*(part.of_several() for part in parts), *latest]

    def needed(self, frame: DataFrame) -> DataFrame:
        """The columns of a frame that its combined rows are made of."""
        return frame.select(*self._needed)

    def alone(self, frame: DataFrame) -> DataFrame:
        """Combined rows, one for each row of the frame."""
        return frame.select(*self._alone)

    def together(self, frame: DataFrame) -> DataFrame:
        """Combined rows of a batch frame, one for each key: the columns of `alone`, perhaps with one more."""
        return frame.groupBy(*self._keys).agg(*self._aggregates)


def combining_of(frame: DataFrame, by: Sequence[str], combine: Sequence[Any], where: str) -> Combining:
    """What a user has given as `combine`, for a frame that has the columns `by`. Raises ConfigurationError for whatever
    can't be put together from parts."""
    if not combine or not all(isinstance(item, Column) for item in combine):
        raise ConfigurationError(
            f"{where}: combine = {list(combine)!r}: must be a list of aggregates with names, as groupBy().agg() takes them, "
            'such as [F.count("*").alias("n")]'
        )
    try:
        made = frame.groupBy(*[named(name) for name in by]).agg(*combine)
    except PySparkException as error:
        raise ConfigurationError(f"{where}: combine: {in_one_line(error)}") from error
    plan = plan_of(made)
    if plan.name != "Aggregate":
        raise ConfigurationError(f"{where}: combine must be aggregates of columns, and nothing around them")
    columns = plan.aggregates[-len(combine) :]
    there = {item.number: item.name for item in plan_of(frame).output}
    parts = [_part(column, made, frame, there, where) for column in columns]
    times = [name for name in event_times(frame) if name not in by]
    names = [name.lower() for name in (*by, *(part.name for part in parts), *times)]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigurationError(
            f"{where}: the combined rows would have two columns named {twice!r} (by, combine, and the column of event time): "
            "give each of combine a name of its own with .alias(...)"
        )
    return Combining(by, parts, times)


def _part(
    column: PlanExpression, made: DataFrame, frame: DataFrame, there: dict[int, str], where: str
) -> CombinedColumn:
    """One of the aggregates, from Spark's own plan of it."""
    name, what = column.name, within_alias(column)
    said = f"{where}: combine = {what.sql}"
    if what.kind != "AggregateExpression":
        raise ConfigurationError(
            f"{said}: must be one of count, sum, min and max, and nothing around it: compute what is made of them behind "
            "the exchange, when parts were merged"
        )
    aggregate = what.children[0]
    function = aggregate.function
    _check_function(function, what, said)
    arguments = aggregate.children
    counts_all = function == "count" and [one.kind for one in arguments] == ["Literal"]
    if counts_all and arguments[0].sql != "NULL":
        return CombinedColumn(name, function, "", made.schema[name].dataType)
    source = there.get(number_of(arguments[0]) or -1) if len(arguments) == 1 else None
    if source is None:
        raise ConfigurationError(
            f"{said}: is not of one column of the frame as it is: make it a column before, with withColumn()"
        )
    _check_type(function, frame.schema[source].dataType, said)
    return CombinedColumn(name, function, source, made.schema[name].dataType)


def _check_function(function: str, what: PlanExpression, said: str) -> None:
    if what.distinct:
        raise ConfigurationError(
            f"{said}: different values can't be told from parts that several nodes have counted: exchange the rows, without "
            "it, or by the values, too"
        )
    if function in ("avg", "mean", "try_avg"):
        raise ConfigurationError(
            f"{said}: a mean can't be put together from means: combine sum and count, and divide one by the other behind the "
            "exchange"
        )
    if function not in MERGED_BY:
        raise ConfigurationError(
            f"{said}: {function} can't be put together from the parts of several nodes: only count, sum, min and max can; "
            "exchange the rows without combine"
        )
    if len(what.children) > 1:
        raise ConfigurationError(
            f"{said}: leaves rows out: make a column before that is null where the row is not meant"
        )


def _check_type(function: str, kind: DataType, said: str) -> None:
    if function == "sum" and isinstance(kind, FloatType | DoubleType):
        raise ConfigurationError(
            f"{said}: adds numbers of floating point, whose sum depends on which of them are added first, so it could not be "
            "made again as it was: cast them to decimal before, or exchange the rows without it"
        )
    if function in ("min", "max"):
        for one in within(kind):
            if isinstance(one, StringType) and one.collation != BINARY_COLLATION:
                raise ConfigurationError(
                    f"{said}: text with the collation {one.collation} may be equal and be written otherwise, so which of it "
                    "comes out would depend on the order of rows: compare lower(...) of it, made before"
                )
