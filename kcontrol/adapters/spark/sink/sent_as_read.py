"""Rows of an input that are sent to nodes by the very tasks that read them: a data source whose rows never come.

Which ones those are: see `query/as_read`. Everything else is as for rows that come out of Spark: the driver gives leave, a
replay only counts, and the driver is told what was read and what was sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructField, StructType

from kcontrol.adapters.spark.source.as_read import SentAsRead
from kcontrol.adapters.spark.source.data_source import SENDING_SOURCE, AnyStepReader, KcontrolSource
from kcontrol.adapters.spark.source.step_offsets import address_in, query_context

if TYPE_CHECKING:
    import pyarrow as pa

_NOTHING = StructType().add("nothing", "integer")


class SendingSource(KcontrolSource):
    """Registered under SENDING_SOURCE. Its options are those of the input, and `sends`: what is sent of it."""

    @classmethod
    def name(cls) -> str:
        return SENDING_SOURCE

    def schema(self) -> StructType:
        return _NOTHING

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - PySpark's name
        return SendingReader(self.options, super().schema())


class SendingReader(AnyStepReader):
    """Reads the rows of a task, sends them, and gives none. columns: of the input."""

    def __init__(self, options: Mapping[str, str], columns: StructType) -> None:
        super().__init__(options)
        self._address, self._sent = address_in(options), SentAsRead.from_json(options["sends"])
        self._kinds = StructType(
            [StructField(name, columns[read].dataType) for name, read in self._sent.columns]
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # What works with rows is not imported with this module: whoever plans needs none of it.
        from kcontrol.adapters.spark.sink.sending import SendRows
        from kcontrol.adapters.spark.sink.sent_columns import SentColumns

        _, query = query_context()
        made = SentColumns(self._sent, self._kinds)
        yield from SendRows(self._address, query)(map(made.of, super().read(partition)))
