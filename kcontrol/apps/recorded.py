"""What the log says of the steps that are to be run again, read without reading all of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import click

from kcontrol.adapters.checkpoints import CheckpointStore
from kcontrol.adapters.checkpoints.locations import placed
from kcontrol.apps.pipeline_logs import PipelineLogs, pipeline_logs
from kcontrol.core.log.resets import Resets, made_by, resets_in, void_by
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import Assignment, Checkpoint, LoggedStep, PipelineSpec, StepBoundary
from kcontrol.core.step.layout_change import as_made
from kcontrol.errors import CheckpointError, ConfigurationError, NotFoundError
from kcontrol.replay.verify import Beginning, beginning
from kcontrol.settings.cluster import ClusterSettings


@dataclass(frozen=True)
class RecordedSteps:
    """Which steps are asked for, `first` to `last`, both included, where to begin for them, and their
    boundaries."""

    spec: PipelineSpec
    boundaries: Sequence[StepBoundary]
    first: int
    last: int
    begin: Beginning
    steps: StepsView
    """What the log says of assignments and checkpoints."""

    def pieces(self) -> Iterator[RecordedSteps]:
        """Cut where the number of nodes or the layout changed, each with the definition as it then was. With state, a
        piece after a change begins, as its nodes did, with the checkpoint that the layout was changed over.

        Raises NotFoundError where that is gone, or where nodes have sent each other rows in a piece that this definition
        does not tell anything of.
        """
        begun = 0
        for index in range(1, len(self.boundaries) + 1):
            if index == len(self.boundaries) or self._made(index) != self._made(begun):
                yield self._piece(self.boundaries[begun:index])
                begun = index

    def _made(self, index: int) -> tuple[int, Assignment | None]:
        boundary = self.boundaries[index]
        return boundary.nodes, self.steps.assignment_of(boundary.step)

    def _piece(self, boundaries: Sequence[StepBoundary]) -> RecordedSteps:
        first, last, nodes = boundaries[0].step, boundaries[-1].step, boundaries[0].nodes
        shards = boundaries[0].layout.shuffle_partitions
        spec = as_made(self.spec, nodes, self.steps.assignment_of(first), shards)
        if not spec.exchanges and any(boundary.layout.exchanges for boundary in boundaries):
            raise NotFoundError(
                f"pipeline {spec.pipeline!r}: in steps {first} to {last} its {nodes} nodes sent each other rows, of which the "
                "definition with one node tells nothing: give the definition with several nodes to run them again"
            )
        if boundaries[0] is self.boundaries[0]:
            return replace(self, spec=spec, boundaries=boundaries, last=last)
        if not spec.stateful:
            return replace(
                self, spec=spec, boundaries=boundaries, first=first, last=last, begin=Beginning(first - 1)
            )
        checkpoint = self.steps.saved_of(first - 1)
        if checkpoint is None:
            raise NotFoundError(
                f"pipeline {spec.pipeline!r} keeps state, and steps {first} to {last} alone of those needed were made by "
                f"{nodes} nodes; the checkpoint of step {first - 1}, with which they began, is not kept any more: give --from "
                f"{boundaries[-1].step + 1}, or a step after a checkpoint that is kept"
            )
        return replace(
            self,
            spec=spec,
            boundaries=boundaries,
            first=max(first, self.first),
            last=last,
            begin=Beginning(first - 1, checkpoint),
        )


async def recorded_steps(
    cluster: ClusterSettings, pipeline: str, first: int | None, last: int | None, own: Path
) -> RecordedSteps:
    """Read the log from the nearest checkpoint at or before `first` (None: the oldest step that can be run)
    on.

    own: where nodes of this machine have their own checkpoints.

    Raises NotFoundError when there is no such pipeline or step, or what it needs is gone;
    ConfigurationError for no range.
    """
    if first is not None and last is not None and last < first:
        raise ConfigurationError(
            f"--from {first} --to {last} is no range of steps: --to must not be less than --from"
        )
    async with pipeline_logs(cluster, pipeline) as logs:
        _, newest = await logs.read()
        spec, end = logs.spec(), logs.committed.step
        if end < (first or 1):
            raise NotFoundError(f"pipeline {pipeline!r} has no step {first or 1}: it has committed {end}")
        if last is not None and end < last:
            raise NotFoundError(f"pipeline {pipeline!r} has no step {last} yet: it has committed {end}")
        readable = partial(_is_readable, own=own)
        # In a thread: storage that does not answer is in nobody's way.
        found, begin = await asyncio.to_thread(beginning, spec, logs.committed, first, readable)
        if last is not None and last < found:
            raise NotFoundError(
                f"pipeline {pipeline!r}: the oldest step that can be run again is {found}, after --to {last}"
            )
        boundaries = await boundaries_of(logs, newest, begin.step + 1, end)
        _refuse_void(pipeline, resets_in(boundaries), first, last)
        boundaries = [each for each in boundaries if last is None or each.step <= last]
        steps = replace(logs.committed, assignments=await _assignments(logs))
    return RecordedSteps(spec, boundaries, found, last or end, begin, steps)


def _refuse_void(pipeline: str, resets: Resets, first: int | None, last: int | None) -> None:
    """What was taken back is nobody's state any more: there is nothing that it could follow."""
    for option, step in (("--from", first), ("--to", last)):
        reset = None if step is None else void_by(resets, step)
        if reset is not None:
            raise NotFoundError(
                f"pipeline {pipeline!r}: {option} {step} is void since step {reset}, which is a reset to step "
                f"{made_by(resets, reset)}: give {option} {made_by(resets, reset)} or one after step {reset}"
            )


async def boundaries_of(
    logs: PipelineLogs, read: Sequence[LoggedStep], first: int, last: int
) -> list[StepBoundary]:
    """Of steps `first` to `last`. read: what was read already, from the oldest checkpoint on."""
    oldest = next((each.record.step for each in read if isinstance(each.record, StepBoundary)), 0)
    if first < oldest:
        read = await logs.steps.read_again(first, last)
    return [
        each.record
        for each in read
        if isinstance(each.record, StepBoundary) and first <= each.record.step <= last
    ]


async def _assignments(logs: PipelineLogs) -> tuple[Assignment, ...]:
    """All changes of the layout, of which a reader that began at a checkpoint knows the newest. They are never dropped."""
    if not logs.committed.assignments:
        return ()
    logs.steps.begin_at_start()
    found = [each.record for each in await logs.steps.read_to_end()]
    return tuple(each for each in found if isinstance(each, Assignment))


def _is_readable(checkpoint: Checkpoint, own: Path) -> bool:
    store, location = CheckpointStore(), placed(checkpoint.location, own)
    try:
        found = all(store.readable(location, part.manifest) for part in checkpoint.parts)
    except CheckpointError as error:
        click.echo(f"the checkpoint of step {checkpoint.step} is not used: {error}", err=True)
        return False
    if not found:
        click.echo(
            f"the checkpoint of step {checkpoint.step} is not used: its files can't all be read here",
            err=True,
        )
    return found
