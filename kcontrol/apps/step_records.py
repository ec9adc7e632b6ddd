"""The records of one committed step: exactly the offsets that its boundary names, counted and compared."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kcontrol.adapters.kafka.client.background import client_for
from kcontrol.adapters.kafka.client.protocol import topic_id_text
from kcontrol.adapters.kafka.read.fetching import ReadLimits
from kcontrol.adapters.kafka.read.ranges import RangeReader
from kcontrol.adapters.kafka.write.writer import STEP_HEADER
from kcontrol.core.model import OutputSlice, PipelineSpec, StepBoundary
from kcontrol.errors import DigestMismatchError, InputGoneError, NotFoundError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.digest import EMPTY, DigestKind, record_digest

_EXACT = "exact"
RECORD_BYTES = 256
"""What a record is counted for besides its key and value: its place, its timestamp, and what Python needs for
it."""
_US_PER_MS = 1_000
_SHARES = 4
"""What may be held at a time is divided into: a fetch, the one after it, their rows in Arrow, and records."""


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """A record of an output topic. `headers` are without kcontrol's own `step`."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int
    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Step:
    """A committed step: its number, its time (what `current_timestamp()` was in it), and by output the
    records that it wrote, in order of partition and offset. `boundary` is its record in the log: which input
    made it, and more."""

    number: int
    now_ms: int
    records: Mapping[str, list[OutputRecord]]
    boundary: StepBoundary


class StepReader:
    """Reads steps of one pipeline."""

    def __init__(
        self,
        settings: ClusterSettings,
        spec: PipelineSpec,
        outputs: Collection[str] | None,
        *,
        verify_digests: bool,
        max_bytes_held: int | None = None,
    ) -> None:
        """max_bytes_held: about so much of a step is in memory while `chunks` is iterated;
        None: what is usual for a fetch."""
        known = {output.name for output in spec.outputs}
        for name in sorted(set(outputs or ()) - known):
            raise NotFoundError(
                f"Pipeline {spec.pipeline!r} has no output {name!r}; it has {', '.join(sorted(known))}."
            )
        self._every, self._outputs = outputs is None, known if outputs is None else set(outputs)
        self._topic_ids = {output.topic: output.topic_id for output in spec.outputs}
        self._client = client_for(settings)
        self._verify_digests = verify_digests
        self._chunk_bytes = None if max_bytes_held is None else max_bytes_held // _SHARES
        if self._chunk_bytes is None:
            self._ranges = RangeReader(settings)
        else:
            self._ranges = RangeReader(
                settings, ReadLimits(fetch_max_bytes=self._chunk_bytes, run_bytes=self._chunk_bytes)
            )

    def read(self, boundary: StepBoundary) -> Step:
        """The step that ends with this boundary, whole. Raises InputGoneError or DigestMismatchError."""
        written = {part.output for part in boundary.outputs if self._is_wanted(part.output)}
        records: dict[str, list[OutputRecord]] = {name: [] for name in sorted(self._outputs | written)}
        for output, chunk in self.chunks(boundary):
            records[output] += chunk
        return Step(boundary.step, boundary.now_ms, records, boundary)

    def chunks(self, boundary: StepBoundary) -> Generator[tuple[str, list[OutputRecord]]]:
        """The same piece by piece: the name of an output and some records of it, in order
        of output, partition and offset.

        Raises as `read` does, at the end of the partition in which something is wrong: after its records.
        """
        for part in sorted(boundary.outputs, key=lambda part: (part.output, part.partition)):
            if self._is_wanted(part.output) and part.from_ < part.to:
                for chunk in self._slice(boundary, part):
                    yield part.output, chunk

    def _slice(self, boundary: StepBoundary, part: OutputSlice) -> Iterator[list[OutputRecord]]:
        where = (
            f"Step {boundary.step} of pipeline {boundary.pipeline!r}, output {part.output!r}, partition "
            f"{part.partition}"
        )
        partitions = self._compared_partitions(boundary, part)
        count, digest = 0, EMPTY
        try:
            for chunk in self._records(boundary.step, part):
                count += len(chunk)
                if partitions is not None:
                    every = (
                        record_digest(DigestKind.OUTPUT, partitions, each.key, each.value, each.headers)
                        for each in chunk
                    )
                    digest = sum(every, digest)
                yield chunk
        except InputGoneError as error:
            raise InputGoneError(f"{where}: its records are no longer all in Kafka. {error}") from error
        if count != part.records:
            raise DigestMismatchError(
                f"{where}: the boundary counts {part.records} records at offsets {part.from_} to {part.to} "
                f"of topic {part.topic!r}, but {count} are there: compaction has removed some, or somebody "
                "else wrote among them."
            )
        if partitions is not None and digest.hex != part.digest:
            raise DigestMismatchError(
                f"{where}: the boundary has the digest {part.digest}, the records have {digest.hex}."
            )

    def _records(self, step: int, part: OutputSlice) -> Iterator[list[OutputRecord]]:
        own = str(step).encode()
        topic_id = self._topic_id(part.topic)
        read = self._ranges.read(
            part.output, part.topic, topic_id, part.partition, part.from_, part.to, headers=True
        )
        for batch in read:
            for rows in pieces(batch, self._chunk_bytes):
                chunk = _records_of(rows, own)
                if chunk:
                    yield chunk

    def _compared_partitions(self, boundary: StepBoundary, part: OutputSlice) -> int | None:
        """The partition count that goes into the digests of an output's records; None if they are not
        compared."""
        layout = next((each for each in boundary.layout.outputs if each.output == part.output), None)
        return (
            layout.partitions
            if self._verify_digests and layout is not None and layout.digest == _EXACT
            else None
        )

    def _is_wanted(self, output: str) -> bool:
        """All outputs are all that a step has written: of an earlier definition, or of one that was submitted since."""
        return self._every or output in self._outputs

    def _topic_id(self, topic: str) -> str:
        if topic not in self._topic_ids:
            # An output of another definition of the pipeline.
            info = self._client.start(self._client.partitions.topic(topic)).result()
            self._topic_ids[topic] = topic_id_text(info.topic_id)
        return self._topic_ids[topic]


