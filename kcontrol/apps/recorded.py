"""What the log says of the steps that are to be run again, read without reading all of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import click

from kcontrol.adapters.checkpoints import CheckpointStore
from kcontrol.adapters.checkpoints.locations import placed
from kcontrol.apps.pipeline_logs import PipelineLogs, pipeline_logs
from kcontrol.core.model import Checkpoint, LoggedStep, PipelineSpec, StepBoundary
from kcontrol.core.step.division import of_size
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

    def pieces(self) -> Iterator[RecordedSteps]:
        """Cut where the number of nodes changed, each with the definition as it then was.

        Raises NotFoundError for a pipeline with state: its state was divided otherwise.
        """
        begun = 0
        for index in range(1, len(self.boundaries) + 1):
            if index == len(self.boundaries) or self.boundaries[index].nodes != self.boundaries[begun].nodes:
                yield self._piece(self.boundaries[begun:index])
                begun = index

    def _piece(self, boundaries: Sequence[StepBoundary]) -> RecordedSteps:
        if len(boundaries) == len(self.boundaries):
            return replace(self, spec=of_size(self.spec, boundaries[0].nodes))
        first, last = boundaries[0].step, boundaries[-1].step
        if self.spec.stateful:
            raise NotFoundError(
                f"pipeline {self.spec.pipeline!r} keeps state, and steps {first} to {last} alone of those "
                f"needed were made by {boundaries[0].nodes} nodes: steps before and after a change of their "
                "number can't be run again in one go"
            )
        return RecordedSteps(
            of_size(self.spec, boundaries[0].nodes), boundaries, first, last, Beginning(first - 1)
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
        found, begin = beginning(spec, logs.committed, first, partial(_is_readable, own=own))
        if last is not None and last < found:
            raise NotFoundError(
                f"pipeline {pipeline!r}: the oldest step that can be run again is {found}, after --to {last}"
            )
        boundaries = await boundaries_of(logs, newest, begin.step + 1, last or end)
    return RecordedSteps(spec, boundaries, found, last or end, begin)


async def boundaries_of(
    logs: PipelineLogs, read: Sequence[LoggedStep], first: int, last: int
) -> list[StepBoundary]:
    """Of steps `first` to `last`. read: what was read already, from the oldest checkpoint on."""
    oldest = next((each.record.step for each in read if isinstance(each.record, StepBoundary)), 0)
    if first < oldest:
        await logs.steps.begin_at_step(first)
        read = await logs.steps.read_through(last)
    return [
        each.record
        for each in read
        if isinstance(each.record, StepBoundary) and first <= each.record.step <= last
    ]


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
