"""Going past offsets that no step shall read, on a user's request: expired ones, or
records that no query can digest.

A request names where the next step would begin and where it shall begin instead. It counts while the first
still holds, and never again after that; nothing has to be remembered for it, and no coordinator, old or new,
can carry it out twice. The step that goes by it records the range in its boundary, so each offset is in
exactly one step or in one recorded skip.
"""

from __future__ import annotations

from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import InputSpec, PipelineSpec, ReceivedPartition, SkippedRange, SkipRequest
from kcontrol.core.step.offsets import arrived, is_paused, next_offset, partition_count


def skips_due(spec: PipelineSpec, steps: StepsView, view: PipelineView) -> tuple[SkippedRange, ...]:
    """What the next step passes over, in order of the spec and of partitions."""
    if not view.skips:
        return ()
    found = []
    for item in spec.inputs:
        asked = sorted(partition for name, partition in view.skips if name == item.name)
        seen = arrived(spec, item, view) if asked else {}
        count = partition_count(steps, item, None if is_paused(view, item) else seen) if asked else 0
        for partition in asked:
            skip = view.skip(item.name, partition)
            if skip is not None and partition < count and _counts(steps, item, skip, seen.get(partition)):
                where = (item.name, item.topic, item.topic_id, partition)
                found.append(
                    SkippedRange(*where, skip.from_, skip.to, skip.by, skip.asked_ms, skip.request_id)
                )
    return tuple(found)


def _counts(steps: StepsView, item: InputSpec, skip: SkipRequest, seen: ReceivedPartition | None) -> bool:
    """Only forward, only from where the log of steps ends, and only over offsets that are, or were, there."""
    if not next_offset(steps, item, skip.partition) == skip.from_ < skip.to:
        return False
    return seen is not None and seen.topic_id == item.topic_id and skip.to <= seen.to


def overtaken(spec: PipelineSpec, steps: StepsView, view: PipelineView, skip: SkipRequest) -> str:
    """Why a request that is in the log means nothing any more, as a clause for people; '' if it still may."""
    newest = view.skip(skip.input, skip.partition)
    if newest is not None and newest != skip:
        return f"another request for the same partition has followed, by {newest.by}, to offset {newest.to}"
    item = next((one for one in spec.inputs if one.name == skip.input), None)
    if item is None:
        return f"the pipeline has no input {skip.input} any more"
    begin = next_offset(steps, item, skip.partition)
    return (
        ""
        if begin == skip.from_
        else f"a step has been made of the input meanwhile: the next one begins at offset {begin}"
    )


def unseen(spec: PipelineSpec, steps: StepsView, view: PipelineView, skip: SkipRequest) -> str:
    """What a request that was not overtaken still waits for, as a clause for people; '' if it is in force."""
    item = next((one for one in spec.inputs if one.name == skip.input), None)
    seen = None if item is None else arrived(spec, item, view).get(skip.partition)
    if item is None or seen is None or seen.topic_id != item.topic_id:
        return (
            f"the node that reads partition {skip.partition} of input {skip.input} has not said how far "
            "it reaches"
        )
    if is_paused(view, item) and skip.partition >= partition_count(steps, item, None):
        return (
            f"partition {skip.partition} was added while input {skip.input} was paused, and is taken up "
            "when it is resumed"
        )
    if skip.to > seen.to:
        return (
            f"partition {skip.partition} of input {skip.input} ends at offset {seen.to}, as far as its "
            "node has seen"
        )
    return ""
