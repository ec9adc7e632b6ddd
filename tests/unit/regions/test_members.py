"""Whether a region's pipelines are well is what their coordinators say, and whether they are heard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import pytest

from kcontrol.apps.pipeline_logs import PipelineLogs
from kcontrol.apps.regions import members
from kcontrol.core.model import Claim, PipelinePhase, Status
from kcontrol.sessions.region_ports import MembersSeen
from kcontrol.settings.cluster import ClusterSettings
from tests.fakes.memory_kafka import MemoryControlLog, MemoryKafka, MemoryStepsLog
from tests.support.patience import HANG_S
from tests.unit.core.made import SPEC

NAMES = ("enrich", "totals")


class Pipelines:
    """Two, whose control logs are in memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kafka = MemoryKafka()
        monkeypatch.setattr(members, "pipeline_logs", self._logs)
        monkeypatch.setattr(members, "HEARD_WITHIN_S", 10 * HANG_S)
        self.members = members.PipelineMembers(ClusterSettings(bootstrap_servers="127.0.0.1:1"), "orders")

    @asynccontextmanager
    async def _logs(self, _: ClusterSettings, name: str) -> AsyncIterator[PipelineLogs]:
        control, steps = MemoryControlLog(self.kafka, name), MemoryStepsLog(self.kafka, name)
        yield PipelineLogs(name, cast(Any, control), cast(Any, steps))

    async def begin(self) -> None:
        for name in NAMES:
            spec = replace(SPEC, pipeline=name, outputs=(replace(SPEC.outputs[0], topic=f"out-{name}"),))
            await MemoryControlLog(self.kafka, name).append([spec, Claim(name, "u", "host", 1)])
            await self.say(name)
        await self.look()
        for name in NAMES:
            await self.say(name)

    async def say(self, name: str, phase: PipelinePhase = PipelinePhase.RUNNING, step: int = 4) -> None:
        """As its coordinator."""
        said = Status(name, 1, phase, step, f"why {phase}", (), 0, "", ())
        await MemoryControlLog(self.kafka, name).append([said])

    async def look(self) -> MembersSeen:
        return await self.members.look(NAMES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("phase", [one for one in PipelinePhase if one is not PipelinePhase.RUNNING])
def test_all_pipelines_have_to_run(phase: PipelinePhase, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator says that its pipeline runs only with all nodes in place: while one is missing it is starting."""

    async def run() -> None:
        pipelines = Pipelines(monkeypatch)
        await pipelines.begin()
        assert (await pipelines.look()).healthy is True
        await pipelines.say(name, phase)
        seen = await pipelines.look()
        assert (seen.healthy, seen.why) == (False, (f"{name}: {phase}: why {phase}",))
        assert set(seen.lives) == set(NAMES)
        await pipelines.say(name)
        assert await pipelines.look() == replace(seen, healthy=True, why=())
        await pipelines.members.close()

    asyncio.run(run())


def test_a_pipeline_that_was_not_heard_yet_or_has_no_step_is_not_taken_for_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was said before somebody listened may be old."""

    async def run() -> None:
        pipelines = Pipelines(monkeypatch)
        for name in NAMES:
            spec = replace(SPEC, pipeline=name, outputs=(replace(SPEC.outputs[0], topic=f"out-{name}"),))
            await MemoryControlLog(pipelines.kafka, name).append([spec])
        await pipelines.say("enrich")
        assert await pipelines.look() == MembersSeen(
            {},
            None,
            ("enrich: its coordinator was not heard yet", "totals: nobody is in charge of it"),
            starts=NAMES,
        )
        for name in NAMES:
            await pipelines.say(name, step=0)
        assert (await pipelines.look()).healthy is None
        for name in NAMES:
            await pipelines.say(name)
        assert (await pipelines.look()).healthy is True
        await pipelines.members.close()

    asyncio.run(run())
