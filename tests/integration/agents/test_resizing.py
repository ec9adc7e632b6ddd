"""Another number of nodes, asked for by users and seen to by a warden, on a real broker."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.apps.agent.placing import place
from kcontrol.apps.agent.resizing import ResizeWarden
from kcontrol.apps.pipeline_logs import pipeline_logs
from kcontrol.core.cluster.entries import Prepare
from kcontrol.core.cluster.model import LATEST_LEVEL, RESUMED_LEVEL
from kcontrol.core.cluster.resize_wards import Resizing
from kcontrol.core.model import AgentPlacement, LayoutPhase, LayoutRequest, LayoutStatus, PipelinePhase
from kcontrol.requests.record import NotNowError
from kcontrol.settings.cluster import ClusterSettings
from tests.integration.agents.told import told_in_cluster


def test_a_job_is_resized_and_its_pipeline_asked_by_whoever_is_its_warden(settings: ClusterSettings) -> None:
    async def play() -> None:
        async with told_in_cluster(settings, shards=2) as cluster:
            own, log, view, told = cluster.settings, cluster.log, cluster.view, cluster.told
            await log.append(Prepare("a", "a-1", slots=4))
            await place(view, "p", 1, "p.py")
            await told.begin()
            await told.step(6, 1)
            await told.status(PipelinePhase.RUNNING, "")

            with pytest.raises(NotNowError, match="agents a run a version"):
                await place(view, "p", 2, "p.py")
            await log.append(Prepare("a", "a-2", "a-1", slots=4, levels=(1, LATEST_LEVEL)))
            with pytest.raises(NotNowError, match="first for the code"):
                await place(view, "p", 2, "other.py")
            before = view.replica.places()
            made = await place(view, "p", 2, "p.py")
            assert made.changes[0] == "job p: 1 -> 2 nodes, once its pipeline's layout has them"
            assert view.replica.level == RESUMED_LEVEL
            assert len(view.replica.places()) == 2
            assert before.items() <= view.replica.places().items()

            job = view.replica.jobs["p"]
            wanted = Resizing("p", job.revision, 2, view.replica.offset, view.replica.founded_ms, job.touched)
            await _is_asked(own, cluster.control, wanted)

    asyncio.run(play())


async def _asked(own: ClusterSettings) -> LayoutRequest | None:
    async with pipeline_logs(own, "p") as logs:
        await logs.read()
        return logs.view.layout_request()


async def _is_asked(own: ClusterSettings, control: KafkaControlLog, one: Resizing) -> None:
    """By its warden, once, and back again."""
    asleep = ResizeWarden(own, lambda: False, every_ms=0)
    assert await asleep.seen([one, replace(one, job="not-there")]) == [], (
        "what older wishes ask for may come yet"
    )
    assert await _asked(own) is None, "who knows of the cluster what is old asks for nothing"
    warden = ResizeWarden(own, lambda: True, every_ms=0)
    assert await warden.seen([one]) == []
    request = await _asked(own)
    assert request is not None
    assert (request.nodes, request.number, request.wish) == (2, 1, AgentPlacement(one.founded_ms, one.wish))
    assert await warden.seen([one]) == [], "it is under way"
    assert await _asked(own) == request
    back = replace(one, nodes=1, wish=one.wish + 1)
    assert await warden.seen([back]) == [], "it may be made yet"
    withdrawn = await _asked(own)
    assert withdrawn is not None
    assert withdrawn.nodes == 0
    await control.append([replace(request, request_id="late")])
    assert await _asked(own) == withdrawn, "what an older wish asks for does not count beside it"
    assert await warden.seen([one]) == []
    assert await warden.seen([back]) == []
    refused = LayoutStatus(withdrawn.request_id, LayoutPhase.REFUSED, 0, 0, 0, 0, -1, 0, "withdrawn")
    async with pipeline_logs(own, "p") as logs:
        await logs.read()
        said = logs.view.status()
        assert said is not None
        await control.append([replace(said, layout=refused)])
    assert await warden.seen([back]) == [(back, 1)]
