"""Going past offsets that no step shall read, on a user's request: expired ones, or records that no query can digest.

A request names where the next step would begin and where it shall begin instead. It counts while the first still holds, and
never again after that; nothing has to be remembered for it, and no coordinator, old or new, can carry it out twice. The step
that goes by it records the range in its boundary, so each offset is in exactly one step or in one recorded skip.
"""

from __future__ import annotations

from kcontrol.core.inputs import arrived, next_offset, partition_count
from kcontrol.core.model import InputSpec, PipelineSpec, ReceivedPartition, SkippedRange, SkipRequest
from kcontrol.core.pipeline_view import PipelineView
from kcontrol.core.steps_view import StepsView


def skips_due(spec: PipelineSpec, steps: StepsView, view: PipelineView) -> tuple[SkippedRange, ...]:
    """What the next step passes over, in order of the spec and of partitions."""
    if not view.skips:
        return ()
    found = []
    for item in spec.inputs:
        asked = sorted(partition for name, partition in view.skips if name == item.name)
        seen = arrived(spec, item, view) if asked else {}
        for partition in asked:
            skip = view.skip(item.name, partition)
            if skip is not None and _counts(steps, item, skip, seen.get(partition)):
                where = (item.name, item.topic, item.topic_id, partition)
                found.append(SkippedRange(*where, skip.from_, skip.to, skip.by, skip.asked_ms))
    return tuple(found)


def _counts(steps: StepsView, item: InputSpec, skip: SkipRequest, seen: ReceivedPartition | None) -> bool:
    """Only forward, only from where the log of steps ends, and only over offsets that are, or were, there."""
    if not next_offset(steps, item, skip.partition) == skip.from_ < skip.to:
        return False
    return seen is not None and seen.topic_id == item.topic_id and skip.to <= seen.to


def why_not_due(spec: PipelineSpec, steps: StepsView, view: PipelineView, skip: SkipRequest) -> str:
    """Why the next step does not go by a request that is in the log, as a clause for people; '' if it does."""
    where = (skip.input, skip.partition)
    if any((one.input, one.partition, one.to) == (*where, skip.to) for one in skips_due(spec, steps, view)):
        return ""
    item = next((one for one in spec.inputs if one.name == skip.input), None)
    seen = {} if item is None else arrived(spec, item, view)
    if item is None or skip.partition >= partition_count(steps, item, seen):
        return f"the pipeline has no partition {skip.partition} of an input {skip.input}"
    newest = view.skip(*where)
    if newest is not None and newest != skip:
        return f"another request for the same partition has followed, by {newest.by}, to offset {newest.to}"
    begin = next_offset(steps, item, skip.partition)
    if begin != skip.from_:
        return f"a step has gone on meanwhile: the next one begins at offset {begin}"
    reach = seen.get(skip.partition)
    if reach is None or reach.topic_id != item.topic_id:
        return "the node that reads the partition has not said how far it reaches; see that it runs"
    return f"the partition ends at offset {reach.to}, as far as its node has seen"
