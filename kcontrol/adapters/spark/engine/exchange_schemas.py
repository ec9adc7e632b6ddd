"""What is sent through each exchange of a pipeline: its columns."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql.types import IntegerType, StructField, StructType

from kcontrol.adapters.kafka.write.targets import GIVEN_COLUMN
from kcontrol.adapters.spark.channel.targets import HASH_COLUMNS, OUTPUT_COLUMN
from kcontrol.adapters.spark.query.bound import BoundQueries
from kcontrol.adapters.spark.source.exchange_schema import arrow_schema, schema_of
from kcontrol.definition.exchanges import ExchangeFacts


def schemas_of(bound: BoundQueries) -> Mapping[str, pa.Schema]:
    """By exchange: of the rows that are sent through it."""
    return {
        each.name: schema_of(each.schema) if each.schema else arrow_schema(_delivered(bound, each))
        for each in bound.exchanges
    }


def _delivered(bound: BoundQueries, exchange: ExchangeFacts) -> StructType:
    """Those of its query, which are a record's, with the partition last if they did not have it."""
    query = next(each for each in bound.queries if each.name == exchange.sender)
    left_out = (OUTPUT_COLUMN, *HASH_COLUMNS)
    fields = [field for field in query.frame.schema.fields if field.name not in left_out]
    if GIVEN_COLUMN not in query.frame.columns:
        fields.append(StructField(GIVEN_COLUMN, IntegerType()))
    return StructType(fields)
