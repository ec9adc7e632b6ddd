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
from kcontrol.core.keys import key_of
from kcontrol.core.model import Logged, LoggedStep, NodePhase, PipelineSpec
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
        self._begun = False

    async def is_there(self) -> bool:
        """Read the control log on; whether the pipeline has been submitted."""
        await self._read_control()
        return self.view.spec() is not None

    async def read(self) -> tuple[list[Logged], list[LoggedStep]]:
        """Read on to both ends; returns what is new. Raises NotFoundError when there is no such pipeline.

        Steps are read from the oldest checkpoint that is kept, if there is one.
        """
        records = await self._read_control()
        spec = self.spec()
        if not self._begun and spec.checkpoint.location:
            newest = await self.steps.begin_at_checkpoint()
            if newest is not None:
                self.committed = StepsView.begun_at(spec.pipeline, newest)
        self._begun = True
        return records, self._fold(await self.steps.read_to_end())

    async def read_steps(self, first: int, last: int | None) -> list[LoggedStep]:
        """Both logs, the steps only from `first` on and up to `last` (None: all that are there), with some around them.

        Raises NotFoundError when there is no such pipeline.
        """
        await self._read_control()
        self.spec()
        self._begun = True
        await self.steps.begin_at_step(first)
        return self._fold(await (self.steps.read_to_end() if last is None else self.steps.read_through(last)))

    def _fold(self, steps: list[LoggedStep]) -> list[LoggedStep]:
        for step in steps:
            self.committed = steps_view.evolve(self.committed, step)
        return steps

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
    """The logs of a pipeline, unread. Raises TopicError when kcontrol was never used in the cluster."""
    check_pipeline_name(pipeline)
    control = await KafkaControlLog.open(cluster, pipeline)
    steps = KafkaStepsLog(cluster, pipeline)
    try:
        yield PipelineLogs(pipeline, control, steps)
    finally:
        await asyncio.gather(control.close(), steps.close())


@dataclass(frozen=True)
class NodeNow:
    """What one node does, as its newest life says. doing: 'missing', 'silent', a word of `NodePhase`, or 'replaying'."""

    node: int
    doing: str
    step: int
    error: str


def nodes_now(logs: PipelineLogs, now_ms: int) -> list[NodeNow]:
    """By number, every node that the definition in force has. now_ms: by the clock of this machine."""
    return [_node_now(logs, node, now_ms) for node in range(logs.spec().nodes)]


def _node_now(logs: PipelineLogs, node: int, now_ms: int) -> NodeNow:
    said, replayed = logs.view.node_state(node), logs.view.replaying(node)
    if said is None:
        return NodeNow(node, "missing", 0, "")
    heard_ms = logs.view.latest[key_of(said)].timestamp_ms
    if now_ms - heard_ms > logs.spec().limits.heartbeat_timeout_ms:
        return NodeNow(node, "silent", said.step, said.error)
    at_work = said.phase in (NodePhase.OPEN, NodePhase.RUNNING)
    replays = at_work and replayed is not None and said.step < replayed.step <= logs.committed.step
    return NodeNow(node, "replaying" if replays else said.phase.value, said.step, said.error)


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