def _records_of(rows: pa.RecordBatch, step: bytes) -> list[OutputRecord]:
    """Those of the step. Others may write to the topic too; what is the step's carries its number in its last header."""
    headers = rows.column("headers")
    counts = headers.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    names, contents = headers.flatten().flatten()
    with_any = np.flatnonzero(counts)
    last = pa.array(np.cumsum(counts)[with_any] - 1)
    is_own = pc.and_(pc.equal(names.take(last), STEP_HEADER), pc.equal(contents.take(last), step))
    own = with_any[is_own.fill_null(False).to_numpy(zero_copy_only=False)]
    if len(own) < len(rows):
        rows, counts = rows.take(pa.array(own)), counts[own]
    others: list[tuple[tuple[str, bytes | None], ...]] = [()] * len(rows)
    with_others = np.flatnonzero(counts > 1)
    for row, found in zip(
        with_others.tolist(), rows.column("headers").take(pa.array(with_others)).to_pylist(), strict=True
    ):
        others[row] = tuple((header["key"], header["value"]) for header in found[:-1])
    timestamps_ms = rows.column("timestamp").cast(pa.int64()).to_numpy() // _US_PER_MS
    return list(
        map(
            OutputRecord,
            rows.column("key").to_pylist(),
            rows.column("value").to_pylist(),
            others,
            rows.column("partition").to_pylist(),
            rows.column("offset").to_pylist(),
            timestamps_ms.tolist(),
        )
    )


def pieces(batch: pa.RecordBatch, max_bytes: int | None) -> Iterator[pa.RecordBatch]:
    """The rows of a batch in order, cut so that none of the pieces counts more than
    `max_bytes`, unless it is a single row."""
    if max_bytes is None or not batch.num_rows:
        yield batch
        return
    sizes = np.full(batch.num_rows, RECORD_BYTES, np.int64)
    for name in ("key", "value"):
        lengths = pc.fill_null(pc.binary_length(batch.column(name)), 0)
        sizes += lengths.to_numpy(zero_copy_only=False)
    ends = np.cumsum(sizes)
    begin, taken = 0, 0
    while begin < batch.num_rows:
        end = max(int(np.searchsorted(ends, taken + max_bytes, side="right")), begin + 1)
        yield batch.slice(begin, end - begin)
        begin, taken = end, int(ends[end - 1])
