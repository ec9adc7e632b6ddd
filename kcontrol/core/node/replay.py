"""A committed step as work to be done again: the same division, the same time, the same cut into tasks."""

from __future__ import annotations

from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import InputRange, PipelineSpec, StepBoundary, StepWork
from kcontrol.core.step.layout import writers_of


def can_rerun(boundary: StepBoundary, spec: PipelineSpec, steps: StepsView) -> bool:
    """Whether a node that goes by this definition can run a committed step again; shards and partitions of another
    number of nodes, or by another assignment, were divided otherwise.

    The log of steps may tell a node of a change before the control log does.
    """
    assignment = steps.assignment_of(boundary.step)
    return boundary.nodes == spec.nodes and spec.assignment == (
        0 if assignment is None else assignment.number
    )


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
