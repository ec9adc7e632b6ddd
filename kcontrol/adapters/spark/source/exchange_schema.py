"""The columns of exchanged rows, as Arrow has them."""

from __future__ import annotations

import json

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def arrow_schema(columns: StructType) -> pa.Schema:
    """Of rows that have these columns, times in UTC."""
    return to_arrow_schema(columns, timezone="UTC")


def schema_of(text: str) -> pa.Schema:
    """The same of columns as Spark writes them in JSON."""
    return arrow_schema(StructType.fromJson(json.loads(text)))
