"""What a step holds: for each partition of each input the offsets [from, to).

A step holds everything that nodes have received, clipped to `max_records` so that no partition starves. The division names
every partition, also those it reads nothing of, so that one boundary alone says where the next step begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kcontrol.core.model import InputRange, InputSpec, PipelineSpec, Received, ReceivedPartition
from kcontrol.core.pipeline_view import PipelineView
from kcontrol.core.steps_view import StepsView


def next_offset(steps: StepsView, spec: InputSpec, partition: int) -> int:
    """Where the next step begins to read a partition."""
    return steps.next_from.get((spec.name, partition), spec.start_offsets[partition])


def received_ranges(spec: PipelineSpec, steps: StepsView, view: PipelineView) -> tuple[InputRange, ...]:
    """Everything received beyond the last committed step: one range a partition, in order of the spec, empty ones included."""
    ranges = []
    for item in spec.inputs:
        arrived = _arrived(item, view)
        for partition in range(len(item.start_offsets)):
            begin = next_offset(steps, item, partition)
            seen = arrived.get(partition)
            end = begin if seen is None or seen.topic_id != item.topic_id else max(begin, seen.to)
            ranges.append(InputRange(item.name, item.topic, item.topic_id, partition, begin, end))
    return tuple(ranges)


def of_size(spec: PipelineSpec, nodes: int) -> PipelineSpec:
    """The pipeline as it was, or would be, with so many nodes: which of them reads which partition follows from the number."""
    if nodes == spec.nodes:
        return spec
    dealt = (replace(each, node_of=tuple(p % nodes for p in range(len(each.node_of)))) for each in spec.inputs)
    return replace(spec, nodes=nodes, inputs=tuple(dealt))


def offsets_in(ranges: Sequence[InputRange]) -> int:
    """How many offsets the ranges hold: an upper bound of their records."""
    return sum(item.to - item.from_ for item in ranges)


def clipped(ranges: Sequence[InputRange], max_records: int) -> tuple[InputRange, ...]:
    """The ranges cut to `max_records` offsets in all, by max-min fairness.

    A partition that holds less than an equal share is taken whole and what it leaves is shared by the others; what can't be
    shared evenly goes to the first of them in order. The same ranges always give the same division.
    """
    if offsets_in(ranges) <= max_records:
        return tuple(ranges)
    granted = [0] * len(ranges)
    left = max_records
    by_size = sorted(range(len(ranges)), key=lambda index: (ranges[index].to - ranges[index].from_, index))
    for position, index in enumerate(by_size):
        size = ranges[index].to - ranges[index].from_
        granted[index] = min(size, left // (len(by_size) - position))
        left -= granted[index]
    for index, item in enumerate(ranges):
        more = min(left, item.to - item.from_ - granted[index])
        granted[index] += more
        left -= more
    return tuple(replace(item, to=item.from_ + granted[index]) for index, item in enumerate(ranges))


def gone_input(spec: PipelineSpec, steps: StepsView, view: PipelineView) -> str:
    """One sentence about input that the next step needs and Kafka no longer has, or ''."""
    for item in spec.inputs:
        for partition, seen in sorted(_arrived(item, view).items()):
            where = f"input {item.name} (topic {item.topic}, partition {partition})"
            if seen.topic_id != item.topic_id:
                return (
                    f"{where} was deleted and created again: its topic id is {seen.topic_id}, the pipeline was made with "
                    f"{item.topic_id}; submit the pipeline under a new name to read the new topic"
                )
            begin = next_offset(steps, item, partition)
            if seen.earliest > begin:
                return (
                    f"{where} has expired: the next step needs offset {begin}, the first one left is {seen.earliest}; "
                    "restore the topic, or submit the pipeline under a new name to go on without the lost records"
                )
    return ""


def _arrived(item: InputSpec, view: PipelineView) -> dict[int, ReceivedPartition]:
    """By partition, what the node that reads it has seen; nothing said by another node counts."""
    found: dict[int, ReceivedPartition] = {}
    for node in sorted(set(item.node_of)):
        received = view.received(node, item.name)
        if received is not None:
            found.update(_own_partitions(item, received))
    return found


def _own_partitions(item: InputSpec, received: Received) -> dict[int, ReceivedPartition]:
    return {
        seen.partition: seen
        for seen in received.partitions
        if seen.partition < len(item.node_of) and item.node_of[seen.partition] == received.node
    }
