"""Every record belongs under its own key in its own partition, and nowhere else."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from kcontrol.core.log.keys import key_of
from kcontrol.core.model import ControlRecord, StepBoundary
from kcontrol.wire.keys import pipeline_of, why_misplaced, why_step_misplaced
from kcontrol.wire.names import control_partition
from tests.strategies import BOUNDARIES, CONTROL_RECORDS, PIPELINE_NAMES

PARTITIONS = st.integers(1, 64)


@given(CONTROL_RECORDS, PARTITIONS)
def test_a_record_belongs_under_its_key_in_its_partition(record: ControlRecord, partitions: int) -> None:
    key = key_of(record)
    assert pipeline_of(key) == record.pipeline
    assert why_misplaced(key, record, control_partition(record.pipeline, partitions), partitions) == ""


@given(CONTROL_RECORDS, st.integers(0, 63), PARTITIONS)
def test_no_other_partition_will_do(record: ControlRecord, partition: int, partitions: int) -> None:
    assume(partition != control_partition(record.pipeline, partitions))
    assert f"partition {partition}" in why_misplaced(key_of(record), record, partition, partitions)


@given(CONTROL_RECORDS, CONTROL_RECORDS)
def test_the_key_of_another_record_will_not_do(record: ControlRecord, other: ControlRecord) -> None:
    key = key_of(other)
    assume(key != key_of(record))
    assert repr(key) in why_misplaced(key, record, 0, 1)


@given(BOUNDARIES, BOUNDARIES, PIPELINE_NAMES)
def test_a_boundary_belongs_under_its_step_in_its_pipelines_topic(
    boundary: StepBoundary, other: StepBoundary, pipeline: str
) -> None:
    key = key_of(boundary)
    assert why_step_misplaced(key, boundary, boundary.pipeline) == ""
    assert bool(why_step_misplaced(key, boundary, pipeline)) == (pipeline != boundary.pipeline)
    assert bool(why_step_misplaced(key_of(other), boundary, boundary.pipeline)) == (
        other.step != boundary.step
    )


@given(st.text())
def test_a_schema_belongs_to_no_pipeline(name: str) -> None:
    assert pipeline_of(f"schema/{name}") == ""
