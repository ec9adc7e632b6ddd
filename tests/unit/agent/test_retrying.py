"""A job that all hosts which fit have failed is tried again there when that is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from kcontrol.apps.agent import looking, placing
from kcontrol.apps.agent.looking import ClusterView
from kcontrol.apps.agent.placing import place
from kcontrol.apps.agent.retrying import retry
from kcontrol.core.cluster.entries import (
    ClusterEntry,
    KillJob,
    RaiseLevel,
    SetStandbys,
    SubmitJob,
    TaskFailed,
)
from kcontrol.core.cluster.model import LATEST_LEVEL, JobState, Replica, TaskSpec
from kcontrol.core.cluster.replica import apply
from kcontrol.core.model import AgentPlacement, ControlRecord, Desired, DesiredMode
from kcontrol.errors import KcontrolError, NotFoundError
from kcontrol.requests.record import NotNowError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.agents_facts import LoggedEntry, jobs_of
from kcontrol.views.reader import PipelineReader
from tests.fakes.memory_kafka import MemoryControlLog, MemoryKafka, MemoryStepsLog
from tests.unit.agent.test_placed_again import ClusterLog
from tests.unit.core.cluster.made import agents_of, incarnation, joins
from tests.unit.core.made import SPEC

JOB = SPEC.pipeline
UNIT = (JOB, "nodes", 0)
WHY = "there is no such library"


class Cluster:
    """Two agents, and what is asked of them. wanted: what the pipeline was asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *wanted: ControlRecord) -> None:
        self.kafka = MemoryKafka()
        self.log = ClusterLog(ClusterSettings(bootstrap_servers="nowhere:1"))
        levels = [
            replace(one, levels=(1, LATEST_LEVEL)) if hasattr(one, "levels") else one for one in joins("ab")
        ]
        self.log.entries = [*levels, *(RaiseLevel(level) for level in range(2, LATEST_LEVEL + 1))]
        monkeypatch.setattr(looking, "KafkaClusterLog", lambda _settings: self.log)
        monkeypatch.setattr(placing, "pipeline_logs", self.logs)
        self.view = ClusterView(ClusterSettings(bootstrap_servers="nowhere:1"))
        self.run(lambda: MemoryControlLog(self.kafka, JOB).append([SPEC, *wanted]))

    @asynccontextmanager
    async def logs(self, _settings: ClusterSettings, _pipeline: str) -> AsyncIterator[PipelineReader]:
        yield PipelineReader(JOB, MemoryControlLog(self.kafka, JOB), MemoryStepsLog(self.kafka, JOB))

    def run(self, ask: Callable[[], Awaitable[object]]) -> None:
        async def play() -> None:
            await ask()

        asyncio.run(play())

    def say(self, *entries: ClusterEntry) -> Replica:
        self.log.entries += entries
        return self.look()

    def look(self) -> Replica:
        return asyncio.run(self.view.look())

    def place(self, nodes: int = 1) -> LoggedEntry:
        return asyncio.run(place(self.view, JOB, nodes, "p.py"))

    def retry(self) -> LoggedEntry:
        return asyncio.run(retry(self.view, JOB))

    def fail(self, useless: bool = False) -> str:
        """The first node, where it is."""
        place_ = self.look().places()[UNIT]
        who = (place_.agent, incarnation(place_.agent))
        self.say(TaskFailed(*UNIT, place_.generation, *who, WHY, useless))
        return place_.agent

    def waits(self) -> str:
        [job] = jobs_of(self.look(), self.view.entries)
        return job.waits

    def desired(self) -> Desired | None:
        async def play() -> Desired | None:
            async with self.logs(self.view.settings, JOB) as read:
                assert await read.is_there()
                return read.view.desired()

        return asyncio.run(play())


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


def test_what_all_hosts_have_failed_waits_says_why_and_runs_once_it_is_tried_again(cluster: Cluster) -> None:
    cluster.place()
    before = cluster.look().jobs[JOB]
    assert {cluster.fail(), cluster.fail()} == {"a", "b"}
    assert agents_of(cluster.look()) == {}
    assert cluster.look().jobs[JOB].active
    assert "could not run on" in cluster.waits()
    assert f"no other host fits: kcontrol cluster retry {JOB} tries again" in cluster.waits()
    assert cluster.waits().endswith(f"; {WHY}")
    made = cluster.retry()
    assert made.changes[0] == f"job {JOB}: its nodes are tried again on a, b"
    assert list(agents_of(cluster.look())) == [UNIT]
    assert not cluster.waits()
    after = cluster.look().jobs[JOB]
    assert (after.id, after.package, after.tasks) == (before.id, before.package, before.tasks)


