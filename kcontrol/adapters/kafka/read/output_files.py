"""The committed records of an output up to a step, as a file that Spark reads.

Exactly the offsets that the boundaries name, and of these the records that carry their step's number: others may
write to the topic, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kcontrol.adapters.kafka.client.background import client_for
from kcontrol.adapters.kafka.client.partitions import Bound
from kcontrol.adapters.kafka.client.protocol import READ_COMMITTED, topic_id_text
from kcontrol.adapters.kafka.read.fetching import ReadLimits
from kcontrol.adapters.kafka.read.ranges import RangeReader
from kcontrol.adapters.kafka.write.writer import STEP_HEADER
from kcontrol.core.model import OutputSlice, OutputSpec, StepBoundary
from kcontrol.errors import ConfigurationError, DigestMismatchError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.batches import HEADERS_TYPE

_PIECE_BYTES = 8 << 20
SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS_TYPE),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("step", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
    ]
)


@dataclass(frozen=True, slots=True)
class SavedOutput:
    """records: in the file. missing: that steps have written, and that Kafka has no more."""

    records: int
    missing: int


class OutputFiles:
    """Reads outputs of one cluster."""

    def __init__(self, settings: ClusterSettings, max_bytes: int, check: Callable[[], None]) -> None:
        """max_bytes: of the keys, values and headers of one output. check: asked between pieces; what it raises ends
        the reading."""
        self._client = client_for(settings)
        self._ranges = RangeReader(settings, ReadLimits(fetch_max_bytes=_PIECE_BYTES, run_bytes=_PIECE_BYTES))
        self._max_bytes = max_bytes
        self._check = check

    def save(self, output: OutputSpec, boundaries: Sequence[StepBoundary], file: Path) -> SavedOutput:
        """Write the records of an output in these steps, which are in order.

        Raises ConfigurationError: there are more bytes than are allowed. DigestMismatchError: there are records that
        no step has written but that say so. InputGoneError, AccessError, RetriableError as `RangeReader.read_each`.
        """
        slices: dict[tuple[str, int], list[tuple[int, OutputSlice]]] = {}
        for boundary in boundaries:
            for part in boundary.outputs:
                if part.output == output.name and part.from_ < part.to:
                    slices.setdefault((part.topic, part.partition), []).append((boundary.step, part))
        expected = sum(part.records for parts in slices.values() for _, part in parts)
        found = size = 0
        with pq.ParquetWriter(str(file), SCHEMA, compression="zstd") as writer:
            for (topic, partition), parts in sorted(slices.items()):
                for rows in self._rows(output, topic, partition, parts):
                    self._check()
                    found, size = found + rows.num_rows, size + rows.nbytes
                    self._check_size(output, boundaries[-1].step, size)
                    writer.write_batch(rows)
        if found > expected:
            raise DigestMismatchError(
                f"output {output.name!r}: steps up to {boundaries[-1].step} have written {expected:,} records, and "
                f"{found:,} are there that say so: somebody else writes to topic {output.topic!r}"
            )
        return SavedOutput(found, expected - found)

    def _check_size(self, output: OutputSpec, step: int, size: int) -> None:
        if size > self._max_bytes:
            raise ConfigurationError(
                f"output {output.name!r}: its records up to step {step} have more than {self._max_bytes:,} bytes, which "
                "is the most that is read for a question: raise --max-read"
            )

    def _rows(
        self, output: OutputSpec, topic: str, partition: int, parts: Sequence[tuple[int, OutputSlice]]
    ) -> Iterator[pa.RecordBatch]:
        """Of one partition, in order; what retention has deleted is left out."""
        info = self._client.start(self._client.partitions.topic(topic, partitions=[partition])).result()
        topic_id = output.topic_id if topic == output.topic else topic_id_text(info.topic_id)
        begin = self._client.start(
            self._client.partitions.offsets(info, [partition], Bound.EARLIEST, READ_COMMITTED)
        ).result()[partition]
        there = [(step, part) for step, part in parts if part.to > begin]
        if not there:
            return
        from_, to = max(begin, there[0][1].from_), there[-1][1].to
        read = self._ranges.read(output.name, topic, topic_id, partition, from_, to, headers=True)
        for batch in read:
            rows = _of_steps(batch, there)
            if rows.num_rows:
                yield rows


def _of_steps(batch: pa.RecordBatch, parts: Sequence[tuple[int, OutputSlice]]) -> pa.RecordBatch:
    """The rows that these steps have written, with the step, and without the header that says so."""
    offsets = batch.column("offset").to_numpy()
    place = np.searchsorted([part.from_ for _, part in parts], offsets, side="right") - 1
    ends, steps = np.array([part.to for _, part in parts]), np.array([step for step, _ in parts])
    step = steps[np.maximum(place, 0)]
    within = (place >= 0) & (offsets < ends[np.maximum(place, 0)])
    headers = batch.column("headers")
    last = pc.list_value_length(headers).fill_null(0).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(within & (last > 0))
    batch, step = batch.take(pa.array(rows)), step[rows]
    headers = batch.column("headers")
    bounds = headers.offsets.to_numpy()
    names, values = headers.values.field("key"), headers.values.field("value")
    newest = pa.array(bounds[1:] - 1)
    own = pc.and_(
        pc.equal(names.take(newest), STEP_HEADER),
        pc.equal(values.take(newest), pa.array([str(each).encode() for each in step], pa.binary())),
    ).fill_null(False)
    kept = np.ones(len(headers.values), bool)
    kept[: bounds[0]] = False
    kept[bounds[-1] :] = False
    kept[bounds[1:] - 1] = False
    shorter = pa.ListArray.from_arrays(
        pa.array(bounds - bounds[0] - np.arange(len(bounds)), pa.int32()),
        headers.values.filter(pa.array(kept)),
    )
    columns = [
        batch.column("key"), batch.column("value"), shorter.cast(HEADERS_TYPE), batch.column("partition"),
        batch.column("offset"), pa.array(step, pa.int64()), batch.column("timestamp"),
    ]  # fmt: skip
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA).filter(own)
