"""What the log says of a step that is asked about, and the files that the answer is made of: each node's part of the
checkpoint, and the records of outputs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kcontrol.adapters.checkpoints import CheckpointStore
from kcontrol.adapters.checkpoints.locations import placed
from kcontrol.adapters.kafka.read.output_files import OutputFiles, SavedOutput
from kcontrol.adapters.spark.state.assembling import PartsOfNodes
from kcontrol.adapters.spark.tables.gathering import GatheredState, gathered
from kcontrol.adapters.spark.tables.states import StateTable, state_tables
from kcontrol.apps.pipeline_logs import PipelineLogs, pipeline_logs
from kcontrol.apps.recorded import boundaries_of
from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.log.resets import kept
from kcontrol.core.model import (
    IN_WORK_DIR,
    Checkpoint,
    LoggedStep,
    NodeJoin,
    OutputSpec,
    PipelineSpec,
    SavedPart,
    StepBoundary,
)
from kcontrol.core.step.assignment import saved_owners
from kcontrol.errors import CheckpointError, NotFoundError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.table_steps import askable_steps, chosen_step, steps_text


@dataclass(frozen=True)
class AskedStep:
    """A step as the log has it. checkpoint: that holds the state; None without state. steps: that can be asked, as a
    text. hosts: of the nodes, as far as they are known."""

    spec: PipelineSpec
    boundary: StepBoundary
    checkpoint: Checkpoint | None
    steps: str
    first: int
    hosts: Mapping[int, str]

    @property
    def step(self) -> int:
        return self.boundary.step

    @property
    def key(self) -> tuple[object, ...]:
        """Differs for steps that are not the same, whatever their pipeline's name and number."""
        parts = () if self.checkpoint is None else tuple(part.manifest for part in self.checkpoint.parts)
        return self.spec.pipeline, self.boundary.token, self.boundary.now_ms, parts


async def asked_step(logs: PipelineLogs, step: int | None) -> tuple[AskedStep, Sequence[LoggedStep]]:
    """The step, and what of the log was read for it. Raises NotFoundError, naming the steps that can be asked."""
    _, read = await logs.read()
    spec, committed = logs.spec(), logs.committed
    number, checkpoint = chosen_step(spec, committed, step)
    found = await boundaries_of(logs, read, number, number)
    if not found:
        raise NotFoundError(f"pipeline {spec.pipeline!r}: step {number} is no longer in the log")
    steps = steps_text(askable_steps(spec, committed))
    return AskedStep(spec, found[-1], checkpoint, steps, committed.first, _hosts(logs.view)), read


async def check_askable(cluster: ClusterSettings, pipeline: str, step: int | None) -> None:
    """Before Spark is started: raises NotFoundError unless the pipeline can be asked as of that step."""
    async with pipeline_logs(cluster, pipeline) as logs:
        await asked_step(logs, step)


async def written_steps(
    logs: PipelineLogs, asked: AskedStep, read: Sequence[LoggedStep]
) -> list[StepBoundary]:
    """The boundaries of all steps up to the one that is asked that are still in the log, in order. One that was recorded
    again counts as it was recorded last, and what followed its first record never was; nor were void ones."""
    found: list[StepBoundary] = []
    for boundary in await boundaries_of(logs, read, asked.first, asked.step):
        while found and found[-1].step >= boundary.step:
            found.pop()
        found.append(boundary)
    return kept(found)


def _hosts(view: PipelineView) -> dict[int, str]:
    joins = [each.record for each in view.latest.values() if isinstance(each.record, NodeJoin)]
    return {join.node: join.host for join in joins}


@dataclass
class StepFiles:
    """The files of one step, which are made when they are first needed, and kept for whoever asks about it next."""

    directory: Path
    asked: AskedStep
    own: Path
    """Where nodes of this machine have their own checkpoints."""
    _states: list[StateTable] | None = None
    _outputs: dict[str, SavedOutput] = field(default_factory=dict)

    def states(self, check: Callable[[], None]) -> list[StateTable]:
        """Tables of state. Raises CheckpointError, naming the node whose part can't be read here."""
        if self._states is None:
            parts = self.directory / "parts"
            shutil.rmtree(parts, ignore_errors=True)
            checkpoint = self.asked.checkpoint
            found = {} if checkpoint is None else self._gather(checkpoint, parts, check)
            self._states = state_tables(found, self.asked.step)
        return self._states

    def _gather(
        self, checkpoint: Checkpoint, target: Path, check: Callable[[], None]
    ) -> dict[str, GatheredState]:
        store, location = CheckpointStore(), placed(checkpoint.location, self.own)
        for part in checkpoint.parts:
            if not store.readable(location, part.manifest):
                raise CheckpointError(self._unreadable(checkpoint, part))
        manifests = {part.node: part.manifest for part in checkpoint.parts}
        # As many shards as there were: the newest definition may have others.
        owner = saved_owners(checkpoint, self.asked.boundary.layout.shuffle_partitions)
        return gathered(PartsOfNodes(store, location, checkpoint.step, manifests, owner), target, check)

    def _unreadable(self, checkpoint: Checkpoint, part: SavedPart) -> str:
        spec, host = self.asked.spec, self.asked.hosts.get(part.node, "")
        what = f"pipeline {spec.pipeline!r}: the part of node {part.node} of the checkpoint of step {checkpoint.step}"
        if checkpoint.location == IN_WORK_DIR:
            where = f" on its own host{f', {host}' if host else ''}"
            return (
                f"{what} can't be read here: it is beside the node's working directory{where}: ask there, with the "
                "node's --work-dir, or have it saved where every host can read it: checkpoint=kcontrol.Checkpoint(\"s3://"
                'bucket/path")'
            )
        return (
            f"{what} can't be read here: not all of its files are at the checkpoints' location; give this host access to "
            f"it, or ask as of another step ({self.asked.steps})"
        )

    def output(
        self,
        cluster: ClusterSettings,
        output: OutputSpec,
        boundaries: Sequence[StepBoundary],
        max_bytes: int,
        check: Callable[[], None],
    ) -> tuple[Path, SavedOutput]:
        """The file of an output's records. Raises as `OutputFiles.save`."""
        file = self.directory / "outputs" / f"{output.name}.parquet"
        if output.name not in self._outputs:
            file.parent.mkdir(exist_ok=True)
            self._outputs[output.name] = OutputFiles(cluster, max_bytes, check).save(output, boundaries, file)
        return file, self._outputs[output.name]

    def output_shape(self, cluster: ClusterSettings, output: OutputSpec) -> Path:
        """A file like the output's, without records."""
        file = self.directory / "shapes" / f"{output.name}.parquet"
        file.parent.mkdir(exist_ok=True)
        OutputFiles(cluster, 1, lambda: None).save(output, (), file)
        return file

    def drop(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
