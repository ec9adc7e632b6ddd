"""Which records belong where they were found: keys read back, and the partition that each pipeline has.

A record is only taken in under its own key and in its pipeline's partition. Anything else was put there by
hand or by a tool with another partitioner, and would survive compaction beside the rightful one.
"""

from __future__ import annotations

from kcontrol.core.log.keys import key_of
from kcontrol.core.model import ControlRecord, StepRecord
from kcontrol.wire.codec import is_schema_key
from kcontrol.wire.names import control_partition


def pipeline_of(key: str) -> str:
    """The pipeline of a control key ('' for a schema's, which belongs to none)."""
    return "" if is_schema_key(key) else key.partition("/")[0]


def why_misplaced(key: str, record: ControlRecord, partition: int, partitions: int) -> str:
    """Why a control record does not belong under this key in this partition, or '' if it does.

    partitions: how many the control topic has.
    """
    if reason := why_key_misplaced(key, partition, partitions):
        return reason
    if record.pipeline != pipeline_of(key):
        return f"a {type(record).__name__} of pipeline {record.pipeline!r} lies under the key {key!r}"
    return _why_wrong_key(key, record)


def why_key_misplaced(key: str, partition: int, partitions: int) -> str:
    """The part of `why_misplaced` that holds for tombstones too: the partition is not that of the key's
    pipeline."""
    home = control_partition(pipeline_of(key), partitions)
    if home == partition:
        return ""
    return (
        f"key {key!r} is in partition {partition}, but its pipeline lives in partition {home} of {partitions}"
    )


def why_step_misplaced(key: str, record: StepRecord, pipeline: str) -> str:
    """Why a record does not belong under this key of this pipeline's
    steps topic, or '' if it does."""
    if record.pipeline != pipeline:
        return (
            f"a {type(record).__name__} of pipeline {record.pipeline!r} is in the steps topic of {pipeline!r}"
        )
    return _why_wrong_key(key, record)


def _why_wrong_key(key: str, record: ControlRecord | StepRecord) -> str:
    own = key_of(record)
    return "" if own == key else f"a {type(record).__name__} whose key is {own!r} lies under the key {key!r}"
