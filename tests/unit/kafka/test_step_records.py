"""Which records of a step a reader gives: without a broker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from kcontrol.adapters.kafka.read.ranges import range_schema
from kcontrol.apps import step_records
from kcontrol.apps.step_records import StepReader
from kcontrol.core.model import OutputSlice, StepBoundary
from kcontrol.settings.cluster import ClusterSettings
from tests.unit.core.made import SPEC, boundary

WROTE = replace(
    boundary(7),
    outputs=tuple(OutputSlice(name, f"topic-{name}", 0, 10, 11, 1, "") for name in ("out", "since")),
)
"""A step of a definition with an output more than SPEC, which a reader has looked up."""


class Ranges:
    """In place of Kafka: each offset holds a record whose value is its topic's name."""

    def __init__(self, *_: object) -> None:
        pass

    def read(
        self, output: str, topic: str, topic_id: str, partition: int, from_: int, to: int, *, headers: bool
    ) -> Iterator[pa.RecordBatch]:
        rows = [
            {
                "key": None,
                "value": topic.encode(),
                "topic": topic,
                "partition": partition,
                "offset": offset,
                "timestamp": datetime(2026, 1, 1, tzinfo=UTC),
                "timestampType": 0,
                "headers": [{"key": "step", "value": b"7"}],
            }
            for offset in range(from_, to)
        ]
        yield pa.RecordBatch.from_pylist(rows, schema=range_schema(headers=headers))


@pytest.fixture
def reader_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(step_records, "RangeReader", Ranges)
    monkeypatch.setattr(step_records, "client_for", lambda settings: None)
    monkeypatch.setattr(StepReader, "_topic_id", lambda reader, topic: f"id-of-{topic}")

    def made(*outputs: str) -> StepReader:
        return StepReader(
            ClusterSettings(bootstrap_servers="k:9092"), SPEC, outputs or None, verify_digests=False
        )

    return made


def values(reader: StepReader, step: StepBoundary) -> dict[str, list[bytes | None]]:
    found = reader.read(step).records
    return {name: [record.value for record in records] for name, records in found.items()}


def test_all_outputs_are_all_that_the_step_has_written_whatever_the_definition_says_now(
    reader_of: Any,
) -> None:
    """A consumer that runs for long sees other definitions than the one that it began with."""
    assert values(reader_of(), WROTE) == {"out": [b"topic-out"], "since": [b"topic-since"]}
    assert [output for output, _ in reader_of().chunks(WROTE)] == ["out", "since"]


def test_an_output_that_was_not_asked_for_is_not_read(reader_of: Any) -> None:
    assert values(reader_of("out"), WROTE) == {"out": [b"topic-out"]}


def test_an_output_that_the_step_has_not_written_has_no_records(reader_of: Any) -> None:
    assert values(reader_of(), replace(WROTE, outputs=())) == {"out": []}
