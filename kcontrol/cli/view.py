"""What the logs say of a pipeline now, for commands that only look."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from kcontrol.adapters.kafka.control_log import KafkaControlLog
from kcontrol.adapters.kafka.requests import never_submitted
from kcontrol.adapters.kafka.steps_log import KafkaStepsLog
from kcontrol.core import pipeline_view, steps_view
from kcontrol.core.inputs import next_offset
from kcontrol.core.model import Logged, LoggedStep, PipelineSpec
from kcontrol.core.pipeline_view import PipelineView
from kcontrol.core.steps_view import StepsView
from kcontrol.runtime.settings import ClusterSettings
from kcontrol.wire.names import check_pipeline_name


class PipelineLogs:
    """Both logs of one pipeline, folded as far as they were read."""

    def __init__(self, pipeline: str, control: KafkaControlLog, steps: KafkaStepsLog) -> None:
        self.control = control
        self.steps = steps
        self.view = PipelineView.empty(pipeline)
        self.committed = StepsView(pipeline)

    async def is_there(self) -> bool:
        """Read the control log on; whether the pipeline has been submitted."""
        await self._read_control()
        return self.view.spec() is not None

    async def read(self) -> tuple[list[Logged], list[LoggedStep]]:
        """Read on to both ends; returns what is new. Raises NotFoundError when there is no such pipeline."""
        records = await self._read_control()
        self.spec()
        steps = await self.steps.read_to_end()
        for step in steps:
            self.committed = steps_view.evolve(self.committed, step)
        return records, steps

    async def _read_control(self) -> list[Logged]:
        records = await self.control.read_to_end()
        for logged in records:
            self.view = pipeline_view.evolve(self.view, logged)
        return records

    def spec(self) -> PipelineSpec:
        """The definition in force; NotFoundError when there is none."""
        spec = self.view.spec()
        if spec is None:
            raise never_submitted(self.view.pipeline)
        return spec


@asynccontextmanager
async def pipeline_logs(cluster: ClusterSettings, pipeline: str) -> AsyncIterator[PipelineLogs]:
    """The logs of a pipeline, from their beginnings. Raises TopicError when kcontrol was never used in the cluster."""
    check_pipeline_name(pipeline)
    control = await KafkaControlLog.open(cluster, pipeline)
    steps = KafkaStepsLog(cluster, pipeline)
    try:
        yield PipelineLogs(pipeline, control, steps)
    finally:
        await asyncio.gather(control.close(), steps.close())


@dataclass(frozen=True)
class Lag:
    """How much committed input of one input waits beyond the last committed step, as its nodes know."""

    input: str
    offsets: int


def lags(logs: PipelineLogs) -> list[Lag]:
    """By input; an upper bound of records, because offsets count markers and gaps too."""
    found = []
    for input_ in logs.spec().inputs:
        reached = {
            part.partition: part.to
            for node in range(logs.spec().nodes)
            if (received := logs.view.received(node, input_.name)) is not None
            for part in received.partitions
        }
        found.append(Lag(input_.name, sum(max(0, to - next_offset(logs.committed, input_, p)) for p, to in reached.items())))
    return found
