"""Single inputs: which are paused, which partitions each has and whose they are, and
where the next step begins in them.

All of it follows from the spec and the two logs, so that every coordinator finds the same. A partition that
was added to a topic is not in the spec: it is read from the first step after its node has seen it, and each
boundary from then on names it.
"""

from __future__ import annotations

from collections.abc import Mapping

from kcontrol.core.log import keys
from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import SHARED_OUT, InputSpec, PipelineSpec, Received, ReceivedPartition

ADDED_BEGINS_AT = 0
"""A partition that was added holds only records that no step has seen; if its first ones have expired, that
is a gap."""


def dealt_to(partition: int, nodes: int, pinned: int = SHARED_OUT) -> int:
    """The node that reads a partition, in a spec that is made again and for every
    partition that is added later. pinned: the node that reads all of the input."""
    return partition % nodes if pinned == SHARED_OUT else pinned


def node_of(item: InputSpec, nodes: int, partition: int) -> int:
    """The node that reads a partition, whether the spec knows it or it was added since."""
    return item.node_of[partition] if partition < len(item.node_of) else dealt_to(partition, nodes, item.node)


def first_offset(item: InputSpec, partition: int) -> int:
    """Where the pipeline began in a partition, or begins if no step has read it yet."""
    return item.start_offsets[partition] if partition < len(item.start_offsets) else ADDED_BEGINS_AT


def next_offset(steps: StepsView, item: InputSpec, partition: int) -> int:
    """Where the log of steps ends in a partition."""
    return steps.next_from.get((item.name, partition), first_offset(item, partition))


def named_partitions(steps: StepsView, item: InputSpec) -> int:
    """How many partitions of an input the last boundary names; 0 if it does not know the input."""
    count = 0
    while (item.name, count) in steps.next_from:
        count += 1
    return count


def partition_count(steps: StepsView, item: InputSpec, seen: Mapping[int, ReceivedPartition] | None) -> int:
    """How many partitions of an input the next step names: those of the spec and of the last
    step, and what was added since.

    seen: what its nodes have seen (`arrived`); None for a paused input, which stays as it was.
    """
    named = named_partitions(steps, item)
    if seen is None:
        return named or len(item.start_offsets)
    return max(named, len(item.start_offsets), seen_partitions(item, seen))


def seen_partitions(item: InputSpec, seen: Mapping[int, ReceivedPartition]) -> int:
    """How many partitions the topic has, as far as its nodes know."""
    return 1 + max((one.partition for one in seen.values() if one.topic_id == item.topic_id), default=-1)


def arrived(spec: PipelineSpec, item: InputSpec, view: PipelineView) -> dict[int, ReceivedPartition]:
    """By partition, what the node that reads it has seen; nothing said by another node counts."""
    found: dict[int, ReceivedPartition] = {}
    for node in range(spec.nodes):
        received = view.received(node, item.name)
        if received is not None:
            found.update(_own_partitions(spec, item, received))
    return found


def _own_partitions(spec: PipelineSpec, item: InputSpec, received: Received) -> dict[int, ReceivedPartition]:
    return {
        seen.partition: seen
        for seen in received.partitions
        if node_of(item, spec.nodes, seen.partition) == received.node
    }


# --- paused -------------------------------------------------------------------------------------------------


def is_paused(view: PipelineView, item: InputSpec) -> bool:
    """Whether the user wants no step to read it."""
    desired = view.input_desired(item.name)
    return desired is not None and desired.paused


def paused_inputs(spec: PipelineSpec, view: PipelineView) -> tuple[str, ...]:
    """The names of all paused inputs, in the order of the spec."""
    return tuple(item.name for item in spec.inputs if is_paused(view, item))


def requests_offset(spec: PipelineSpec, view: PipelineView) -> int:
    """Control offset of the newest request about an input; -1 if there never was one."""
    asked = [*(keys.input_key(spec.pipeline, item.name) for item in spec.inputs), *view.skips.values()]
    return max((view.latest[key].offset for key in asked if key in view.latest), default=-1)
