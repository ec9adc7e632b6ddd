"""Whether a pipeline whose inputs end has done all that it ever will.

Free of Kafka: it is said of what was read of both logs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum

from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import AgentPlacement, DesiredMode, InputSpec, PipelinePhase, PipelineSpec
from kcontrol.core.step.gaps import records_between
from kcontrol.core.step.offsets import arrived, next_offset
from kcontrol.views.pipeline_projection import PipelineProjection
from kcontrol.wire.addresses import GeneratorAddress, address_of, is_topic
from kcontrol.wire.files import is_files

Ends = Mapping[tuple[str, int], int]
"""By (input, partition): the offset at which it ends."""


class Ending(StrEnum):
    """How near its end a pipeline is."""

    NEVER = "never"
    """An input has no end."""
    OPEN = "open"
    """Something is still to come, or it is not known yet what."""
    COMMITTED = "committed"
    """All is in committed steps; the pipeline has yet to be stopped."""
    STOPPED = "stopped"
    """And it is."""


def last_ends(spec: PipelineSpec) -> Ends | None:
    """Where the inputs end; None if one of them has no end, as topics, files and clocks have none."""
    ends: dict[tuple[str, int], int] = {}
    for item in spec.inputs:
        found = _last_ends(item)
        if not found:
            return None
        ends.update({(item.name, partition): end for partition, end in enumerate(found)})
    return ends


def _last_ends(item: InputSpec) -> tuple[int, ...]:
    address = None if is_topic(item.topic) or is_files(item.topic) else address_of(item.topic)
    if not isinstance(address, GeneratorAddress) or not address.rows:
        return ()
    return GeneratorAddress(address.partitions, 0, 0, address.rows, address.seed, 0).ends(0)


def ending_of(seen: PipelineProjection, since: AgentPlacement) -> Ending:
    """since: only a definition counts by which every node has joined that was placed by this entry of the cluster's log, or
    by a later one. What was submitted before may end where this one does not."""
    spec = seen.view.spec()
    if spec is None or not _has_joined(seen.view, spec, since):
        return Ending.OPEN
    ends = last_ends(spec)
    if ends is None:
        return Ending.NEVER
    if not is_caught_up(spec, seen.committed, ends, view=seen.view):
        return Ending.OPEN
    desired, said = seen.view.desired(), seen.view.status()
    if desired is None or desired.mode is not DesiredMode.STOPPED:
        return Ending.COMMITTED
    is_stopped = said is not None and said.phase is PipelinePhase.STOPPED
    return Ending.STOPPED if is_stopped else Ending.OPEN


def _has_joined(view: PipelineView, spec: PipelineSpec, since: AgentPlacement) -> bool:
    placed = [view.placements.get(node) for node in range(spec.nodes)]
    return all(one is not None and one >= since for one in placed)


def is_caught_up(
    spec: PipelineSpec,
    committed: StepsView,
    ends: Ends,
    paused: Collection[str] = (),
    view: PipelineView | None = None,
) -> bool:
    """Whether all input before `ends` is in committed steps, and what a watermark still had to bring out is
    out.

    paused: names of inputs that are not judged. view: what nodes have said, if it is known.
    """
    if committed.last is not None and committed.last.watermark_moved:
        return False
    return not set(still_to_come(spec, committed, ends, view)) - set(paused)


def still_to_come(
    spec: PipelineSpec, committed: StepsView, ends: Ends, view: PipelineView | None = None
) -> dict[str, int]:
    """By input, how many offsets before `ends` are in no committed step; inputs without any are left out.

    view: what nodes have said; offsets that hold no record, as far as they know, don't count.
    """
    found: dict[str, int] = {}
    for item in spec.inputs:
        seen = {} if view is None else arrived(spec, item, view)
        parts = {partition: end for (name, partition), end in ends.items() if name == item.name}
        left = sum(
            records_between(
                seen[partition].gaps if partition in seen else (),
                next_offset(committed, item, partition),
                end,
            )
            for partition, end in parts.items()
        )
        if left:
            found[item.name] = left
    return found
