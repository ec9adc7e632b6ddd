"""What Spark's writer tasks run (`mapInArrow`): choose each row's partition, ask for leave, write in the step's transaction.

The objects are pickled into the tasks by reference to this module, so executors need kcontrol installed. A killed try of a
task sees its rows end as if they were complete; its result is never used, because only the successful job's rows count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from kcontrol.adapters.spark.channel import ChannelAddress, client_of
from kcontrol.adapters.spark.reporting import failures_reported
from kcontrol.adapters.spark.rows import PARTITION_COLUMN, RESULT_SCHEMA, OutputTarget, place, split_by_output
from kcontrol.adapters.spark.writing import RowWriter
from kcontrol.core.model import OutputSlice


class Placement(StrEnum):
    """How a query's rows find their writer task."""

    SINGLE = "single"
    """One writer, without a shuffle."""
    DIRECT = "direct"
    """Each source task writes its rows itself, to output partitions that no other source task's rows belong to."""
    EXCHANGE = "exchange"
    """A shuffle brings the rows of an output partition to the one task that writes it."""


@dataclass(frozen=True, slots=True)
class WriteJob:
    """What every writer task of one query's batch knows."""

    address: ChannelAddress
    serial: int
    query: str
    placement: Placement
    tasks: int
    replay: bool
    targets: tuple[OutputTarget, ...]
    spool: Path | None = None
    """In a replay: the directory, on this machine, that takes the rows; None: only their digests are wanted."""


class PlaceRows:
    """The first half of an exchange: adds the column of the output partition."""

    def __init__(self, job: WriteJob) -> None:
        self._job = job

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with failures_reported(self._job.address, self._job.serial):
            for batch in batches:
                numbers = pa.nulls(batch.num_rows, pa.int32()).fill_null(0)
                for target, chosen, rows in split_by_output(batch, self._job.targets):
                    numbers = _scatter(numbers, chosen, place(rows, target, target.own))
                yield batch.append_column(PARTITION_COLUMN, numbers)


class WriteRows:
    """Writes the rows of one task and yields one row for each output partition that got any."""

    def __init__(self, job: WriteJob) -> None:
        self._job = job

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with failures_reported(self._job.address, self._job.serial):
            slices = self._write(batch for batch in batches if batch.num_rows)
        yield _result_batch(slices)

    def _write(self, batches: Iterator[pa.RecordBatch]) -> list[OutputSlice]:
        first = next(batches, None)
        if first is None:
            return []  # nothing to write: no leave is needed
        context = TaskContext.get()
        assert context is not None
        grant = self._ask_leave(context)
        own = {name: tuple(partitions) for name, partitions in grant["own"].items()}
        writer = RowWriter(self._job.address, grant, self._job.replay, context.partitionId(), self._job.spool)
        try:
            for batch in chain([first], batches):
                for target, _, rows in split_by_output(batch, self._job.targets):
                    placed = PARTITION_COLUMN in rows.schema.names
                    numbers = rows.column(PARTITION_COLUMN) if placed else place(rows, target, own[target.name])
                    writer.write(target, rows, numbers)
            return writer.finish()
        except BaseException:
            writer.abort()
            raise

    def _ask_leave(self, context: TaskContext) -> dict[str, Any]:
        return client_of(self._job.address).ask(
            "grant",
            serial=self._job.serial,
            query=self._job.query,
            writer=context.partitionId(),
            task_attempt=context.taskAttemptId(),
            attempt_number=context.attemptNumber(),
            placement=self._job.placement.value,
            tasks=self._job.tasks,
            modulus=self._job.targets[0].partitions,
        )


def _scatter(numbers: pa.Array, chosen: pa.Array | None, values: pa.Array) -> pa.Array:
    """`values` in the rows where `chosen` is true; everywhere if there is no mask."""
    return values if chosen is None else pa.compute.replace_with_mask(numbers, chosen, values)


def _result_batch(slices: list[OutputSlice]) -> pa.RecordBatch:
    columns = [
        [getattr(item, name) for item in slices]
        for name in ("output", "topic", "partition", "from_", "to", "records", "digest")
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, RESULT_SCHEMA, strict=True)], schema=RESULT_SCHEMA
    )
