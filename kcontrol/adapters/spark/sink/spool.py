"""The rows of a replay on their way from Spark's tasks to whoever asked for them: Arrow
files in the scratch directory.

Each writer task puts its rows beside the digest that it computes anyway, batch by batch, so that neither a
task nor the driver ever holds a step. The driver reads the files of a step once all its digests are known,
and deletes them before the next. That wants tasks and driver on one machine.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from kcontrol.adapters.kafka.write.writer import DigestWriter
from kcontrol.core.model import OutputSlice
from kcontrol.errors import ConfigurationError
from kcontrol.replay.delivery import ReplayedRecord
from kcontrol.wire.batches import HEADERS_TYPE
from kcontrol.wire.batches.columns import Ints

MAX_BATCH_ROWS = 1_000
"""Rows that are read back at once."""

_SCHEMA = pa.schema(
    [("partition", pa.int32()), ("key", pa.binary()), ("value", pa.binary()), ("headers", HEADERS_TYPE)]
)
_SUFFIX = ".arrows"
_LOCAL = re.compile(r"local(\[[^]]*\])?")


def check_local(master: str) -> None:
    """Raise ConfigurationError unless tasks run in the machine of the driver, where it can read their
    files."""
    if not _LOCAL.fullmatch(master):
        raise ConfigurationError(
            f"Spark master {master!r}: a replay reads its tasks' rows from files, so they must run on this "
            "machine; use --master 'local[N]'"
        )


class Spool:
    """The driver's side: where the rows of a step are put, and how they are read.

    directory: empty or not there yet. first_step: rows of the steps before it are not kept.
    """

    def __init__(self, directory: Path, first_step: int) -> None:
        self._directory = directory
        self._first_step = first_step

    def place(self, step: int) -> Path | None:
        """The directory that the tasks of `step` write to, made; None for a step whose rows nobody wants."""
        if step < self._first_step:
            return None
        place = self._of(step)
        place.mkdir(parents=True, exist_ok=True)
        return place

    def read(self, step: int, outputs: Sequence[str]) -> SpooledRecords:
        """The records of `step`, those of each of `outputs` in turn."""
        return SpooledRecords(self._of(step), outputs)

    def drop(self, step: int) -> None:
        """Delete the rows of `step`."""
        shutil.rmtree(self._of(step), ignore_errors=True)

    def _of(self, step: int) -> Path:
        return self._directory / str(step)


class SpooledRecords:
    """The records of one step, read from the files each time it is gone through."""

    def __init__(self, place: Path, outputs: Sequence[str]) -> None:
        self._place = place
        self._outputs = outputs

    def __iter__(self) -> Iterator[ReplayedRecord]:
        files = [
            (path.name.removesuffix(_SUFFIX).rpartition("."), path)
            for path in self._place.glob(f"*{_SUFFIX}")
        ]
        for output in self._outputs:
            for _, path in sorted((int(writer), path) for (name, _, writer), path in files if name == output):
                yield from _records(path, output)


class SpoolFile:
    """Keeps the rows of one output that one writer makes.

    place: the step's directory. writer: its number among the query's writers.
    """

    def __init__(self, place: Path, output: str, writer: int) -> None:
        # Writer and output are one only once in a step: an attempt never runs a task twice.
        self._file = (place / f"{output}.{writer}{_SUFFIX}").open("xb")
        self._stream = pa.ipc.new_stream(self._file, _SCHEMA)

    def write(self, rows: pa.RecordBatch, partitions: Ints) -> None:
        """Rows, each of its partition."""
        for start in range(0, rows.num_rows, MAX_BATCH_ROWS):
            part = slice(start, start + MAX_BATCH_ROWS)
            self._stream.write_batch(_spooled(rows[part], partitions[part]))

    def close(self) -> None:
        """Nothing more comes; may be said twice."""
        if not self._file.closed:
            self._stream.close()
            self._file.close()


class SpoolWriter:
    """A task's side: a `DigestWriter` that also keeps the rows of one output.

    place: the step's directory. writer: the number of the task among the query's writers.
    """

    def __init__(self, counted: DigestWriter, place: Path, output: str, writer: int) -> None:
        self._counted = counted
        self._file = SpoolFile(place, output, writer)

    def write(
        self, rows: pa.RecordBatch, partitions: Ints, digest_rows: pa.RecordBatch | None = None
    ) -> None:
        """See `DigestWriter.write`."""
        self._counted.write(rows, partitions, digest_rows)
        self._file.write(rows, partitions)

    def finish(self) -> list[OutputSlice]:
        """See `DigestWriter.finish`."""
        self._file.close()
        return self._counted.finish()

    def abort(self) -> None:
        """Close the file, as it is; the attempt is over, and with it the run."""
        self._file.close()
        self._counted.abort()


def _spooled(rows: pa.RecordBatch, partitions: Ints) -> pa.RecordBatch:
    columns = [pa.array(np.asarray(partitions, dtype=np.int32))]
    for field in list(_SCHEMA)[1:]:
        there = field.name in rows.schema.names
        columns.append(
            rows.column(field.name).cast(field.type) if there else pa.nulls(rows.num_rows, field.type)
        )
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _records(path: Path, output: str) -> Iterator[ReplayedRecord]:
    with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as stream:
        for batch in stream:
            for row in batch.to_pylist():
                headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
                yield ReplayedRecord(output, row["partition"], row["key"], row["value"], headers)
