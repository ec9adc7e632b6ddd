"""Spark's own tool that writes the state of a query anew, in another number of partitions.

`StateRewriter` is what `pyspark.sql.streaming` repartitions a checkpoint with. It is called itself, and not what stands above
it, because that makes another batch of the query, whose number would not be the step's any more.
"""

from __future__ import annotations

from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

from kcontrol.adapters.spark.internals.checking import check
from kcontrol.adapters.spark.internals.kept import StoreIds
from kcontrol.adapters.spark.internals.session import gateway_of, java_session, jvm, jvm_class
from kcontrol.adapters.spark.internals.used import STATE_REWRITER, USED_FOR_REWRITING

AS_STORED = "_readAllColumnFamilies"
"""An option of the data source of state: rows as they are stored, of all that a store has, and not as a person would read
them."""
PARTITION_KEY = "partition_key"
"""In a row of a state store as Spark rewrites it: the columns that the operator's rows are shuffled by."""


def check_rewrites(spark: SparkSession) -> None:
    """Raise SparkSettingError unless this Spark can write state anew."""
    check(spark, USED_FOR_REWRITING)


def rewrite_state(
    spark: SparkSession, source: str, target: str, batch: int, partitions: int
) -> dict[int, StoreIds]:
    """Write the state of a query after a batch, which is in one checkpoint directory, into another, in so many partitions.

    source, target: URLs. The target has all of the query but its state and the record of the batch: its plan says how state
    is to be written. Returns, by operator and partition, the ids of the versions that were written. Raises what Spark does.
    """
    ensure_callback_server_started(gateway_of(spark))  # type: ignore[no-untyped-call]
    some, none = jvm(spark).scala.Option.apply, jvm(spark).scala.Option.empty
    session = java_session(spark)
    rewriter = jvm_class(spark, STATE_REWRITER)(
        session,
        batch,
        batch,
        target,
        session.sessionState().newHadoopConf(),
        some(source),
        some(_Repartitioned(spark, partitions)),
        none(),
    )
    written = rewriter.run().get().iterator()
    found: dict[int, StoreIds] = {}
    while written.hasNext():
        operator = written.next()
        found[int(str(operator._1()))] = tuple(
            tuple(str(unique_id) for unique_id in stores) for stores in operator._2()
        )
    return found


class _Repartitioned:
    """A function of Scala, which Spark calls in the driver once for each state store: its rows, each in the partition that the
    operator looks for it in."""

    def __init__(self, spark: SparkSession, partitions: int) -> None:
        self._spark, self._partitions = spark, partitions

    def apply(self, rows: Any) -> Any:
        frame = DataFrame(rows, self._spark)
        keys = frame.schema[PARTITION_KEY].dataType
        if not len(keys):  # type: ignore[arg-type]  # a struct
            return frame.coalesce(1)._jdf  # Of one group there is one partition.
        return frame.repartition(self._partitions, PARTITION_KEY)._jdf

    def toString(self) -> str:  # noqa: N802 - Java's name
        return f"into {self._partitions} partitions"

    class Java:
        implements = ("scala.Function1",)
