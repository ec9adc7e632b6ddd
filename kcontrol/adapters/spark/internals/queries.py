"""A streaming query from within."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.query import StreamingQuery


def execution_of(query: StreamingQuery) -> Any:
    """What runs the query's batches, a MicroBatchExecution."""
    return query._jsq.streamingQuery()
