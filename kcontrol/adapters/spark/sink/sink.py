"""The end of a query's batch: run in the driver by `foreachBatch`, once for each step.

It writes the rows (`write_step`), takes what their writers say that they wrote if the job ends well, and then
waits, so that Spark records the batch only after the step is committed.

Where queries are planned ahead it is called before anybody has decided what the step is: it prepares what the
last step has needed, and waits for the step first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from pyspark.sql import DataFrame

from kcontrol.adapters.spark.channel.attempt import AttemptCancelledError, AttemptLedger, QueryResult
from kcontrol.adapters.spark.channel.crossing import CarriedError
from kcontrol.adapters.spark.channel.failures import as_step_failure
from kcontrol.adapters.spark.channel.messages import Placement
from kcontrol.adapters.spark.internals import PlannedFrame, execution_of, wait_to_be_stopped
from kcontrol.adapters.spark.query.bound import BoundQuery
from kcontrol.adapters.spark.query.watermark import (
    LateRowsCounter,
    max_times_ms,
    set_watermark,
    skipped_records,
    watermark_moved,
)
from kcontrol.adapters.spark.sink.write_step import SinkContext, StepWriter
from kcontrol.adapters.spark.sink.writer_plan import Ways, WriterPlan
from kcontrol.core.model import FailureKind
from kcontrol.errors import StepFailedError

_log = logging.getLogger(__name__)

STOP_TIMEOUT_S = 60.0
"""Within which a query that is sent away is stopped."""
LOOK_EVERY_S = 1.0
"""How soon a query that waits for its step sees that somebody else stops it."""
_AT_ONCE_S = 0.001
Released = Callable[[int, float], AttemptLedger | None]
"""Waits for the attempt at a step, for so many seconds, and gives it. Raises AttemptCancelledError."""
_Prepared = tuple[Ways, PlannedFrame]


class Sink:
    """The `foreachBatch` function of one query. released: where it is planned ahead of its steps; None: it is called
    when the step's attempt is under way."""

    def __init__(self, bound: BoundQuery, context: SinkContext, released: Released | None = None) -> None:
        self._bound = bound
        self._context = context
        self._released = released
        self._writer = StepWriter(bound, context)
        self._plan = WriterPlan(context.address, bound.name, bound.frame.schema)
        self._late = LateRowsCounter(bound)
        self._last: Ways | None = None
        """What the last step needed."""

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        prepared: _Prepared | None = None
        if self._released is None:
            attempt = self._context.current()
            if attempt is None:
                raise AttemptCancelledError(f"query {self._bound.name!r}: no step is released")
        else:
            prepared = self._prepared(batch, batch_id)
            attempt = self._await(batch, batch_id + 1, self._released)
        try:
            self._check(attempt, batch_id)
            attempt.planned(self._bound.name)
            attempt.wait_stage(self._bound.name)
            result = self._run(batch, attempt, prepared)
        except AttemptCancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is ends the attempt and says why
            failure = as_step_failure(error, attempt.work.step, self._bound.name)
            raise _shortly(attempt.fail(failure.kind, str(failure))) from None
        attempt.deliver(self._bound.name, result)
        attempt.wait_decision()
        watermark_ms = attempt.watermarks.get(self._bound.name)
        if watermark_ms is not None:
            set_watermark(execution_of(self._context.query(self._bound.name)), watermark_ms)

    def _await(self, batch: DataFrame, step: int, released: Released) -> AttemptLedger:
        """The attempt at the step, once there is one.

        Raises QueryStoppedError when the query is stopped, by the engine or by anybody: any other way out of here
        Spark would take for a batch that is done, or for a query that has failed.
        """
        while True:
            try:
                attempt = released(step, LOOK_EVERY_S)
            except AttemptCancelledError:
                wait_to_be_stopped(batch.sparkSession, STOP_TIMEOUT_S)
                raise
            if attempt is not None:
                return attempt
            wait_to_be_stopped(batch.sparkSession, _AT_ONCE_S)

    def _prepared(self, batch: DataFrame, batch_id: int) -> _Prepared | None:
        """The batch with its writers, as the last step needed them. Not where rows are shuffled to them: planning
        a shuffle may run it."""
        ways = self._last
        if ways is None or ways.placement is Placement.EXCHANGE:
            return None
        try:
            return ways, PlannedFrame(self._plan.writing(batch, ways))
        except Exception as error:  # noqa: BLE001 - whatever it is ends the query and says why
            raise _shortly(as_step_failure(error, batch_id + 1, self._bound.name)) from None

    def _check(self, attempt: AttemptLedger, batch_id: int) -> None:
        """All sources of the batch must end at the step, and the batch must be the step's own."""
        step = attempt.work.step
        ends = self._context.planned_steps(self._bound.name, batch_id)
        if batch_id != step - 1 or set(ends) != {step}:
            raise attempt.fail(
                FailureKind.LOST,
                f"query {self._bound.name!r}: Spark's batch {batch_id} has sources that end at steps "
                f"{ends}, not all at {step}",
            )

    def _run(self, batch: DataFrame, attempt: AttemptLedger, prepared: _Prepared | None) -> QueryResult:
        def run(ways: Ways) -> None:
            self._last = ways
            if prepared is not None and prepared[0] == ways:
                prepared[1].run()
            else:
                PlannedFrame(self._plan.writing(batch, ways)).run()

        outputs = self._writer.write(batch.sparkSession.sparkContext, attempt, run)
        execution = execution_of(self._context.query(self._bound.name))
        skipped, late = skipped_records(execution, self._bound), self._late.rows(execution)
        if self._bound.name in self._context.shared_watermarks:
            # Whether it moves is not for this node to say; and Spark, once asked what it makes of its own, keeps to that.
            return QueryResult(outputs, skipped, False, late, max_times_ms(execution))
        return QueryResult(outputs, skipped, watermark_moved(execution, self._bound), late)


def _shortly(failure: StepFailedError) -> CarriedError:
    """To be raised without its cause: Spark searches the text of an exception from `foreachBatch` with a regular
    expression that overflows the stack of the query's thread when it meets a long Java error."""
    return CarriedError(failure.kind, str(failure))
