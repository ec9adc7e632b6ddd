"""Whether partitions that were added to an input can be taken up.

On one node always. On several, equal keys must go on meeting on one node, with their state and with the
output partition that it alone writes; a producer deals keys out by the number of partitions, so another
number sends keys to other nodes. What a pipeline says of its keys is `partitioned_by`, without which one that
needs them is refused from the start. An input that one node reads alone grows as on one node.
"""

from __future__ import annotations

from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import SHARED_OUT, InputSpec, PipelineSpec
from kcontrol.core.step.offsets import arrived, is_paused, named_partitions, seen_partitions

TAKES_UP_ADDED = "with kcontrol.exchange() in place of partitioned_by= it takes up partitions that are added"
"""What spares a pipeline whose state is on several nodes the next new name."""


def growth_refused(spec: PipelineSpec, steps: StepsView, view: PipelineView) -> str:
    """One sentence about an input whose added partitions must not be read, or ''. A paused input is not
    judged."""
    if spec.nodes == 1:
        return ""
    for item in spec.inputs:
        # Where rows are exchanged by key, an input that names no column of its own is only read on the way there.
        keyed = item.partitioned_by or (spec.stateful and not spec.exchanges)
        if item.node != SHARED_OUT or is_paused(view, item) or not keyed:
            continue
        named, told = named_partitions(steps, item), len(item.start_offsets)
        now = max(told, seen_partitions(item, arrived(spec, item, view)))
        if spec.stateful and 0 < named < now:
            return _needs_a_new_name(spec, item, named, now)
        if now > max(named, told):
            return (
                _needs_a_new_name(spec, item, told, now)
                if spec.stateful
                else _needs_equal_counts(spec, item, told, now)
            )
    return ""


def _grown(spec: PipelineSpec, item: InputSpec, before: int, now: int) -> str:
    by = f"by {item.partitioned_by} " if item.partitioned_by else ""
    return (
        f"input {item.name} (topic {item.topic}) has {now} partitions, the pipeline was made with {before}: "
        f"on {spec.nodes} nodes its keys, partitioned {by}among {before}, would come to other nodes"
    )


def _needs_a_new_name(spec: PipelineSpec, item: InputSpec, before: int, now: int) -> str:
    meanwhile = (
        f". Until then kcontrol pause-input {spec.pipeline} {item.name} and kcontrol resume {spec.pipeline} have it go on "
        "with its other inputs"
    )
    return (
        f"{_grown(spec, item, before, now)} than their state is on; nothing was read of the added "
        f"partitions. Submit the pipeline under a new name, so that it reads its inputs anew: {TAKES_UP_ADDED}"
        f"{meanwhile if len(spec.inputs) > 1 else ''}"
    )


def _needs_equal_counts(spec: PipelineSpec, item: InputSpec, before: int, now: int) -> str:
    others = ", ".join(
        f"{what} {one.name} (topic {one.topic})"
        for what, several in (("input", spec.inputs), ("output", spec.outputs))
        for one in several
        if one is not item
    )
    return (
        f"{_grown(spec, item, before, now)} than write their output partitions; nothing was read of the "
        f"added partitions. Give {others} {now} partitions too, as far as they are keyed, start the nodes "
        "again, then resume the pipeline"
    )
