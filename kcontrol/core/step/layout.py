"""How a step is cut into Spark tasks: from the spec and the division alone, never from the machine that runs
it.

Sums of doubles differ with the number of source tasks, so a step that is replayed elsewhere must be cut as it
was. Tasks are numbered from 0 within one input and one node: a partition belongs to exactly one node, so the
number is unambiguous.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kcontrol.core.model import (
    SHARED_OUT,
    ExchangeLayout,
    InputRange,
    InputSpec,
    Layout,
    LayoutSpec,
    OutputLayout,
    OutputSpec,
    PipelineSpec,
    SourceSplit,
)
from kcontrol.core.step.assignment import owners_of
from kcontrol.core.step.offsets import node_of

_SKEW_PERCENT = 200
"""Where an output has as many partitions as the input, whole partitions are kept together unless the largest share
would be more than this of the fair one: rows may then stay where they were read."""
_EVEN_PERCENT = 110
"""The same for all others, for which it matters less: the order of a partition's records is then that of one task."""


def layout_of(spec: PipelineSpec, division: Sequence[InputRange]) -> Layout:
    """The layout of a step over a division."""
    splits: list[SourceSplit] = []
    most_tasks = 1
    for item in spec.inputs:
        read = [r for r in division if r.input == item.name]
        whole = any(output.partitions == len(read) for output in spec.outputs)
        for node in range(spec.nodes):
            ranges = [r for r in read if node_of(item, spec.nodes, r.partition) == node and r.to > r.from_]
            tasks = _tasks(ranges, spec.layout)
            most_tasks = max(most_tasks, tasks)
            splits.extend(_splits(item, ranges, tasks, whole))
    outputs = tuple(
        OutputLayout(output.name, output.partitions, min(most_tasks, output.partitions), output.digest)
        for output in spec.outputs
    )
    return Layout(
        tuple(splits), spec.layout.shuffle_partitions, outputs, _exchanges(spec, division, most_tasks)
    )


def _exchanges(
    spec: PipelineSpec, division: Sequence[InputRange], source_tasks: int
) -> tuple[ExchangeLayout, ...]:
    """Whoever reads inputs sends with as many tasks as they are read with, whoever reads exchanges with as many as those.
    What is received is cut by the records of the whole step, since all of them may be for one node, but into no more tasks
    than a node has shards. What is delivered is read without Spark, by one."""
    records = sum(r.to - r.from_ for r in division)
    limits = spec.layout
    shards = max(Counter(owners_of(spec)).values())
    readers = min(limits.max_tasks, shards, max(1, -(-records // limits.records_per_task)))
    return tuple(
        ExchangeLayout(
            each.name, readers if each.stage else source_tasks, readers=1 if each.delivers else readers
        )
        for each in spec.exchanges
    )


def writers_of(spec: PipelineSpec, layout: Layout, node: int) -> tuple[tuple[int, ...], ...]:
    """By output of the spec, the partitions that a node alone may write in a step with this layout, or wrote
    in it.

    How many an output has is the step's own: its topic may have been given more since, and the newest spec
    then says so. An output that the layout does not name was none of the step's, and nobody wrote to it.

    With several nodes an output with as many partitions as an input follows that input's assignment, because
    equal keys then meet in the partition of the same number; any other output is dealt out in turn. One that is
    pinned to a node is that node's. Once the layout was changed, the definition says of each partition whose it is.
    """
    counts = {output.output: output.partitions for output in layout.outputs}
    return tuple(
        tuple(
            partition
            for partition, writer in enumerate(writer_of(spec, output, counts.get(output.name, 0)))
            if writer == node
        )
        for output in spec.outputs
    )


def writer_of(spec: PipelineSpec, output: OutputSpec, partitions: int) -> tuple[int, ...]:
    """By partition of an output that has so many of them: the node that writes it."""
    if output.node != SHARED_OUT:
        return (output.node,) * partitions
    if output.node_of:
        known = len(output.node_of)
        return tuple(output.node_of[p] if p < known else p % spec.nodes for p in range(partitions))
    for item in spec.inputs:
        if item.node == SHARED_OUT and len(item.node_of) == partitions:
            return item.node_of
    return tuple(partition % spec.nodes for partition in range(partitions))


def _tasks(ranges: Sequence[InputRange], limits: LayoutSpec) -> int:
    records = sum(item.to - item.from_ for item in ranges)
    return min(max(1, -(-records // limits.records_per_task)), limits.max_tasks)


def _splits(item: InputSpec, ranges: Sequence[InputRange], tasks: int, whole: bool) -> list[SourceSplit]:
    if tasks == 1:
        return [SourceSplit(item.name, 0, r.partition, r.from_, r.to) for r in ranges]
    if whole or len(ranges) >= tasks:
        dealt = _dealt_whole(item, ranges, tasks, _SKEW_PERCENT if whole else _EVEN_PERCENT)
        if dealt:
            return dealt
    return _cut_evenly(item, ranges, tasks)


def _dealt_whole(
    item: InputSpec, ranges: Sequence[InputRange], tasks: int, percent: int
) -> list[SourceSplit]:
    """Each partition to one task, largest first to the least loaded; nothing if the largest share is more than
    `percent` of the fair one."""
    tasks = min(tasks, len(ranges))
    loads = [0] * tasks
    task_of: dict[int, int] = {}
    for r in sorted(ranges, key=lambda r: (r.from_ - r.to, r.partition)):
        task = loads.index(min(loads))
        loads[task] += r.to - r.from_
        task_of[r.partition] = task
    if max(loads) * tasks * 100 > percent * sum(loads):
        return []
    splits = [SourceSplit(item.name, task_of[r.partition], r.partition, r.from_, r.to) for r in ranges]
    return sorted(splits, key=lambda split: (split.task, split.partition))


def _cut_evenly(item: InputSpec, ranges: Sequence[InputRange], tasks: int) -> list[SourceSplit]:
    """The ranges one after the other, cut into `tasks` pieces that differ by at most one offset."""
    total = sum(r.to - r.from_ for r in ranges)
    ends = [total * (task + 1) // tasks for task in range(tasks)]
    splits = []
    task = done = 0
    for r in ranges:
        begin = r.from_
        while begin < r.to:
            while done == ends[task]:
                task += 1
            end = min(r.to, begin + ends[task] - done)
            splits.append(SourceSplit(item.name, task, r.partition, begin, end))
            done += end - begin
            begin = end
    return splits
