"""Three agents on a real broker: one is killed, one is frozen and wakes up, one is started again."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

from kcontrol.adapters.kafka.admin.cluster_topics import ensure_cluster_topics
from kcontrol.adapters.kafka.client.protocol import READ_UNCOMMITTED
from kcontrol.adapters.kafka.client.rpc import KafkaRpc
from kcontrol.adapters.kafka.logs.cluster_log import KafkaBeats, KafkaClusterLog, LogCutError
from kcontrol.adapters.kafka.logs.partition_reader import PartitionReader
from kcontrol.apps.agent.looking import ClusterView
from kcontrol.core.cluster.entries import ClusterEntry, Configure, KillJob, Notify, SubmitJob
from kcontrol.core.cluster.liveness import Beat
from kcontrol.core.cluster.model import ClusterPolicy, Mark, Replica, TaskSpec
from kcontrol.core.cluster.troubles import AgentTroubles
from kcontrol.errors import TopicError
from kcontrol.settings.cluster import ClusterSettings
from tests.support.topics import create_topic

TIMEOUT_S = 90.0
POLL_S = 0.2
JOB = "sleepers"


@pytest.fixture
def prefixed(settings: ClusterSettings) -> ClusterSettings:
    own = settings.model_copy(update={"prefix": f"agents-{uuid4().hex[:6]}"})
    ensure_cluster_topics(own)
    return own


def test_entries_and_beats_come_back_as_they_were_written(prefixed: ClusterSettings) -> None:
    asyncio.run(_write_and_read(prefixed))


async def _write_and_read(prefixed: ClusterSettings) -> None:
    log, other, beats = KafkaClusterLog(prefixed), KafkaClusterLog(prefixed), KafkaBeats(prefixed)
    try:
        assert await beats.read_to_end() == []
        said: list[ClusterEntry] = [Configure(ClusterPolicy(beat_ms=700)), Notify("a", "a-1")]
        offsets = [await log.append(entry) for entry in said]
        read = await other.read_to_end()
        assert [(one.offset, one.entry) for one in read] == list(zip(offsets, said, strict=True))
        assert await other.read_to_end() == []
        beat = Beat("a", "a-1", 3, True, 1, Mark(0, "sha"), "a-0")
        await beats.append(beat)
        troubles = AgentTroubles("a", "a-1", ("in vain",))
        await beats.say(troubles)
        assert await beats.read_to_end() == [beat]
        assert beats.troubles == {"a": troubles}
        assert await _keys_of_beats(prefixed) == [b"a", b"a/troubles"], "the newest of each agent is kept"
    finally:
        for one in (log, other, beats):
            await one.close()


async def _keys_of_beats(prefixed: ClusterSettings) -> list[bytes | None]:
    """By which their topic is compacted."""
    rpc = KafkaRpc(prefixed)
    topic = prefixed.names().cluster_beats_topic()
    try:
        return [one.key for one in await PartitionReader(rpc, topic, 0, READ_UNCOMMITTED).read_all()]
    finally:
        await rpc.close()


@dataclass
class Cluster:
    """The agents, their processes, and the value as anybody sees it."""

    settings: ClusterSettings
    folder: Path
    agents: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            command = [
                sys.executable,
                "-m",
                "tests.integration.agents",
                name,
                self.settings.bootstrap_servers,
            ]
            self.agents[name] = subprocess.Popen(
                [*command, self.settings.prefix, str(self.folder)], stdout=log, stderr=subprocess.STDOUT
            )

    async def value(self) -> Replica:
        view = ClusterView(self.settings)
        try:
            return await view.look()
        finally:
            await view.close()

    def until(self, what: str, holds: Callable[[Replica], bool]) -> Replica:
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            value = asyncio.run(self.value())
            if holds(value):
                return value
            if time.monotonic() > deadline:
                logs = "\n".join(path.read_text() for path in sorted(self.folder.glob("*.log")))
                pytest.fail(f"{what}: not after {TIMEOUT_S} s: {value}\n{logs}")
            time.sleep(POLL_S)

    def ask(self, entry: ClusterEntry) -> None:
        async def ask() -> None:
            log = KafkaClusterLog(self.settings)
            await log.append(entry)
            await log.close()

        asyncio.run(ask())

    def told(self) -> list[tuple[str, int, int]]:
        """Agent, index and process id of all that was ever started."""
        file = self.folder / "told"
        lines = file.read_text().split("\n") if file.exists() else []
        found = [line.split() for line in lines if line]
        return [(agent, int(index), int(pid)) for agent, index, _, pid in found]

    def living(self) -> dict[int, list[str]]:
        """By index: the agents whose processes of it are alive."""
        found: dict[int, list[str]] = {}
        for agent, index, pid in self.told():
            if is_sleeping(pid):
                found.setdefault(index, []).append(agent)
        return found

    def runs_as_placed(self, value: Replica, nodes: int) -> bool:
        placed = {unit[2]: [place.agent] for unit, place in value.places().items()}
        return len(placed) == nodes and self.living() == placed

    def kill_host(self, name: str) -> None:
        """The agent and all that it runs."""
        self.agents.pop(name).kill()
        for agent, _, pid in self.told():
            if agent == name and is_sleeping(pid):
                os.killpg(os.getpgid(pid), signal.SIGKILL)

    def close(self) -> None:
        for process in self.agents.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
        for _, _, pid in self.told():
            if is_sleeping(pid):
                with suppress(ProcessLookupError):
                    os.killpg(os.getpgid(pid), signal.SIGKILL)


def is_sleeping(pid: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return process.name() == "sleep" and process.status() != psutil.STATUS_ZOMBIE
    return False


@pytest.fixture
def cluster(prefixed: ClusterSettings, tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(prefixed, tmp_path)
    yield found
    found.close()


@pytest.mark.parametrize(("setting", "wrong"), [("retention.ms", "1000"), ("cleanup.policy", "compact")])
def test_a_log_from_which_kafka_would_delete_is_refused(
    settings: ClusterSettings, setting: str, wrong: str
) -> None:
    own = settings.model_copy(update={"prefix": f"agents-{uuid4().hex[:6]}"})
    create_topic(own, own.names().cluster_topic(), 1, {setting: wrong})
    with pytest.raises(TopicError, match=f"{setting} is '{wrong}' and must be"):
        ensure_cluster_topics(own)


@pytest.mark.heavy
def test_what_a_killed_and_a_frozen_agent_ran_goes_on_elsewhere(cluster: Cluster) -> None:
    policy = ClusterPolicy(beat_ms=1_000, coordinators=0, digest_every=5, snapshot_every=10)
    cluster.ask(Configure(policy))
    for name in "abc":
        cluster.start(name)
    value = cluster.until("all have joined", lambda value: set(value.members) == set("abc"))
    cluster.ask(SubmitJob(JOB, "first", value.offset, "file:x", (TaskSpec("nodes", 3, 3),)))
    value = cluster.until("three run", lambda value: cluster.runs_as_placed(value, 3))
    assert sorted(place.agent for place in value.places().values()) == ["a", "b", "c"]

    cluster.kill_host("c")
    value = cluster.until("c is out, and what it ran runs", lambda value: runs_without(cluster, value, "c"))

    before = value.agents["b"].incarnation
    frozen = [pid for agent, _, pid in cluster.told() if agent == "b" and is_sleeping(pid)]
    cluster.agents["b"].send_signal(signal.SIGSTOP)
    cluster.until("b is out", lambda value: "b" not in value.members)
    assert any(is_sleeping(pid) for pid in frozen), "nobody else can end what a frozen agent runs"
    cluster.agents["b"].send_signal(signal.SIGCONT)
    value = cluster.until(
        "b is back, and has ended what it ran",
        lambda value: "b" in value.members and cluster.runs_as_placed(value, 3),
    )
    assert value.agents["b"].incarnation != before
    assert not any(is_sleeping(pid) for pid in frozen)

    started, at = cluster.told(), value.offset
    cluster.agents.pop("a").kill()
    cluster.start("a")
    value = cluster.until("a goes on", lambda value: value.offset > at)
    assert cluster.runs_as_placed(value, 3)
    assert cluster.told() == started, "an agent that is started again adopts what runs"

    cluster.ask(KillJob(JOB, "last", value.offset))
    cluster.until("nothing runs", lambda value: not value.places() and not cluster.living())

    value = cluster.until("a snapshot was confirmed", lambda value: value.base.offset >= 10)
    asyncio.run(until_cut(cluster.settings, value.base.offset))
    cluster.start("d")
    cluster.until("who comes to the cut has joined", lambda value: "d" in value.members)
    assert "d goes on from the snapshot at" in (cluster.folder / "d.log").read_text()


def test_a_coordinator_that_can_not_run_on_a_host_runs_on_another(cluster: Cluster) -> None:
    """And on that host again when there is no other, as soon as it can."""
    broken = cluster.folder / "broken-a"
    broken.touch()
    cluster.ask(Configure(ClusterPolicy(beat_ms=1_000, coordinators=1)))
    for name in "ab":
        cluster.start(name)
        cluster.until(f"{name} has joined", lambda value: name in value.members)  # noqa: B023
    value = cluster.until("it runs on b", lambda value: keeps(cluster, value, "b"))
    assert value.unable == {"a": "ended with code 2: no such directory"}
    broken.unlink()
    cluster.kill_host("b")
    cluster.until("it runs on a", lambda value: keeps(cluster, value, "a"))


def keeps(cluster: Cluster, value: Replica, agent: str) -> bool:
    """Whether the coordinator is there, alone."""
    return [place.agent for place in value.coordinators] == [agent] and cluster.living() == {-1: [agent]}


async def until_cut(settings: ClusterSettings, at: int) -> None:
    begun = ""
    async with asyncio.timeout(TIMEOUT_S):
        while not begun:
            log = KafkaClusterLog(settings)
            try:
                await log.read_to_end()
                await asyncio.sleep(POLL_S)
            except LogCutError as why:
                begun = str(why)
            finally:
                await log.close()
    assert f"begins at offset {at + 1}" in begun


def runs_without(cluster: Cluster, value: Replica, gone: str) -> bool:
    return gone not in value.members and cluster.runs_as_placed(value, 3)
