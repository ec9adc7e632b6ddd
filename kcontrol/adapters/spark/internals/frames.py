"""What the JVM has of frames: plans, and plans that are run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame

from kcontrol.adapters.spark.internals.repeated import RepeatedJob
from kcontrol.adapters.spark.internals.session import gateway_of, java_session, jvm_class

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject


def analyzed(frame: DataFrame) -> Any:
    """The frame's analyzed plan, a LogicalPlan."""
    return frame._jdf.queryExecution().analyzed()


def rewritten(frame: DataFrame, change: Any) -> DataFrame:
    """The frame with a Scala function (an object of Python's that implements
    scala.Function1) applied to all expressions."""
    spark = frame.sparkSession
    ensure_callback_server_started(gateway_of(spark))  # type: ignore[no-untyped-call]
    plan = analyzed(frame).transformAllExpressions(
        jvm_class(spark, "scala.PartialFunction").fromFunction(change)
    )
    dataset = jvm_class(spark, "org.apache.spark.sql.classic.Dataset").ofRows(java_session(spark), plan)
    return DataFrame(dataset, spark)


class PlannedFrame:
    """A frame that is planned now, and can be run again and again, in the SQL execution that is under way, if
    one is.

    `DataFrame.collect` would begin an execution of its own, with a description for the user interface, and
    bring rows to Python. A shuffle is run once: what it wrote is read again by every later run.
    """

    def __init__(self, frame: DataFrame) -> None:
        self.rdd = frame._jdf.queryExecution().toRdd()
        self._gateway = gateway_of(frame.sparkSession)
        self._has_run = False

    @cached_property
    def partitions(self) -> int:
        return int(self.rdd.getNumPartitions())

    @cached_property
    def _job(self) -> RepeatedJob:
        return RepeatedJob(self.rdd, self._gateway)

    def run(self, partitions: Sequence[int] | None = None) -> None:
        """Run all of it, or some partitions, as a job of the calling thread.

        Where partitions are named their rows are brought together: a frame that only writes has none.
        """
        if partitions is None and not self._has_run:
            self._has_run = True
            self.rdd.count()
            return
        self._job.run(tuple(range(self.partitions) if partitions is None else partitions))


def java_column(column: Any) -> JavaObject:
    """What the JVM has of a column."""
    found: JavaObject = column._jc
    return found


def map_in_arrow(frame: DataFrame, function: JavaObject) -> DataFrame:
    """As `frame.mapInArrow`, with a function that is in the JVM already, without barrier or resource
    profile."""
    return DataFrame(frame._jdf.mapInArrow(function, False, None), frame.sparkSession)