def test_what_is_submitted_again_helps_nothing_says_so_and_leaves_what_is_tried_again(
    cluster: Cluster,
) -> None:
    cluster.place()
    cluster.fail()
    cluster.fail()
    unchanged, stuck = cluster.place().changes
    assert unchanged == f"job {JOB}: submitted again, unchanged"
    assert stuck.startswith(f"job {JOB} waits: node 0 could not run on")
    cluster.retry()
    places = cluster.look().places()
    assert cluster.place().changes == (unchanged,)
    assert cluster.look().places() == places
    cluster.fail()
    cluster.fail()
    cluster.retry()
    assert cluster.look().places()


def test_asked_again_it_changes_nothing(cluster: Cluster) -> None:
    with pytest.raises(NotFoundError, match="there is no job"):
        cluster.retry()
    cluster.place()
    with pytest.raises(NotFoundError, match="no host has failed to run"):
        cluster.retry()
    cluster.fail()
    cluster.retry()
    entries = list(cluster.log.entries)
    with pytest.raises(NotFoundError, match="no host has failed to run"):
        cluster.retry()
    assert cluster.log.entries == entries
    late = next(one for one in reversed(entries) if isinstance(one, SubmitJob))
    value = cluster.look()
    assert apply(value, value.offset + 1, late)[1] == "the job was changed since this was asked for"


def test_what_is_no_part_of_a_submission_stays(cluster: Cluster) -> None:
    cluster.place()
    value = cluster.look()
    cluster.say(SetStandbys(JOB, "s", value.offset, 1))
    cluster.fail()
    cluster.retry()
    assert cluster.look().jobs[JOB].standbys == 1


def test_one_that_has_failed_begins_again_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the pipeline, which was stopped as its job had failed."""
    cluster = Cluster(monkeypatch)
    cluster.place()
    cluster.say(SetStandbys(JOB, "s", cluster.look().offset, 1))
    before = cluster.look().jobs[JOB]
    cluster.fail(useless=True)
    ended = cluster.look()
    assert ended.jobs[JOB].state is JobState.FAILED
    end = Desired(JOB, DesiredMode.STOPPED, "end", wish=AgentPlacement(ended.founded_ms, ended.offset))
    cluster.run(lambda: MemoryControlLog(cluster.kafka, JOB).append([end]))
    cluster.retry()
    after = cluster.look().jobs[JOB]
    assert after.active
    assert (after.package, after.tasks, after.standbys) == (before.package, before.tasks, 1)
    assert UNIT in cluster.look().places()
    wanted = cluster.desired()
    assert wanted is not None
    assert wanted.mode is DesiredMode.RUNNING


def test_what_its_user_has_stopped_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch)
    cluster.place()
    stopped = Desired(JOB, DesiredMode.STOPPED, "mine")
    cluster.run(lambda: MemoryControlLog(cluster.kafka, JOB).append([stopped]))
    cluster.fail(useless=True)
    cluster.retry()
    assert cluster.look().jobs[JOB].active
    assert cluster.desired() == stopped


@pytest.mark.parametrize(
    ("entries", "error", "why"),
    [
        ([KillJob(JOB, "k", 1_000)], NotFoundError, "is killed, and has not failed"),
        ([SubmitJob(JOB, "q", 1_000, "p", (TaskSpec("x"), TaskSpec("y")))], NotNowError, "something changed"),
    ],
)
def test_what_can_not_be_tried_again_is_refused(
    cluster: Cluster, entries: list[ClusterEntry], error: type[KcontrolError], why: str
) -> None:
    cluster.place()
    for entry in entries:
        cluster.say(replace(entry, as_of=cluster.look().offset))  # type: ignore[type-var]
    places = cluster.look().places()
    for unit, place_ in sorted(places.items()):
        who = (place_.agent, incarnation(place_.agent))
        cluster.say(TaskFailed(*unit, place_.generation, *who, WHY))
    with pytest.raises(error, match=why):
        cluster.retry()
