"""The end of a query's batch: run in the driver by `foreachBatch`, once for each step.

It writes the rows (`write_step`), takes what their writers say that they wrote if the job ends well, and then
waits, so that Spark records the batch only after the step is committed.
"""

from __future__ import annotations

import logging
from typing import Any

from pyspark.sql import DataFrame

from kcontrol.adapters.spark.channel.attempt import AttemptCancelledError, AttemptLedger
from kcontrol.adapters.spark.channel.crossing import CarriedError
from kcontrol.adapters.spark.channel.failures import as_step_failure
from kcontrol.adapters.spark.channel.query_result import QueryResult
from kcontrol.adapters.spark.internals import PlannedFrame, execution_of
from kcontrol.adapters.spark.query.bound import BoundQuery
from kcontrol.adapters.spark.query.watermark import (
    LateRowsCounter,
    max_times_ms,
    set_watermark,
    skipped_records,
    watermark_moved,
)
from kcontrol.adapters.spark.sink.write_step import SinkContext, StepWriter
from kcontrol.adapters.spark.sink.writer_plan import WriterPlan
from kcontrol.adapters.spark.state.shards import OwnedPartitions, can_run_some_of
from kcontrol.core.model import FailureKind

_log = logging.getLogger(__name__)


class Sink:
    """The `foreachBatch` function of one query."""

    def __init__(self, bound: BoundQuery, context: SinkContext) -> None:
        self._bound = bound
        self._context = context
        self._writer = StepWriter(bound, context)
        self._plan = WriterPlan(context.address, bound.name, bound.ends_as, bound.make_sent)
        self._late = LateRowsCounter(bound)
        self._shards = context.shards.get(bound.name)
        self._owned: OwnedPartitions | None = None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        attempt = self._context.current()
        if attempt is None:
            raise AttemptCancelledError(f"query {self._bound.name!r}: no step is released")
        try:
            self._check(attempt, batch_id)
            attempt.planned(self._bound.name)
            attempt.wait_stage(self._bound.name)
            result = self._run(batch, batch_id, attempt)
        except AttemptCancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is ends the attempt and says why
            failure = as_step_failure(error, attempt.work.step, self._bound.name)
            first = attempt.fail(failure.kind, str(failure))
            # Short, and without its cause: Spark searches the text of an exception from here with a regular
            # expression that overflows the stack of the query's thread when it meets a long Java error.
            raise CarriedError(first.kind, str(first)) from None
        attempt.deliver(self._bound.name, result)
        attempt.wait_decision()
        watermark_ms = attempt.watermarks.get(self._bound.name)
        if watermark_ms is not None:
            set_watermark(execution_of(self._context.query(self._bound.name)), watermark_ms)

    def _check(self, attempt: AttemptLedger, batch_id: int) -> None:
        """All sources of the batch must end at the step."""
        step = attempt.work.step
        ends = self._context.planned_steps(self._bound.name, batch_id)
        if set(ends) != {step}:
            raise attempt.fail(
                FailureKind.LOST,
                f"query {self._bound.name!r}: Spark's batch {batch_id} has sources that end at steps "
                f"{ends}, not all at {step}",
            )

    def _run(self, batch: DataFrame, batch_id: int, attempt: AttemptLedger) -> QueryResult:
        execution = execution_of(self._context.query(self._bound.name))
        owned = self._owned_partitions(execution)
        mine = batch if owned is None else owned.of_batch(batch)
        outputs = self._writer.write(
            batch.sparkSession.sparkContext,
            attempt,
            lambda ways: PlannedFrame(self._plan.writing(mine, ways)).run(),
        )
        if owned is not None:
            owned.finish(execution, batch_id)
        skipped, late = skipped_records(execution, self._bound), self._late.rows(execution)
        if self._bound.name in self._context.shared_watermarks:
            # Whether it moves is not for this node to say; and Spark, once asked what it makes of its own, keeps to that.
            return QueryResult(outputs, skipped, False, late, max_times_ms(execution))
        return QueryResult(outputs, skipped, watermark_moved(execution, self._bound), late)

    def _owned_partitions(self, execution: Any) -> OwnedPartitions | None:
        """None: all partitions are run."""
        if self._shards is not None and self._owned is None:
            spark = self._bound.frame.sparkSession
            if can_run_some_of(spark, execution, self._bound.name):
                self._owned = OwnedPartitions(spark, self._bound.name, self._shards)
            else:
                self._shards = None
        return self._owned
