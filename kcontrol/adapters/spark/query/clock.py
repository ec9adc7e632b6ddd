"""The clock of the queries: a batch's time is the step's `now_ms`, whenever and wherever the step runs.

`MicroBatchExecution` stamps a batch with its private field `triggerClock`, right after its sources have said
how far they go, and `current_timestamp()` and processing-time timers use that stamp. With Spark's own
ManualClock there, set before the step is released, they replay. Durations in Spark's progress reports mean
nothing under it. It overlooks `now()`, which therefore becomes `current_timestamp()` before a query starts.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kcontrol.adapters.spark.internals import execution_of, field_of, jvm_class, plan_of, rewritten
from kcontrol.adapters.spark.query.plan_nodes import nodes_in
from kcontrol.errors import SparkSettingError

_NOW = "Now"
_STEP_TIME = "org.apache.spark.sql.catalyst.expressions.CurrentTimestamp"


class QueryClock:
    """One manual clock for all queries of a node. Works on Spark's driver through py4j."""

    def __init__(self, spark: SparkSession) -> None:
        self._clock = jvm_class(spark, "org.apache.spark.util.ManualClock")()

    def install(self, query: StreamingQuery) -> None:
        """Put the clock into a query that has been started and waits for its first step.

        Raises SparkSettingError when this Spark has no such field.
        """
        execution = execution_of(query)
        field = field_of(execution.getClass(), "triggerClock")
        if field is None:
            raise SparkSettingError(
                "this Spark has no MicroBatchExecution.triggerClock, so current_timestamp() could not be "
                "replayed; use PySpark 4.3"
            )
        field.set(execution, self._clock)

    def set(self, now_ms: int) -> None:
        """The time of the batches that are released from now on."""
        self._clock.setTime(now_ms)


def follow_step(frame: DataFrame) -> DataFrame:
    """The same frame, with the step's time wherever its plan takes the wall clock's by `now()`."""
    expressions = (expression for node in nodes_in(plan_of(frame)) for expression in node.expressions)
    if not any(one.kind == _NOW for expression in expressions for one in expression.within()):
        return frame
    return rewritten(frame, _NowIsTheStep(frame.sparkSession))


class _NowIsTheStep:
    """A function of Scala from an expression to the one that takes its place."""

    def __init__(self, spark: SparkSession) -> None:
        self._step_time = jvm_class(spark, _STEP_TIME)

    def apply(self, expression: Any) -> Any:
        """`current_timestamp()` for `now()`, else the expression."""
        if expression.getClass().getSimpleName() == _NOW:
            return self._step_time()
        return expression

    class Java:
        """For py4j."""

        implements = ("scala.Function1",)
