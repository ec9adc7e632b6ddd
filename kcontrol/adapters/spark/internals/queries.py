"""A streaming query from within: what runs its batches, and how one that waits is stopped."""

from __future__ import annotations

import logging
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kcontrol.adapters.spark.internals.session import jvm


class QueryStoppedError(Exception):
    """Within `foreachBatch`: the query is being stopped. Its text is what Spark takes for that (SPARK-39218)."""


def wait_to_be_stopped(spark: SparkSession, timeout_s: float) -> None:
    """Within `foreachBatch`: sleep in the query's own thread of the JVM, which `query.stop()` interrupts, even if it
    did before; while Python waits nothing does.

    Raises QueryStoppedError then, and returns when nobody stops the query in that time.
    """
    try:
        jvm(spark).java.lang.Thread.sleep(int(timeout_s * 1_000))
    except Py4JJavaError as error:
        # py4j logs what leaves a callback, with its traceback.
        logging.getLogger("py4j.clientserver").addFilter(_no_news)
        # The whole stack would be too long for Spark, which looks through it with a regular expression.
        told = "".join(str(error).splitlines()[:2])
        raise QueryStoppedError(f"{Py4JJavaError.__module__}.{Py4JJavaError.__qualname__}: {told}") from None


def _no_news(record: logging.LogRecord) -> bool:
    """Whether it is something else than that a query was stopped."""
    return record.exc_info is None or not isinstance(record.exc_info[1], QueryStoppedError)


def execution_of(query: StreamingQuery) -> Any:
    """What runs the query's batches, a MicroBatchExecution."""
    return query._jsq.streamingQuery()
