"""From SIGKILL of the host that runs a pipeline's node to the pipeline's next commit, on another host.

The hosts are those of `tests/chaos/hosts`: a real agent each, with settings as they are by default and a working directory of
its own, and everything that it has started. The pipeline has state over two inputs, two queries, a steady stream, and its
checkpoints where all hosts can read them. A host is killed with all its processes at once, and comes back with its disk once
the pipeline has gone on.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bench.hosts.parts import HostDeath, first_by_another, joined_as, maker, noticed_ms, parts
from bench.layout.parts import Boundary
from bench.plan import Dying
from bench.topics import create_topics
from examples.processes import now_ms
from examples.step_feed import StepFeed
from kcontrol.adapters.kafka.embedded import EmbeddedBroker
from kcontrol.adapters.kafka.logs.cluster_log import KafkaClusterLog
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.core.cluster.model import STANDBY
from kcontrol.core.model import Logged
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.cluster import StampedEntry
from tests.chaos.hosts.host import Host
from tests.chaos.hosts.pipelines import FILE, prefix_of, topics_of
from tests.chaos.names import CHECKPOINT_EVERY_VARIABLE, CHECKPOINTS_VARIABLE
from tests.chaos.producer import Feeder
from tests.support.processes import objects, run_kcontrol, until

TIMEOUT_S = 300.0


@dataclass
class _Hosts:
    """All of them, and the pipeline that they run."""

    name: str
    servers: str
    home: Path
    hosts: dict[str, Host]
    feed: StepFeed
    standbys: int

    def start(self, beat_ms: int | None) -> None:
        """Until the pipeline is placed."""
        for host in self.hosts.values():
            host.start()
        until(self.are_members, "all hosts are members", TIMEOUT_S, self.said)
        if beat_ms is not None:
            self.ask("cluster", "configure", "--set", f"beat_ms={beat_ms}")
        self.ask("place", f"{self.name}.py", "--job", self.name, "--standby", str(self.standbys))

    def ask(self, *arguments: str) -> list[dict[str, Any]]:
        """What a command says. Raises RuntimeError when it fails."""
        asked = self._asked(*arguments)
        if asked.returncode:
            raise RuntimeError(f"kcontrol {' '.join(arguments)}: {asked.stderr.strip()}\n{self.said()}")
        return objects(asked.stdout)

    def are_members(self) -> bool:
        """All hosts. There is nothing to look at before the first of them has made the cluster's topics."""
        asked = self._asked("cluster", "agents")
        agents = [] if asked.returncode else objects(asked.stdout)
        return {one["agent"] for one in agents if one["stage"] == "member"} == self.hosts.keys()

    def _asked(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        done: subprocess.CompletedProcess[str] = run_kcontrol(
            *arguments, "--json", "--bootstrap-servers", self.servers
        )
        return done

    def settle(self, steps: int) -> None:
        """Until all hosts are members, whoever is to stand by is warm, and so many more steps are committed."""
        until(self.are_members, "all hosts are members", TIMEOUT_S, self.said)
        until(lambda: self.warm() >= self.standbys, "who stands by is warm", TIMEOUT_S, self.said)
        last = self.feed.committed + steps
        self.await_steps(lambda made: len(made) >= last, f"step {last}")

    def node(self) -> Host:
        """Where the node is placed. Raises RuntimeError."""
        for job in self.ask("cluster", "jobs"):
            if job["job"] == self.name and job["places"].get("nodes/0") in self.hosts:
                return self.hosts[job["places"]["nodes/0"]]
        raise RuntimeError(f"{self.name} has no place\n{self.said()}")

    def started_ms(self, generation: int) -> float:
        """When an agent started the node's process of that placement. Raises RuntimeError."""
        for file in self.home.glob("*/*/units/*/process.json"):
            found = json.loads(file.read_text(encoding="utf-8"))
            if (found["job"], found["generation"]) == (self.name, generation):
                return float(found["began_s"]) * 1e3
        raise RuntimeError(f"no process of generation {generation} was started\n{self.said()}")

    def warm(self) -> int:
        """How many processes stand by, with a step run again."""
        found = 0
        for file in self.home.glob("*/*/units/*/process.json"):
            facts = json.loads(file.read_text(encoding="utf-8"))
            if facts["task"] == STANDBY and psutil.pid_exists(facts["pid"]):
                found += " warm: step " in (file.parent / "log").read_text(encoding="utf-8", errors="replace")
        return found

    def await_steps(self, reached: Callable[[list[Boundary]], bool], what: str) -> None:
        """Raises RuntimeError when it takes too long."""
        if not self.feed.wait_for(reached, TIMEOUT_S):  # type: ignore[arg-type]  # a list of dictionaries
            raise RuntimeError(
                f"{self.name} has committed {self.feed.committed} steps and not {what}\n{self.said()}"
            )

    def said(self) -> str:
        return "\n".join(host.agent.log_tail() for host in self.hosts.values())


def measure_hosts(plan: Dying, say: Callable[[str], None]) -> list[HostDeath]:
    """As many as are planned, one after the other. Raises RuntimeError when the pipeline does not go on."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-hosts-", ignore_cleanup_errors=True) as scratch,
        EmbeddedBroker(Path(scratch) / "broker") as broker,
        _running(broker.bootstrap_servers, Path(scratch), plan) as hosts,
    ):
        return [_measure(hosts, plan.settle_steps, say) for _ in range(plan.kills)]


@contextmanager
def _running(servers: str, home: Path, plan: Dying) -> Iterator[_Hosts]:
    name = f"bench-hosts-{uuid.uuid4().hex[:8]}"
    for topic, partitions in topics_of(name).items():
        create_topics(servers, topic, partitions=partitions)
    (home / "files").mkdir()
    (home / "files" / f"{name}.py").write_text(FILE.format(name=name), encoding="utf-8")
    environment = {
        CHECKPOINTS_VARIABLE: str(home / "checkpoints"),
        CHECKPOINT_EVERY_VARIABLE: plan.checkpoint_every,
    }
    made = [Host(number, home, servers, environment, None) for number in range(1, plan.hosts + 1)]
    feeder, feed = Feeder(servers, 1, prefix_of(name)), StepFeed(name, servers)
    hosts = _Hosts(name, servers, home, {host.name: host for host in made}, feed, plan.standbys)
    feeder.start()
    try:
        hosts.start(plan.beat_ms)
        yield hosts
    finally:
        feeder.stop()
        feed.close()
        for host in made:
            host.kill()


def _measure(hosts: _Hosts, settle_steps: int, say: Callable[[str], None]) -> HostDeath:
    hosts.settle(settle_steps)
    host, last = hosts.node(), hosts.feed.last
    killed_ms = _kill(host)
    hosts.await_steps(
        lambda steps: first_by_another(steps, maker(last)) is not None,
        f"one by another process than that on {host.name}, which was killed",
    )
    steps: list[Boundary] = [*hosts.feed.steps]
    step = first_by_another(steps, maker(last))
    assert step is not None
    log, control = asyncio.run(_logs(hosts.servers, hosts.name))
    _, join = joined_as(control, maker(step))
    if join.placement is None:
        raise RuntimeError(f"step {step['step']} was made by a process that no agent has started")
    started_ms = hosts.started_ms(join.placement.generation)
    found = HostDeath(
        *(host.name, hosts.node().name, last["token"]["claim_epoch"] != step["token"]["claim_epoch"]),
        step["committed_ms"] - killed_ms,
        parts(killed_ms, noticed_ms(log, host.name, killed_ms), started_ms, control, step),
    )
    host.start()
    say(
        f"{found.host} died, {found.what}: {found.back_ms:,.0f} ms: "
        + ", ".join(f"{part.what} {part.ms:,.0f}" for part in found.parts)
    )
    return found


def _kill(host: Host) -> float:
    """All of it. When that was."""
    processes = host.processes()
    killed_ms = now_ms()
    for one in processes:
        with suppress(psutil.NoSuchProcess):
            one.send_signal(signal.SIGKILL)
    host.kill()
    return killed_ms


async def _logs(servers: str, name: str) -> tuple[list[StampedEntry], list[Logged]]:
    """All that was ever said in the cluster's log, and on the pipeline's control topic."""
    settings = ClusterSettings(bootstrap_servers=servers)
    log, control = KafkaClusterLog(settings), await KafkaControlLog.open(settings, name)
    try:
        return await log.read_to_end(), await control.read_to_end()
    finally:
        await asyncio.gather(log.close(), control.close())
