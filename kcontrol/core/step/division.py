"""What a step holds: for each partition of each input the offsets [from, to).

A step holds everything that nodes have received, clipped to `max_records` in proportion to what waits. The
division names every partition, also those it reads nothing of, so that one boundary alone says where the next
step begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import SHARED_OUT, InputRange, InputSlice, PipelineSpec
from kcontrol.core.step.offsets import arrived, dealt_to, is_paused, next_offset, partition_count
from kcontrol.core.step.skips import skips_due

FILES = "file:"
"""With this the address of an input of files begins, which no topic of Kafka has in its name."""


def received_ranges(spec: PipelineSpec, steps: StepsView, view: PipelineView) -> tuple[InputRange, ...]:
    """Everything received beyond the last committed step: one range a partition, in order of
    the spec, empty ones included.

    A range begins after what is skipped, and is empty for a paused input.
    """
    begins = {(skip.input, skip.partition): skip.to for skip in skips_due(spec, steps, view)}
    ranges = []
    for item in spec.inputs:
        seen_by = None if is_paused(view, item) else arrived(spec, item, view)
        for partition in range(partition_count(steps, item, seen_by)):
            begin = begins.get((item.name, partition), next_offset(steps, item, partition))
            seen = None if seen_by is None else seen_by.get(partition)
            end = begin if seen is None or seen.topic_id != item.topic_id else max(begin, seen.to)
            ranges.append(InputRange(item.name, item.topic, item.topic_id, partition, begin, end))
    return tuple(ranges)


def of_size(spec: PipelineSpec, nodes: int) -> PipelineSpec:
    """The pipeline as it was, or would be, with so many nodes: which of them reads which
    partition follows from the number."""
    return spec if nodes == spec.nodes else dealt_out(spec, nodes)


def dealt_out(spec: PipelineSpec, nodes: int) -> PipelineSpec:
    """With its partitions dealt out among so many nodes, as those of a pipeline whose layout was never changed."""
    dealt = []
    for each in spec.inputs:
        pinned = _pinned(each.node, nodes)
        node_of = tuple(dealt_to(p, nodes, pinned) for p in range(len(each.node_of)))
        dealt.append(replace(each, node_of=node_of, node=pinned))
    outputs = tuple(replace(each, node=_pinned(each.node, nodes)) for each in spec.outputs)
    sized = replace(spec, nodes=nodes, inputs=tuple(dealt), outputs=outputs)
    return sized if nodes > 1 else _alone(sized)


def _alone(spec: PipelineSpec) -> PipelineSpec:
    """One node has nobody to exchange rows with, and runs no query that only sends."""
    senders = {each.sender for each in spec.exchanges if not each.delivers}
    queries = tuple(name for name in spec.queries if name not in senders)
    return replace(spec, queries=queries, exchanges=(), stages=(), watermarks=())


def _pinned(node: int, nodes: int) -> int:
    """A node that there was not can't have had anything to itself."""
    return node if node < nodes else SHARED_OUT


def offsets_in(ranges: Sequence[InputRange | InputSlice]) -> int:
    """How many offsets the ranges hold: an upper bound of their records."""
    return sum(item.to - item.from_ for item in ranges)


def clipped(ranges: Sequence[InputRange], max_records: int) -> tuple[InputRange, ...]:
    """The ranges cut to `max_records` offsets in all, each in proportion to what waits in it.

    So partitions that hold the same span of event time stay together in it, however full or sparse they are,
    and a watermark drops nothing of the full ones. Of each the step takes its exact share, rounded down or
    up, so that the sum is exact. Who is rounded up changes from step to step evenly (a golden-ratio
    sequence), so that a partition whose share is a hundredth of a record gives one about every hundred steps.
    The same ranges always give the same division.
    """
    waiting = offsets_in(ranges)
    if waiting <= max_records:
        return tuple(ranges)
    phase = _phase(sum(item.from_ for item in ranges) // max_records)
    before = dealt = 0
    division = []
    for item in ranges:
        before += item.to - item.from_
        # What all ranges up to this one get: their exact share and a part of an offset, rounded down.
        now_dealt = (before * max_records * _WHOLE_PHASE + phase * waiting) // (waiting * _WHOLE_PHASE)
        division.append(replace(item, to=item.from_ + now_dealt - dealt))
        dealt = now_dealt
    return tuple(division)


_WHOLE_PHASE = 1 << 64
_GOLDEN = 0x9E3779B97F4A7C15
"""The golden ratio's fraction of `_WHOLE_PHASE`: its multiples are spread more evenly
than those of any other number."""


def _phase(turn: int) -> int:
    """Part of an offset, of `_WHOLE_PHASE`. turn: grows by one with each step that is cut,
    without being counted anywhere."""
    return turn * _GOLDEN % _WHOLE_PHASE


def gone_input(spec: PipelineSpec, steps: StepsView, view: PipelineView) -> str:
    """One sentence about input that the next step needs and Kafka no longer has, or ''. It
    needs nothing of a paused one."""
    begins = {(skip.input, skip.partition): skip.to for skip in skips_due(spec, steps, view)}
    for item in spec.inputs:
        if is_paused(view, item):
            continue
        for partition, seen in sorted(arrived(spec, item, view).items()):
            where = f"input {item.name} (topic {item.topic}, partition {partition})"
            if seen.topic_id != item.topic_id and item.topic.startswith(FILES):
                # What the node says in place of an id is what is wrong.
                return (
                    f"input {item.name}: {seen.topic_id}; put back what its steps have read, then kcontrol resume "
                    f"{spec.pipeline}, "
                    "or give the pipeline another name to read what is there from its beginning"
                )
            if seen.topic_id != item.topic_id:
                return (
                    f"{where} was deleted and created again: its topic id is {seen.topic_id}, the pipeline "
                    f"was made with {item.topic_id}; submit the pipeline under a new name to read the new "
                    "topic"
                )
            begin = begins.get((item.name, partition), next_offset(steps, item, partition))
            if seen.earliest > begin:
                return (
                    f"{where} has expired: the next step needs offset {begin}, the first one left is "
                    f"{seen.earliest}; restore the topic, or go on without offsets {begin} to "
                    f"{seen.earliest - 1}: kcontrol skip {spec.pipeline} --input {item.name} --partition "
                    f"{partition} --to-offset {seen.earliest}, then kcontrol resume {spec.pipeline}"
                )
    return ""
