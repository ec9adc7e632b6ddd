"""Who says a number of nodes, by whatever command, leaves the percentage that the job had to other jobs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from kcontrol.apps.agent import looking, placing, resizing
from kcontrol.apps.agent.fitting import Nodes
from kcontrol.apps.agent.looking import ClusterView
from kcontrol.apps.agent.placing import place
from kcontrol.apps.agent.resizing import fix_nodes, resize, resize_and_follow
from kcontrol.cli import layout
from kcontrol.core.cluster.entries import ClusterEntry, Configure, Prepare, ResizeJob
from kcontrol.core.cluster.model import LATEST_LEVEL, ClusterJob, ClusterPolicy, Replica, Scheduler
from kcontrol.core.model import AgentPlacement, LayoutPhase, LayoutRequest, LayoutStatus
from kcontrol.errors import TopicError
from kcontrol.requests.record import NotNowError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.reader import PipelineReader
from tests.fakes.memory_kafka import MemoryControlLog, MemoryKafka, MemoryStepsLog
from tests.unit.agent.test_placed_again import JOB, ClosedLog
from tests.unit.core.made import SPEC

SETTINGS = ClusterSettings(bootstrap_servers="nowhere:1")
HALF, MOST = Nodes(1, None, 50), Nodes(2, None, 75)


class Cluster:
    """One host with much room, whose jobs are shared out by percentage; the logs of its pipeline."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log = ClosedLog(SETTINGS)
        self.log.entries = [
            Prepare("a", "a-1", slots=16, levels=(1, LATEST_LEVEL)),
            Configure(ClusterPolicy(scheduler=Scheduler.PERCENTAGE)),
        ]
        self.kafka = MemoryKafka()

        async def there(_view: ClusterView) -> bool:
            return True

        monkeypatch.setattr(looking, "KafkaClusterLog", lambda _settings: self._from_the_beginning())
        monkeypatch.setattr(looking.ClusterView, "exists", there)
        for module in (placing, resizing):
            monkeypatch.setattr(module, "pipeline_logs", _no_logs)

    def _from_the_beginning(self) -> ClosedLog:
        log = ClosedLog(SETTINGS)
        log.entries = self.log.entries
        return log

    async def value(self) -> Replica:
        return await ClusterView(SETTINGS).look()

    async def job(self) -> ClusterJob:
        return (await self.value()).jobs[JOB]


@asynccontextmanager
async def _no_logs(_settings: ClusterSettings, _pipeline: str) -> AsyncIterator[PipelineReader]:
    raise TopicError("there is no control topic")
    yield


async def _is_fixed(cluster: Cluster, nodes: int) -> None:
    """Its percentage is there for others, and to ask for what there is changes nothing."""
    job, view = await cluster.job(), ClusterView(SETTINGS)
    assert (job.nodes, job.bounds, job.percentage) == (nodes, None, 0)
    await place(view, "q", HALF, "q.py")
    await place(view, JOB, nodes, "p.py")
    assert (await cluster.job()).revision == job.revision, "nothing begins anew"


def test_a_job_that_is_given_a_number_leaves_its_percentage_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play() -> None:
        cluster, view = Cluster(monkeypatch), ClusterView(SETTINGS)
        await place(view, JOB, MOST, "p.py")
        with pytest.raises(NotNowError, match="more than the 25 % that other jobs leave"):
            await place(view, "q", HALF, "q.py")
        await fix_nodes(view, JOB, 3)
        await _is_fixed(cluster, 3)

    asyncio.run(play())


def test_of_a_job_without_a_percentage_nothing_more_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> list[ClusterEntry]:
        cluster, view = Cluster(monkeypatch), ClusterView(SETTINGS)
        await place(view, JOB, Nodes(2, None), "p.py")
        said = len(cluster.log.entries)
        await fix_nodes(view, JOB, 3)
        assert (await cluster.job()).bounds is None
        return cluster.log.entries[said:]

    assert [type(entry) for entry in asyncio.run(play())] == [ResizeJob]


def test_kcontrol_layout_gives_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        cluster = Cluster(monkeypatch)
        await place(ClusterView(SETTINGS), JOB, MOST, "p.py")
        control = MemoryControlLog(cluster.kafka, JOB)
        await control.append([SPEC])

        @asynccontextmanager
        async def logs(_settings: ClusterSettings, _pipeline: str) -> AsyncIterator[PipelineReader]:
            yield PipelineReader(
                JOB, MemoryControlLog(cluster.kafka, JOB), MemoryStepsLog(cluster.kafka, JOB)
            )

        async def by_agents(view: ClusterView, job: str, nodes: int) -> Any:
            made = await right(view, job, nodes)
            wish = AgentPlacement(view.replica.founded_ms, made.offset)
            await control.append([LayoutRequest(JOB, "asked", 1, nodes, 60_000, wish=wish)])
            return made

        async def followed(_logs: object, request: LayoutRequest, _told: object) -> LayoutStatus:
            return LayoutStatus(request.request_id, LayoutPhase.DONE, request.nodes, 1, 0, 0, 0, 0, "")

        right = resizing.resize
        monkeypatch.setattr(resizing, "pipeline_logs", logs)
        monkeypatch.setattr(resizing, "resize", by_agents)
        monkeypatch.setattr(resizing, "followed", followed)
        status = await resize_and_follow(SETTINGS, JOB, 3, lambda _status: None)
        assert (status.phase, status.nodes) == (LayoutPhase.DONE, 3)
        monkeypatch.setattr(resizing, "pipeline_logs", _no_logs)
        await _is_fixed(cluster, 3)

    asyncio.run(play())


def test_kcontrol_layout_withdraw_gives_the_number_that_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    async def two(_settings: ClusterSettings, _pipeline: str) -> int:
        return 2

    async def begin() -> None:
        view = ClusterView(SETTINGS)
        await place(view, JOB, MOST, "p.py")
        await resize(view, JOB, 3)
        await place(view, JOB, MOST, "p.py")
        job = view.replica.jobs[JOB]
        assert (job.kept, job.nodes, job.percentage) == (2, 3, 75)

    cluster = Cluster(monkeypatch)
    asyncio.run(begin())
    monkeypatch.setattr(layout, "nodes_at_work", two)
    made = CliRunner().invoke(layout.layout, [JOB, "--withdraw", "--bootstrap-servers", "nowhere:1"])
    assert made.exit_code == 0, made.output
    assert isinstance(cluster.log.entries[-1], ResizeJob)
    asyncio.run(_is_fixed(cluster, 2))
