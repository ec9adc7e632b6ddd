"""Which pipelines there are: those that have a definition in the log which was not deleted since."""

from __future__ import annotations

from collections.abc import Iterable

from kcontrol.core.log.keys import spec_key
from kcontrol.core.model import ControlRecord, Logged, PipelineSpec, Tombstone


def is_deletion(record: ControlRecord | Tombstone, pipeline: str) -> bool:
    """Whether it ends the pipeline: what the log has of it before no longer counts, and nobody works for it
    any more."""
    return isinstance(record, Tombstone) and record.key == spec_key(pipeline)


def definitions(records: Iterable[Logged]) -> dict[str, PipelineSpec]:
    """The newest definition of each pipeline, by name, in control records that are given in their order."""
    found: dict[str, PipelineSpec] = {}
    for logged in records:
        match logged.record:
            case PipelineSpec():
                found[spec_key(logged.record.pipeline)] = logged.record
            case Tombstone(key):
                found.pop(key, None)
            case _:
                pass
    return {spec.pipeline: spec for spec in found.values()}
