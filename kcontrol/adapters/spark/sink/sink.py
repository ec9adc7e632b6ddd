"""The end of a query's batch: run in the driver by `foreachBatch`, once for each step.

It writes the rows through tasks that the driver gave leave to, takes what they say that they wrote if their
job ends well, and then waits, so that Spark records the batch only after the step is committed. In a replay
the same tasks compute the same digests and write nothing, or only to the spool of a replay whose records are
wanted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from kcontrol.adapters.spark.channel.attempt import AttemptCancelledError, AttemptLedger, QueryResult
from kcontrol.adapters.spark.channel.client import ChannelAddress
from kcontrol.adapters.spark.channel.crossing import CarriedError
from kcontrol.adapters.spark.channel.failures import as_step_failure
from kcontrol.adapters.spark.channel.messages import Placement
from kcontrol.adapters.spark.channel.targets import OutputTarget
from kcontrol.adapters.spark.channel.write_job import JOB_PROPERTY, WriteJob
from kcontrol.adapters.spark.internals import execution_of, run
from kcontrol.adapters.spark.query.bound import BoundQuery
from kcontrol.adapters.spark.query.watermark import LateRowsCounter, skipped_records, watermark_moved
from kcontrol.adapters.spark.sink.spool import Spool
from kcontrol.adapters.spark.sink.writer_plan import WriterPlan
from kcontrol.core.model import FailureKind

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SinkContext:
    """What a sink needs of the engine. `query` gives the running query once it has started;
    `spool` keeps a replay's rows."""

    address: ChannelAddress
    current: Callable[[], AttemptLedger | None]
    planned_steps: Callable[[str, int], list[int]]
    query: Callable[[str], StreamingQuery]
    targets: Callable[[BoundQuery, AttemptLedger], tuple[OutputTarget, ...]]
    spool: Spool | None = None


class Sink:
    """The `foreachBatch` function of one query."""

    def __init__(self, bound: BoundQuery, context: SinkContext) -> None:
        self._bound = bound
        self._context = context
        self._plan = WriterPlan(context.address, bound.name, bound.frame.schema)
        self._late = LateRowsCounter(bound)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        attempt = self._context.current()
        if attempt is None:
            raise AttemptCancelledError(f"query {self._bound.name!r}: no step is released")
        try:
            self._check(attempt, batch_id)
            attempt.planned(self._bound.name)
            result = self._run(batch, attempt)
        except Exception as error:  # noqa: BLE001 - whatever it is ends the attempt and says why
            failure = as_step_failure(error, attempt.work.step, self._bound.name)
            first = attempt.fail(failure.kind, str(failure))
            # Short, and without its cause: Spark searches the text of an exception from here with a regular
            # expression that overflows the stack of the query's thread when it meets a long Java error.
            raise CarriedError(first.kind, str(first)) from None
        attempt.deliver(self._bound.name, result)
        attempt.wait_decision()

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

    def _run(self, batch: DataFrame, attempt: AttemptLedger) -> QueryResult:
        targets = self._context.targets(self._bound, attempt)
        tasks = max(
            layout.tasks for layout in attempt.work.layout.outputs if layout.output in self._bound.outputs
        )
        placement = self._placement(attempt, targets, tasks)
        replay = attempt.expected is not None
        spool = self._context.spool.place(attempt.work.step) if replay and self._context.spool else None
        job = WriteJob(attempt.serial, placement, tasks, replay, targets, str(spool) if spool else None)
        batch.sparkSession.sparkContext.setLocalProperty(JOB_PROPERTY, job.to_json())
        run(self._plan.writing(batch, placement, tasks, self._has_one_partition(attempt)))
        outputs = attempt.written(self._bound.name)
        execution = execution_of(self._context.query(self._bound.name))
        skipped, moved = skipped_records(execution, self._bound), watermark_moved(execution, self._bound)
        return QueryResult(outputs, skipped, moved, self._late.rows(execution))

    def _placement(self, attempt: AttemptLedger, targets: tuple[OutputTarget, ...], tasks: int) -> Placement:
        """One writer needs no shuffle. Several need none either if the rows can stay where they were read.

        That is so when the plan never moves rows between tasks, rows bring neither key nor partition, and no
        two source tasks read input partitions that map to one output partition. All of it follows from code
        and layout: a replay chooses alike.
        """
        if tasks == 1:
            return Placement.SINGLE
        counts = {target.partitions for target in targets}
        if not (self._bound.narrow and self._bound.unkeyed and len(counts) == 1):
            return Placement.EXCHANGE
        modulus = counts.pop()
        seen: set[int] = set()
        for name in self._bound.inputs:
            for splits in attempt.source_tasks(name):
                residues = {split.partition % modulus for split in splits}
                if seen & residues or any(not residues <= set(target.own) for target in targets):
                    return Placement.EXCHANGE
                seen |= residues
        return Placement.DIRECT

    def _has_one_partition(self, attempt: AttemptLedger) -> bool:
        """Whether the batch surely is one task already: one source task, and no row ever leaves it."""
        inputs = self._bound.inputs
        return self._bound.narrow and len(inputs) == 1 and len(attempt.source_tasks(inputs[0])) == 1
