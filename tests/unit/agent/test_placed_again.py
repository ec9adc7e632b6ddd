"""What `kcontrol place` says when it is asked again for what its user has stopped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from kcontrol.apps.agent import looking, placing
from kcontrol.apps.agent.looking import ClusterView
from kcontrol.apps.agent.nodes import PACKAGES_TAG
from kcontrol.apps.agent.placing import JobCode, place, place_if_there_are_agents, tags_of
from kcontrol.core.cluster.entries import ClusterEntry, Prepare
from kcontrol.core.cluster.model import ClusterJob, TaskSpec
from kcontrol.core.model import AgentPlacement, ControlRecord, Desired, DesiredMode
from kcontrol.errors import TopicError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.reader import PipelineReader
from kcontrol.wire.cluster import StampedEntry
from kcontrol.wire.packages import PACKAGE, CodePackage, PackageManifest
from tests.fakes.memory_kafka import MemoryControlLog, MemoryKafka, MemoryStepsLog
from tests.unit.core.made import SPEC

JOB = SPEC.pipeline


class ClusterLog:
    """In memory."""

    def __init__(self, _settings: ClusterSettings) -> None:
        self.entries: list[ClusterEntry] = [Prepare("a", "a-1", slots=1)]
        self.read = 0

    async def read_to_end(self) -> list[StampedEntry]:
        new, self.read = range(self.read, len(self.entries)), len(self.entries)
        return [StampedEntry(offset, self.entries[offset]) for offset in new]

    async def append(self, entry: ClusterEntry) -> int:
        self.entries.append(entry)
        return len(self.entries) - 1


def slowly_placed(monkeypatch: pytest.MonkeyPatch, before: ControlRecord, since: Desired) -> Desired | None:
    """What counts at the end. before: in the pipeline's log when it is placed. since: once its submission is in the log of the
    cluster, and before anything more is done."""
    kafka = MemoryKafka()

    class SlowLog(ClusterLog):
        async def append(self, entry: ClusterEntry) -> int:
            offset = await super().append(entry)
            await MemoryControlLog(kafka, JOB).append([since])
            return offset

    @asynccontextmanager
    async def logs(_settings: ClusterSettings, _pipeline: str) -> AsyncIterator[PipelineReader]:
        yield PipelineReader(JOB, MemoryControlLog(kafka, JOB), MemoryStepsLog(kafka, JOB))

    async def play() -> Desired | None:
        await MemoryControlLog(kafka, JOB).append([SPEC, before])
        await place(ClusterView(ClusterSettings(bootstrap_servers="nowhere:1")), JOB, 1, "p.py")
        async with logs(ClusterSettings(bootstrap_servers="nowhere:1"), JOB) as read:
            assert await read.is_there()
            return read.view.desired()

    monkeypatch.setattr(looking, "KafkaClusterLog", SlowLog)
    monkeypatch.setattr(placing, "pipeline_logs", logs)
    return asyncio.run(play())


@pytest.mark.parametrize("wish", [None, AgentPlacement(1, 1), AgentPlacement(1, 2)])
def test_what_is_stopped_after_it_was_submitted_stays_so_however_slow_place_is(
    monkeypatch: pytest.MonkeyPatch, wish: AgentPlacement | None
) -> None:
    """By its user, as it was completed, or as it was killed."""
    since = Desired(JOB, DesiredMode.STOPPED, "since", wish)
    for before in (
        Desired(JOB, DesiredMode.STOPPED, "mine"),
        Desired(JOB, DesiredMode.STOPPED, "end", AgentPlacement(0, 0)),
    ):
        assert slowly_placed(monkeypatch, before, since) == since


def placed_again(monkeypatch: pytest.MonkeyPatch, *said: ControlRecord) -> tuple[str, ...]:
    """What is said the second time. said: in the pipeline's log meanwhile."""
    kafka = MemoryKafka()

    @asynccontextmanager
    async def logs(_settings: ClusterSettings, _pipeline: str) -> AsyncIterator[PipelineReader]:
        if not said:
            raise TopicError("there is no control topic")
        yield PipelineReader(JOB, MemoryControlLog(kafka, JOB), MemoryStepsLog(kafka, JOB))

    async def play() -> tuple[str, ...]:
        view = ClusterView(ClusterSettings(bootstrap_servers="nowhere:1"))
        await place(view, JOB, 1, "p.py")
        await MemoryControlLog(kafka, JOB).append([SPEC, *said])
        return (await place(view, JOB, 1, "p.py")).changes

    monkeypatch.setattr(looking, "KafkaClusterLog", ClusterLog)
    monkeypatch.setattr(placing, "pipeline_logs", logs)
    return asyncio.run(play())


