"""What Spark's sender tasks run (`mapInArrow`): find the node that each row is for, ask for leave, and send the rows through
the slot that is the task's alone.

As writers (`tasks`) they live as long as their query, and a second try of a task gets no leave.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from kcontrol.adapters.kafka.exchange.attempt import StepTransaction
from kcontrol.adapters.kafka.exchange.writer import ExchangeCounter, ExchangeWriter
from kcontrol.adapters.kafka.write.targets import addressed
from kcontrol.adapters.spark.channel.client import ChannelAddress, client_of
from kcontrol.adapters.spark.channel.crossing import carried
from kcontrol.adapters.spark.channel.messages import Grant, ReportSent
from kcontrol.adapters.spark.channel.reporting import failures_reported
from kcontrol.adapters.spark.channel.targets import HASH_COLUMNS, SHARD_COLUMN, SendTarget, split_by_output
from kcontrol.adapters.spark.channel.write_job import WriteJob, job_of
from kcontrol.adapters.spark.sink.tasks import ask_leave, task_context
from kcontrol.adapters.spark.sink.turns import WriterIdentity
from kcontrol.adapters.spark.source.reading import cluster_settings
from kcontrol.core.model import ExchangeSlice
from kcontrol.wire.batches.columns import Ints, Longs


class SendRows:
    """Sends the rows of one task, tells the driver what it sent, and yields nothing."""

    def __init__(self, address: ChannelAddress, query: str) -> None:
        self._address, self._query = address, query

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = task_context()
        with carried():
            job = job_of(context, self._address, self._query)
        if job is None:
            return
        with failures_reported(self._address, job.serial):
            self._send((batch for batch in batches if batch.num_rows), job, context)
        yield from ()

    def _send(self, batches: Iterator[pa.RecordBatch], job: WriteJob, context: TaskContext) -> None:
        first = next(batches, None)
        if first is None:
            return  # nothing to send: no leave is needed
        who = WriterIdentity(job.serial, self._query, context.partitionId(), context.taskAttemptId())
        grant = ask_leave(self._address, job, who, context.attemptNumber())
        sender = RowSender(self._address, grant, job, who.writer)
        try:
            for batch in chain([first], batches):
                sender.send(batch)
            client_of(self._address).ask(ReportSent(*who.told(), sender.finish()))
        except BaseException:
            sender.abort()
            raise


class RowSender:
    """Sends rows under the grant that the driver gave; in a replay it only counts them. task: its number among the
    query's senders."""

    def __init__(self, address: ChannelAddress, grant: Grant, job: WriteJob, task: int) -> None:
        self._address, self._grant, self._job, self._task = address, grant, job, task
        self._writers: dict[str, ExchangeWriter | ExchangeCounter] = {}

    def send(self, batch: pa.RecordBatch) -> None:
        """Each row to its node. Raises as `ExchangeWriter.write` does, and ConfigurationError for a row of an output
        that the query does not have, or of a partition that the output does not have."""
        for target, rows in _by_target(batch, self._job.sends):
            first, second = (_longs(rows, name) for name in HASH_COLUMNS)
            sent, nodes = _to_nodes(rows.drop_columns([*HASH_COLUMNS]), target)
            self._writer(target).write(sent, nodes, first, second)

    def finish(self) -> tuple[ExchangeSlice, ...]:
        """Wait until everything is acknowledged. Raises as `ExchangeWriter.finish` does."""
        found = [self._writers[name].finish() for name in sorted(self._writers)]
        return tuple(piece for piece in found if piece is not None)

    def abort(self) -> None:
        """Send nothing more: the worker process outlives the task."""
        for writer in self._writers.values():
            writer.abort()

    def _writer(self, target: SendTarget) -> ExchangeWriter | ExchangeCounter:
        if target.exchange not in self._writers:
            self._writers[target.exchange] = self._open(target)
        return self._writers[target.exchange]

    def _open(self, target: SendTarget) -> ExchangeWriter | ExchangeCounter:
        slot, grant = target.first + self._task, self._grant
        if self._job.replay:
            return ExchangeCounter(target.exchange, slot, target.nodes)
        transaction = StepTransaction(
            grant.transactional_id, grant.producer_id, grant.producer_epoch, grant.step
        )
        where = (target.exchange, target.topic, slot, target.nodes)
        return ExchangeWriter(
            cluster_settings(self._address), transaction, *where, compression=target.compression
        )


def _by_target(
    batch: pa.RecordBatch, sends: tuple[SendTarget, ...]
) -> Iterator[tuple[SendTarget, pa.RecordBatch]]:
    of_output = {target.output.name: target for target in sends if target.output is not None}
    if not of_output:
        yield sends[0], batch
        return
    outputs = [target.output for target in sends if target.output is not None]
    for output, _, rows in split_by_output(batch, outputs):
        yield of_output[output.name], rows


def _to_nodes(rows: pa.RecordBatch, target: SendTarget) -> tuple[pa.RecordBatch, Ints]:
    """What is sent of the rows, and the node of each."""
    if target.output is not None:
        return addressed(rows, target.output, target.owners)
    shards = np.asarray(rows.column(SHARD_COLUMN))
    return rows.drop_columns([SHARD_COLUMN]), np.asarray(target.owners, dtype=np.int32)[shards]


def _longs(rows: pa.RecordBatch, name: str) -> Longs:
    found: Longs = np.asarray(rows.column(name))
    return found
