"""The Spark data source of an exchange: the rows that nodes sent to this one in the step under way."""

from __future__ import annotations

import json

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from kcontrol.adapters.spark.channel.client import ChannelAddress
from kcontrol.adapters.spark.source.exchange_reading import AnyStepExchangeReader, ExchangeStreamReader
from kcontrol.adapters.spark.source.step_offsets import address_options

EXCHANGE_SOURCE = "kcontrol_exchange"


def exchange_options(address: ChannelAddress, exchange: str, schema: str, tasks: int = 0) -> dict[str, str]:
    """What `spark.readStream.format(EXCHANGE_SOURCE).options(...)` needs, or `spark.read`. Spark redacts the value of a key
    named `secret`.

    schema: of the rows, as Spark writes it in JSON; every column and what is within it may be null. tasks: of a batch frame.
    """
    return {
        "exchange": exchange,
        "schema": schema,
        "tasks": str(tasks),
        **address_options(address),
    }


class ExchangeSource(DataSource):
    """Registered under EXCHANGE_SOURCE; has the columns of the rows that are exchanged."""

    @classmethod
    def name(cls) -> str:
        return EXCHANGE_SOURCE

    def schema(self) -> StructType:
        return StructType.fromJson(json.loads(self.options["schema"]))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802, ARG002 - PySpark's names
        return ExchangeStreamReader(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - PySpark's name
        return AnyStepExchangeReader(self.options)
