"""What the end of a query's batch runs, with the parts of it that are the same in each step made only once.

`DataFrame.mapInArrow` pickles its function anew for each call and asks the JVM for each column of the frame,
which costs a small step about a tenth of its time. Here it does what it does there, with columns by name:
those fit the frame of any step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import IntegerType, StructField, StructType
from pyspark.util import PythonEvalType

from kcontrol.adapters.spark.channel.client import ChannelAddress
from kcontrol.adapters.spark.channel.messages import Placement
from kcontrol.adapters.spark.channel.targets import NOTHING_TYPE, PARTITION_COLUMN
from kcontrol.adapters.spark.internals import java_column, map_in_arrow
from kcontrol.adapters.spark.sink.sending import SendRows
from kcontrol.adapters.spark.sink.tasks import PlaceRows, WriteRows

if TYPE_CHECKING:
    import pyarrow as pa
    from py4j.java_gateway import JavaObject


@dataclass(frozen=True, slots=True)
class Ways:
    """How the rows of an attempt find their writers, of which there are `tasks` at most.

    one_partition: the frame is known to have one partition only.
    """

    placement: Placement
    tasks: int
    one_partition: bool


class WriterPlan:
    """For one query, from its start to its end. schema: of what writer tasks get of its batches, with the columns that
    `targets` names. make_sent: what is made of a batch before it is sent. told: Spark knows of batches that have one
    partition only that it is so. Used by one thread at a time."""

    def __init__(
        self,
        address: ChannelAddress,
        query: str,
        schema: StructType,
        make_sent: Callable[[DataFrame], DataFrame] | None = None,
        *,
        told: bool = False,
    ) -> None:
        self._address, self._query, self._told = address, query, told
        self._schema, self._make_sent = schema, make_sent
        self._placed_schema = StructType([*schema.fields, StructField(PARTITION_COLUMN, IntegerType())])

    def writing(self, batch: DataFrame, ways: Ways) -> DataFrame:
        """A frame without rows that writes those of `batch` when it is run. The tasks need JOB_PROPERTY."""
        if ways.placement is Placement.EXCHANGE:
            placed = map_in_arrow(batch, self._place).repartitionById(ways.tasks, PARTITION_COLUMN)
            return map_in_arrow(placed, self._write_placed)
        if ways.placement is Placement.SENT:
            return map_in_arrow(self._sent(batch, ways), self._send)
        single = ways.placement is Placement.SINGLE and not ways.one_partition
        return map_in_arrow(batch.coalesce(1) if single else batch, self._write)

    def _sent(self, batch: DataFrame, ways: Ways) -> DataFrame:
        if self._make_sent is None:
            return batch if ways.one_partition else batch.coalesce(ways.tasks)
        if ways.tasks == 1 and not (ways.one_partition and self._told):
            # Spark shuffles nothing to bring together what is in one task, if it is told that it is.
            return self._make_sent(batch.coalesce(1))
        return self._make_sent(batch).coalesce(ways.tasks)

    @cached_property
    def _write(self) -> JavaObject:
        return _function(WriteRows(self._address, self._query), self._schema, NOTHING_TYPE)

    @cached_property
    def _send(self) -> JavaObject:
        return _function(SendRows(self._address, self._query), self._schema, NOTHING_TYPE)

    @cached_property
    def _write_placed(self) -> JavaObject:
        return _function(WriteRows(self._address, self._query), self._placed_schema, NOTHING_TYPE)

    @cached_property
    def _place(self) -> JavaObject:
        return _function(PlaceRows(self._address, self._query), self._schema, self._placed_schema)


def _function(
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    takes: StructType,
    gives: StructType,
) -> JavaObject:
    """The Java column of a function for `map_in_arrow`. It names every column that the function takes."""
    made = pandas_udf(function, returnType=gives, functionType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)  # type: ignore[call-overload]
    return java_column(made(*takes.names))
