"""A committed step as work to be done again: the same division, the same time, the same cut into tasks."""

from __future__ import annotations

from kcontrol.core.model import InputRange, PipelineSpec, StepBoundary, StepWork
from kcontrol.core.step.layout import writers_of


def can_rerun(boundary: StepBoundary, nodes: int) -> bool:
    """Whether one of so many nodes can run a committed step again; partitions of another
    number were divided otherwise.

    The log of steps may tell a node of a change of the number before the control log does.
    """
    return boundary.nodes == nodes


def work_of(boundary: StepBoundary, spec: PipelineSpec, node: int) -> StepWork:
    """The work of a committed step, to be done again by a node with nothing written.

    spec: as of now, but with as many nodes as the boundary says.
    """
    writers = writers_of(spec, boundary.layout, node)
    division = tuple(
        InputRange(p.input, p.topic, p.topic_id, p.partition, p.from_, p.to) for p in boundary.inputs
    )
    return StepWork(
        boundary.step,
        boundary.token,
        "",
        boundary.now_ms,
        boundary.reason,
        division,
        boundary.layout,
        writers,
    )
