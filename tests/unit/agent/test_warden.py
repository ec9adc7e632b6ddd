"""A pipeline that has done all that it ever will is stopped by its warden, and what is placed again runs again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from kcontrol.apps.agent import warden
from kcontrol.apps.agent.warden import Warden
from kcontrol.core.cluster.wards import Ward
from kcontrol.core.model import AgentPlacement, Desired, DesiredMode, NodeJoin, PipelinePhase, Status
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.reader import PipelineReader
from kcontrol.wire.addresses import ROWS_ID, GeneratorAddress
from tests.fakes.memory_kafka import MemoryControlLog, MemoryKafka, MemoryStepsLog
from tests.unit.core.made import SPEC

FOUNDED_MS = 7
ROWS = GeneratorAddress(partitions=1, rows_per_second=0, ramp_up_ms=0, rows=3, seed=0, start_ms=0)
# Its only input begins at its end, so that no step is needed to be there.
ENDED = replace(
    SPEC, nodes=2, inputs=(replace(SPEC.inputs[0], topic=ROWS.text, topic_id=ROWS_ID, start_offsets=(3,)),)
)
NAME = SPEC.pipeline


def join(node: int, generation: int) -> NodeJoin:
    placement = AgentPlacement(FOUNDED_MS, generation)
    return NodeJoin(NAME, node, f"{node}-{generation}", "host", 1, placement=placement)


def test_what_is_placed_again_runs_though_nobody_has_asked_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who places it may die before he asks its pipeline to run; and a warden may stand still before it says what it says."""
    kafka = MemoryKafka()
    control = MemoryControlLog(kafka, NAME)

    def reader() -> PipelineReader:
        return PipelineReader(NAME, MemoryControlLog(kafka, NAME), MemoryStepsLog(kafka, NAME))

    @asynccontextmanager
    async def logs(_settings: ClusterSettings, _pipeline: str) -> AsyncIterator[PipelineReader]:
        yield reader()

    async def desired() -> Desired | None:
        now = reader()
        await now.read_control()
        return now.view.desired()

    async def play() -> None:
        one = Warden(ClusterSettings(bootstrap_servers="nowhere:1"), every_ms=0)
        wards, again = [Ward(NAME, 20, "nodes")], [Ward(NAME, 30, "nodes")]
        await control.append([ENDED, join(0, 20), join(1, 20)])
        assert await one.done(wards, FOUNDED_MS) == []
        said = await desired()
        assert said is not None
        assert said.mode is DesiredMode.STOPPED
        assert await one.done(wards, FOUNDED_MS) == []
        assert await desired() == said, "it is asked once"
        stopped = Status(NAME, 1, PipelinePhase.STOPPED, 0, "", (said.request_id,), 0, "", ())
        await control.append([stopped])
        assert await one.done(wards, FOUNDED_MS) == wards

        await control.append([join(1, 30)])
        assert await desired() is None
        await control.append([said])
        assert await desired() is None, "what comes late is of what was placed before"

        await control.append([join(0, 30)])
        assert await one.done(again, FOUNDED_MS) == []
        newer = await desired()
        assert newer is not None, "and it is completed again"
        assert newer.mode is DesiredMode.STOPPED
        await one.close()

    monkeypatch.setattr(warden, "pipeline_logs", logs)
    asyncio.run(play())
