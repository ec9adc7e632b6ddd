"""The records of one committed step: exactly the offsets that its boundary names, counted and compared."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kcontrol.adapters.kafka.protocol import topic_id_text
from kcontrol.adapters.kafka.ranges import RangeReader
from kcontrol.adapters.kafka.raw_client import client_for
from kcontrol.adapters.kafka.writer import STEP_HEADER
from kcontrol.core.model import OutputSlice, PipelineSpec, StepBoundary
from kcontrol.errors import DigestMismatchError, InputGoneError, NotFoundError
from kcontrol.runtime.settings import ClusterSettings
from kcontrol.wire.digest import EMPTY, DigestKind, record_digest

Headers = Sequence[tuple[str, bytes | None]]

_EXACT = "exact"


@dataclass(frozen=True, slots=True)
class Record:
    """A record of an output topic. `headers` are without kcontrol's own `step`."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int
    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Step:
    """A committed step: its number, its time (what `current_timestamp()` was in it), and by output the records that it wrote,
    in order of partition and offset. `boundary` is its record in the log: which input made it, and more."""

    number: int
    now_ms: int
    records: Mapping[str, list[Record]]
    boundary: StepBoundary


class StepReader:
    """Reads steps of one pipeline."""

    def __init__(
        self, settings: ClusterSettings, spec: PipelineSpec, outputs: Collection[str] | None, *, verify_digests: bool
    ) -> None:
        known = {output.name for output in spec.outputs}
        for name in sorted(set(outputs or ()) - known):
            raise NotFoundError(f"Pipeline {spec.pipeline!r} has no output {name!r}; it has {', '.join(sorted(known))}.")
        self._outputs = known if outputs is None else set(outputs)
        self._topic_ids = {output.topic: output.topic_id for output in spec.outputs}
        self._client = client_for(settings)
        self._ranges = RangeReader(settings)
        self._verify_digests = verify_digests

    def read(self, boundary: StepBoundary) -> Step:
        """The step that ends with this boundary. Raises InputGoneError or DigestMismatchError."""
        records: dict[str, list[Record]] = {name: [] for name in sorted(self._outputs)}
        for part in sorted(boundary.outputs, key=lambda part: (part.output, part.partition)):
            if part.output in self._outputs and part.from_ < part.to:
                records[part.output] += self._read_slice(boundary, part)
        return Step(boundary.step, boundary.now_ms, records, boundary)

    def _read_slice(self, boundary: StepBoundary, part: OutputSlice) -> list[Record]:
        where = f"Step {boundary.step} of pipeline {boundary.pipeline!r}, output {part.output!r}, partition {part.partition}"
        try:
            found = list(self._records(boundary.step, part))
        except InputGoneError as error:
            raise InputGoneError(f"{where}: its records are no longer all in Kafka. {error}") from error
        if len(found) != part.records:
            raise DigestMismatchError(
                f"{where}: the boundary counts {part.records} records at offsets {part.from_} to {part.to} of topic "
                f"{part.topic!r}, but {len(found)} are there: compaction has removed some, or somebody else wrote among them."
            )
        if self._verify_digests:
            self._compare(where, boundary, part, found)
        return found

    def _records(self, step: int, part: OutputSlice) -> Iterator[Record]:
        own = str(step).encode()
        topic_id = self._topic_id(part.topic)
        read = self._ranges.read(part.output, part.topic, topic_id, part.partition, part.from_, part.to, headers=True)
        for batch in read:
            for row in batch.to_pylist():
                headers = [(header["key"], header["value"]) for header in row["headers"] or ()]
                # Others may write to the topic too; what is the step's carries its number.
                if headers and headers[-1] == (STEP_HEADER, own):
                    yield _record(row, headers[:-1])

    def _compare(self, where: str, boundary: StepBoundary, part: OutputSlice, found: Sequence[Record]) -> None:
        layout = next((each for each in boundary.layout.outputs if each.output == part.output), None)
        if layout is None or layout.digest != _EXACT:
            return
        digests = (record_digest(DigestKind.OUTPUT, layout.partitions, each.key, each.value, each.headers) for each in found)
        digest = sum(digests, EMPTY)
        if digest.hex != part.digest:
            raise DigestMismatchError(f"{where}: the boundary has the digest {part.digest}, the records have {digest.hex}.")

    def _topic_id(self, topic: str) -> str:
        if topic not in self._topic_ids:
            # An output of an earlier definition of the pipeline.
            info = self._client.start(self._client.topic(topic)).result()
            self._topic_ids[topic] = topic_id_text(info.topic_id)
        return self._topic_ids[topic]


def _record(row: Mapping[str, Any], headers: Headers) -> Record:
    timestamp_ms = round(row["timestamp"].timestamp() * 1000)
    return Record(row["key"], row["value"], tuple(headers), row["partition"], row["offset"], timestamp_ms)
