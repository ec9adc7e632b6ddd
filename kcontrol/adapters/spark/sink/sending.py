"""What Spark's sender tasks run (`mapInArrow`): find the node that each row is for, ask for leave, and send the rows through
the slot that is the task's alone.

As writers (`tasks`) they live as long as their query, and a second try of a task gets no leave.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from kcontrol.adapters.kafka.exchange.attempt import StepTransaction
from kcontrol.adapters.kafka.exchange.writer import ExchangeCounter, ExchangeWriter
from kcontrol.adapters.kafka.write.targets import addressed
from kcontrol.adapters.spark.channel.client import ChannelAddress
from kcontrol.adapters.spark.channel.messages import Grant, ReportSent
from kcontrol.adapters.spark.channel.sent_rows import SentFiles
from kcontrol.adapters.spark.channel.targets import (
    EXACT,
    HASH_COLUMNS,
    PLAIN,
    SHARD_COLUMN,
    SendTarget,
    split_by_output,
)
from kcontrol.adapters.spark.channel.write_job import WriteJob
from kcontrol.adapters.spark.sink.tasks import EndRows
from kcontrol.adapters.spark.sink.turns import WriterIdentity
from kcontrol.adapters.spark.source.reading import cluster_settings
from kcontrol.core.model import ExchangeSlice
from kcontrol.wire.batches.columns import Ints, Longs
from kcontrol.wire.chunk_digest import Exact


class RowSender:
    """Sends rows under the grant that the driver gave; in a replay it only counts them, in a rehearsal it leaves them in files.
    task: its number among the query's senders."""

    def __init__(self, address: ChannelAddress, grant: Grant, job: WriteJob, task: int) -> None:
        self._address, self._grant, self._job, self._task = address, grant, job, task
        self._writers: dict[str, ExchangeWriter | ExchangeCounter | LeavingCounter] = {}

    def send(self, batch: pa.RecordBatch) -> None:
        """Each row to its node. Raises as `ExchangeWriter.write` does, and ConfigurationError for a row of an output
        that the query does not have, or of a partition that the output does not have."""
        for target, rows in _by_target(batch, self._job.sends):
            first, second, exact = _hashes(rows)
            sent, nodes = _to_nodes(rows.drop_columns([*HASH_COLUMNS]), target)
            self._writer(target).write(sent, nodes, first, second, exact)

    def finish(self) -> tuple[ExchangeSlice, ...]:
        """Wait until everything is acknowledged. Raises as `ExchangeWriter.finish` does."""
        found = [self._writers[name].finish() for name in sorted(self._writers)]
        return tuple(piece for piece in found if piece is not None)

    def abort(self) -> None:
        """Send nothing more: the worker process outlives the task."""
        for writer in self._writers.values():
            writer.abort()

    def _writer(self, target: SendTarget) -> ExchangeWriter | ExchangeCounter | LeavingCounter:
        if target.exchange not in self._writers:
            self._writers[target.exchange] = self._open(target)
        return self._writers[target.exchange]

    def _open(self, target: SendTarget) -> ExchangeWriter | ExchangeCounter | LeavingCounter:
        slot, grant = target.first + self._task, self._grant
        if self._job.replay:
            counter = ExchangeCounter(target.exchange, slot, target.nodes)
            if self._job.spool is None:
                return counter
            return LeavingCounter(counter, SentFiles(Path(self._job.spool), target.exchange, slot))
        transaction = StepTransaction(
            grant.transactional_id, grant.producer_id, grant.producer_epoch, grant.step
        )
        where = (target.exchange, target.topic, slot, target.nodes)
        return ExchangeWriter(
            cluster_settings(self._address), transaction, *where, compression=target.compression
        )


class LeavingCounter:
    """What a rehearsal uses: an `ExchangeCounter` that also leaves the rows in files."""

    def __init__(self, counted: ExchangeCounter, files: SentFiles) -> None:
        self._counted, self._files = counted, files

    def write(
        self, rows: pa.RecordBatch, nodes_of_rows: Ints, first: Longs, second: Longs, exact: Exact = None
    ) -> None:
        """See `ExchangeCounter.write`. Raises OSError."""
        self._files.write(rows, nodes_of_rows)
        self._counted.write(rows, nodes_of_rows, first, second, exact)

    def finish(self) -> ExchangeSlice | None:
        """See `ExchangeCounter.finish`."""
        self._files.close()
        return self._counted.finish()

    def abort(self) -> None:
        """Close the files, as they are."""
        self._files.close()


class SendRows(EndRows[RowSender]):
    """Sends the rows of one task, tells the driver what it sent, and yields nothing."""

    def _open(self, grant: Grant, job: WriteJob, who: WriterIdentity) -> RowSender:
        return RowSender(self._address, grant, job, who.writer)

    def _give(self, end: RowSender, batch: pa.RecordBatch, job: WriteJob) -> None:  # noqa: ARG002 - the sender knows it
        end.send(batch)

    def _report(self, end: RowSender, who: WriterIdentity) -> ReportSent:
        return ReportSent(*who.told(), end.finish())


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


def _hashes(rows: pa.RecordBatch) -> tuple[Longs, Longs, Exact]:
    """Those of `HASH_COLUMNS`, first the plain ones."""
    columns = [rows.column(name) for name in HASH_COLUMNS]
    if not pa.types.is_struct(columns[0].type):
        return _longs(columns[0]), _longs(columns[1]), None
    plain, exact = ([_longs(each.field(name)) for each in columns] for name in (PLAIN, EXACT))
    return plain[0], plain[1], (exact[0], exact[1])


def _longs(column: pa.Array) -> Longs:
    found: Longs = np.asarray(column)
    return found
