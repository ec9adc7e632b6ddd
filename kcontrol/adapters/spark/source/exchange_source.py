"""The Spark data source of an exchange: the rows that nodes sent to this one in the step under way."""

from __future__ import annotations

import json

from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from kcontrol.adapters.spark.channel.client import ChannelAddress

EXCHANGE_SOURCE = "kcontrol_exchange"


def exchange_options(address: ChannelAddress, exchange: str, schema: str) -> dict[str, str]:
    """What `spark.readStream.format(EXCHANGE_SOURCE).options(...)` needs. Spark redacts the value of a key named
    `secret`.

    schema: of the rows, as Spark writes it in JSON; every column and what is within it may be null.
    """
    return {
        "exchange": exchange,
        "schema": schema,
        "channel.host": address.host,
        "channel.port": str(address.port),
        "channel.secret": address.secret,
        "channel.fingerprint": address.fingerprint,
    }


class ExchangeSource(DataSource):
    """Registered under EXCHANGE_SOURCE; has the columns of the rows that are exchanged."""

    @classmethod
    def name(cls) -> str:
        return EXCHANGE_SOURCE

    def schema(self) -> StructType:
        return StructType.fromJson(json.loads(self.options["schema"]))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - PySpark's name
        raise NotImplementedError("exchanges can't be read yet")
