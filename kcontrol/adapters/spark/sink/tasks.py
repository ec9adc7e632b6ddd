"""What Spark's writer tasks run (`mapInArrow`): choose each row's partition, ask for leave,
write in the step's transaction.

The objects are pickled into the tasks by reference to this module, so executors need kcontrol installed. A
killed try of a task sees its rows end as if they were complete and says that it wrote those; that never
counts, because a second try gets no leave, and the job does not end well without one.

They live as long as their query. What belongs to one attempt is asked of the task itself: see `write_job`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pyarrow as pa
from pyspark import TaskContext

from kcontrol.adapters.spark.channel.client import ChannelAddress, client_of
from kcontrol.adapters.spark.channel.crossing import carried
from kcontrol.adapters.spark.channel.messages import AskGrant, Grant, ReportWritten
from kcontrol.adapters.spark.channel.reporting import failures_reported
from kcontrol.adapters.spark.channel.targets import PARTITION_COLUMN, place, split_by_output
from kcontrol.adapters.spark.channel.write_job import WriteJob, job_of
from kcontrol.adapters.spark.sink.turns import WriterIdentity
from kcontrol.adapters.spark.sink.writing import RowWriter


class PlaceRows:
    """The first half of an exchange: adds the column of the output partition."""

    def __init__(self, address: ChannelAddress, query: str) -> None:
        self._address, self._query = address, query

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carried():
            job = job_of(task_context(), self._address, self._query)
        if job is None:
            return
        with failures_reported(self._address, job.serial):
            for batch in batches:
                numbers = pa.nulls(batch.num_rows, pa.int32()).fill_null(0)
                for target, chosen, rows in split_by_output(batch, job.targets):
                    numbers = _scatter(numbers, chosen, place(rows, target, target.own))
                yield batch.append_column(PARTITION_COLUMN, numbers)


class WriteRows:
    """Writes the rows of one task, tells the driver what it wrote, and yields nothing."""

    def __init__(self, address: ChannelAddress, query: str) -> None:
        self._address, self._query = address, query

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = task_context()
        with carried():
            job = job_of(context, self._address, self._query)
        if job is None:
            return
        with failures_reported(self._address, job.serial):
            self._write((batch for batch in batches if batch.num_rows), job, context)
        yield from ()

    def _write(self, batches: Iterator[pa.RecordBatch], job: WriteJob, context: TaskContext) -> None:
        first = next(batches, None)
        if first is None:
            return  # nothing to write: no leave is needed
        who = WriterIdentity(job.serial, self._query, context.partitionId(), context.taskAttemptId())
        grant = ask_leave(self._address, job, who, context.attemptNumber())
        own = {each.output: each.partitions for each in grant.own}
        writer = RowWriter(self._address, grant, job, who)
        try:
            for batch in chain([first], batches):
                for target, _, rows in split_by_output(batch, job.targets):
                    placed = PARTITION_COLUMN in rows.schema.names
                    numbers = (
                        rows.column(PARTITION_COLUMN) if placed else place(rows, target, own[target.name])
                    )
                    writer.write(target, rows, numbers)
            client_of(self._address).ask(ReportWritten(*who.told(), tuple(writer.finish())))
        except BaseException:
            writer.abort()
            raise


def ask_leave(address: ChannelAddress, job: WriteJob, who: WriterIdentity, attempt_number: int) -> Grant:
    """The driver's leave for the task under way. Raises StepFailedError."""
    modulus = job.targets[0].partitions if job.targets else 0
    return client_of(address).ask(AskGrant(*who.told(), attempt_number, job.placement, job.tasks, modulus))


def task_context() -> TaskContext:
    """Of the task under way."""
    context = TaskContext.get()
    assert context is not None
    return context


def _scatter(numbers: pa.Array, chosen: pa.Array | None, values: pa.Array) -> pa.Array:
    """`values` in the rows where `chosen` is true; everywhere if there is no mask."""
    return values if chosen is None else pa.compute.replace_with_mask(numbers, chosen, values)
