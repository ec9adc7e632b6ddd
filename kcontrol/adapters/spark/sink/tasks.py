"""What Spark's writer tasks run (`mapInArrow`): choose each row's partition, ask for leave,
write in the step's transaction.

The objects are pickled into the tasks by reference to this module, so executors need kcontrol installed. A
killed try of a task sees its rows end as if they were complete and says that it wrote those; that never
counts, because a second try gets no leave, and the job does not end well without one.

They live as long as their query. What belongs to one attempt is asked of the task itself: see `write_job`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import chain
from typing import Generic, Protocol, TypeVar

import pyarrow as pa
from pyspark import TaskContext

from kcontrol.adapters.spark.channel.client import ChannelAddress, client_of
from kcontrol.adapters.spark.channel.crossing import carried
from kcontrol.adapters.spark.channel.messages import AskGrant, Grant, Heard, Question, ReportWritten
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


_Ended = TypeVar("_Ended", bound="Ended")


class Ended(Protocol):
    """Where the rows of a task end."""

    def abort(self) -> None:
        """Take nothing more: the worker process outlives the task."""
        ...


class EndRows(ABC, Generic[_Ended]):
    """Gives the rows of one task to what the driver gives leave for, tells it what came of them, and yields nothing."""

    def __init__(self, address: ChannelAddress, query: str) -> None:
        self._address, self._query = address, query

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = task_context()
        with carried():
            job = job_of(context, self._address, self._query)
        if job is None:
            return
        with failures_reported(self._address, job.serial):
            self._end((batch for batch in batches if batch.num_rows), job, context)
        yield from ()

    def _end(self, batches: Iterator[pa.RecordBatch], job: WriteJob, context: TaskContext) -> None:
        first = next(batches, None)
        if first is None:
            return  # nothing to give: no leave is needed
        who = WriterIdentity(job.serial, self._query, context.partitionId(), context.taskAttemptId())
        grant = self._ask_leave(job, who, context.attemptNumber())
        end = self._open(grant, job, who)
        try:
            for batch in chain([first], batches):
                self._give(end, batch, job)
            client_of(self._address).ask(self._report(end, who))
        except BaseException:
            end.abort()
            raise

    def _ask_leave(self, job: WriteJob, who: WriterIdentity, attempt_number: int) -> Grant:
        modulus = job.targets[0].partitions if job.targets else 0
        asked = AskGrant(*who.told(), attempt_number, job.placement, job.tasks, modulus)
        return client_of(self._address).ask(asked)

    @abstractmethod
    def _open(self, grant: Grant, job: WriteJob, who: WriterIdentity) -> _Ended: ...

    @abstractmethod
    def _give(self, end: _Ended, batch: pa.RecordBatch, job: WriteJob) -> None: ...

    @abstractmethod
    def _report(self, end: _Ended, who: WriterIdentity) -> Question[Heard]:
        """What the driver is told, once everything is acknowledged."""


class WriteRows(EndRows[RowWriter]):
    """Writes them."""

    def _open(self, grant: Grant, job: WriteJob, who: WriterIdentity) -> RowWriter:
        return RowWriter(self._address, grant, job, who)

    def _give(self, end: RowWriter, batch: pa.RecordBatch, job: WriteJob) -> None:
        for target, _, rows in split_by_output(batch, job.targets):
            placed = PARTITION_COLUMN in rows.schema.names
            numbers = rows.column(PARTITION_COLUMN) if placed else place(rows, target, end.own[target.name])
            end.write(target, rows, numbers)

    def _report(self, end: RowWriter, who: WriterIdentity) -> ReportWritten:
        return ReportWritten(*who.told(), tuple(end.finish()))


def task_context() -> TaskContext:
    """Of the task under way."""
    context = TaskContext.get()
    assert context is not None
    return context


def _scatter(numbers: pa.Array, chosen: pa.Array | None, values: pa.Array) -> pa.Array:
    """`values` in the rows where `chosen` is true; everywhere if there is no mask."""
    return values if chosen is None else pa.compute.replace_with_mask(numbers, chosen, values)