@pytest.mark.parametrize("mode", [DesiredMode.STOPPED, DesiredMode.PAUSED])
def test_what_its_user_has_stopped_stays_so_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, mode: DesiredMode
) -> None:
    unchanged, stays = placed_again(monkeypatch, Desired(JOB, mode, "mine"))
    assert unchanged == f"job {JOB}: submitted again, unchanged"
    assert stays == f"pipeline {JOB} stays {mode}, as its user has asked: kcontrol resume {JOB} has it run"


def test_nothing_is_said_of_what_runs_or_is_about_to(monkeypatch: pytest.MonkeyPatch) -> None:
    end_before = Desired(JOB, DesiredMode.STOPPED, "end", AgentPlacement(0, 0))
    for said in ([], [Desired(JOB, DesiredMode.RUNNING, "mine")], [end_before]):
        assert len(placed_again(monkeypatch, *said)) == 1


class ClosedLog(ClusterLog):
    async def close(self) -> None:
        pass


def submitted(
    monkeypatch: pytest.MonkeyPatch, first: tuple[str, ...], *said: tuple[str, ...] | None
) -> list[tuple[int, tuple[str, ...]]]:
    """Revision and tags after `kcontrol place` with the first tags, and after each `kcontrol submit` of the same code. None:
    that says nothing of tags."""
    log = ClosedLog(ClusterSettings(bootstrap_servers="nowhere:1"))

    def opened(_settings: ClusterSettings) -> ClosedLog:
        log.read = 0
        return log

    async def there(_view: ClusterView) -> bool:
        return True

    async def play() -> list[tuple[int, tuple[str, ...]]]:
        settings = ClusterSettings(bootstrap_servers="nowhere:1")
        await place(ClusterView(settings), JOB, 1, "p.py", first)
        found = [await jobs(settings)]
        for tags in said:
            await place_if_there_are_agents(settings, JOB, 1, "p.py", None, tags=tags)
            found.append(await jobs(settings))
        return found

    async def jobs(settings: ClusterSettings) -> tuple[int, tuple[str, ...]]:
        job = (await ClusterView(settings).look()).jobs[JOB]
        return job.revision, job.tasks[0].tags

    @asynccontextmanager
    async def no_logs(_settings: ClusterSettings, _pipeline: str) -> AsyncIterator[PipelineReader]:
        raise TopicError("there is no control topic")
        yield

    monkeypatch.setattr(looking, "KafkaClusterLog", opened)
    monkeypatch.setattr(placing, "pipeline_logs", no_logs)
    monkeypatch.setattr(ClusterView, "exists", there)
    return asyncio.run(play())


def test_what_says_nothing_of_tags_leaves_a_job_those_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    assert submitted(monkeypatch, ("gpu", "ssd"), None, None) == [(1, ("gpu", "ssd"))] * 3


def test_tags_that_are_said_count_and_none_are_said_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    assert submitted(monkeypatch, ("gpu",), ("ssd",), None, ()) == [
        *((1, ("gpu",)), (2, ("ssd",)), (2, ("ssd",)), (4, ())),
    ]


def test_of_packages_only_what_hosts_must_have_beside_running_them_stays() -> None:
    package = JobCode(CodePackage(PackageManifest("p.py", ()), {}))
    file = ClusterJob("p", 1, 1, 1, "r", "file:p.py", (TaskSpec("nodes", 1, 1, ("gpu",)),))
    packed = replace(
        file, package=PACKAGE + "0" * 64, tasks=(TaskSpec("nodes", 1, 1, ("gpu", PACKAGES_TAG)),)
    )
    assert tags_of(None, "p.py", None) == ()
    assert tags_of(None, package, None) == (PACKAGES_TAG,)
    for known in (file, packed):
        assert tags_of(known, "p.py", None) == ("gpu",)
        assert tags_of(known, package, None) == ("gpu", PACKAGES_TAG)
        assert tags_of(known, package, ()) == (PACKAGES_TAG,)
