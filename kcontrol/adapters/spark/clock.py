"""The clock of the queries: a batch's time is the step's `now_ms`, whenever and wherever the step runs.

`MicroBatchExecution` stamps a batch with its private field `triggerClock`, right after its sources have said how far they go,
and `current_timestamp()` and processing-time timers use that stamp. With Spark's own ManualClock there, set before the step is
released, they replay. Durations in Spark's progress reports mean nothing under it.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kcontrol.errors import SparkSettingError


class StepClock:
    """One manual clock for all queries of a node. Works on Spark's driver through py4j."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._clock = jvm.org.apache.spark.util.ManualClock()

    def install(self, query: StreamingQuery) -> None:
        """Put the clock into a query that has been started and waits for its first step.

        Raises SparkSettingError when this Spark has no such field.
        """
        execution = query._jsq.streamingQuery()
        owner = execution.getClass()
        while owner is not None:
            for field in owner.getDeclaredFields():
                if field.getName() == "triggerClock":
                    field.setAccessible(True)
                    field.set(execution, self._clock)
                    return
            owner = owner.getSuperclass()
        raise SparkSettingError(
            "this Spark has no MicroBatchExecution.triggerClock, so current_timestamp() could not be replayed; use PySpark 4.3"
        )

    def set(self, now_ms: int) -> None:
        """The time of the batches that are released from now on."""
        self._clock.setTime(now_ms)
