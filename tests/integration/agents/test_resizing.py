"""Another number of nodes, asked for by users and seen to by a warden, on a real broker."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import uuid4

import pytest

from kcontrol.adapters.kafka.admin.cluster import ensure_topics
from kcontrol.adapters.kafka.admin.cluster_topics import ensure_cluster_topics
from kcontrol.adapters.kafka.logs.cluster_log import KafkaClusterLog
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.adapters.kafka.transaction.owner import KafkaTransaction
from kcontrol.apps.agent.looking import ClusterView
from kcontrol.apps.agent.placing import place
from kcontrol.apps.agent.resizing import ResizeWarden
from kcontrol.apps.pipeline_logs import pipeline_logs
from kcontrol.core.cluster.entries import Prepare
from kcontrol.core.cluster.model import LATEST_LEVEL, RESUMED_LEVEL
from kcontrol.core.cluster.resize_wards import Resizing
from kcontrol.core.model import AgentPlacement, LayoutPhase, LayoutRequest, LayoutStatus, PipelinePhase
from kcontrol.requests.record import NotNowError
from kcontrol.settings.cluster import ClusterSettings
from tests.support.http_world import Told


def test_a_job_is_resized_and_its_pipeline_asked_by_whoever_is_its_warden(settings: ClusterSettings) -> None:
    own = settings.model_copy(update={"prefix": f"resized-{uuid4().hex[:6]}"})

    async def play() -> None:
        await asyncio.to_thread(ensure_cluster_topics, own)
        await asyncio.to_thread(ensure_topics, own, "p")
        log, view = KafkaClusterLog(own), ClusterView(own)
        control, transaction = await KafkaControlLog.open(own, "p"), KafkaTransaction(own, "p")
        steps = KafkaStepsLog(own, "p")
        told = Told(control, transaction, steps, [(own.names().steps_topic("p"), 0)])
        saves = replace(told.spec.checkpoint, location="somewhere")
        layout = replace(told.spec.layout, shuffle_partitions=2)
        # However long the test takes, they have been heard of lately.
        limits = replace(told.spec.limits, heartbeat_timeout_ms=600_000)
        told.spec = replace(told.spec, checkpoint=saves, layout=layout, limits=limits)
        try:
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
            await _is_asked(own, control, wanted)
        finally:
            await asyncio.gather(
                *(log.close(), view.close(), control.close(), transaction.close(), steps.close())
            )

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
