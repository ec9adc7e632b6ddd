"""Which of several processes is the node, on a real broker: the newest placement decides, whoever comes last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from uuid import uuid4

from kcontrol.adapters.kafka.admin.cluster import ensure_topics
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.core.events import Exit
from kcontrol.core.log.control_view import PipelineView, evolve
from kcontrol.core.model import AgentPlacement, Desired, DesiredMode, PipelineSpec
from kcontrol.sessions.node import NodePorts, NodeSession
from kcontrol.settings.cluster import ClusterSettings
from tests.support.patience import HANG_S
from tests.unit.core.made import SPEC
from tests.unit.sessions.test_checkpoints_in_memory import NoInput, RememberingEngine, WallClock


class Pipeline:
    """Its topics, and whoever runs its one node."""

    def __init__(self, settings: ClusterSettings, group: asyncio.TaskGroup) -> None:
        self.settings, self.group = settings, group
        self.name = f"joins-{uuid4().hex[:6]}"
        self.engines: list[int] = []
        """Of which incarnations an engine was made, which takes the node's working directory."""

    async def begin(self) -> None:
        await asyncio.to_thread(ensure_topics, self.settings, self.name)
        self.control = await KafkaControlLog.open(self.settings, self.name)
        spec = replace(SPEC, pipeline=self.name)
        await self.control.append([spec, Desired(self.name, DesiredMode.RUNNING, "r")])

    def process(self, generation: int) -> asyncio.Task[Exit]:
        return self.group.create_task(self._run(AgentPlacement(7, generation)))

    async def _run(self, placement: AgentPlacement) -> Exit:
        def engine(
            _spec: PipelineSpec, incarnation: int, _on_failure: Callable[[BaseException], None]
        ) -> RememberingEngine:
            self.engines.append(incarnation)
            return RememberingEngine(0, incarnation, set(), {})

        control = await KafkaControlLog.open(self.settings, self.name)
        steps = KafkaStepsLog(self.settings, self.name)
        ports = NodePorts(WallClock(), control, steps, engine, lambda *_: NoInput())
        try:
            return await NodeSession(self.name, 0, ports, placement=placement).run()
        finally:
            await control.close()
            await steps.close()

    async def until_at_work(self, generation: int) -> None:
        view = PipelineView.empty(self.name)
        while view.placements.get(0) != AgentPlacement(7, generation) or view.node_state(0) is None:
            for logged in await self.control.read_to_end():
                view = evolve(view, logged)
            await asyncio.sleep(0.02)


def test_who_was_placed_earlier_replaces_nobody(settings: ClusterSettings) -> None:
    async def play() -> None:
        async with asyncio.timeout(HANG_S), asyncio.TaskGroup() as group:
            pipeline = Pipeline(settings, group)
            await pipeline.begin()
            newer = pipeline.process(20)
            await pipeline.until_at_work(20)

            late = await pipeline.process(19)
            assert late.replaced
            assert not newer.done(), "what was placed later goes on"
            assert len(pipeline.engines) == 1, "and keeps its working directory"

            newest = pipeline.process(21)
            assert (await newer).replaced
            assert not newest.done()
            newest.cancel()
            await pipeline.control.close()

    asyncio.run(play())
