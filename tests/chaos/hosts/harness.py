"""Rounds of one fault each against hosts whose agents run some pipelines.

A round is over when each pipeline has committed a step that was begun after the fault, wherever its node is then; every
check proves that what was committed is right, and that no node ran twice at once. In the end all hosts are members again and
all nodes run where they are placed, each as one process.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from examples.processes import now_ms
from kcontrol.adapters.kafka.embedded import EmbeddedBroker
from tests.chaos.hosts.faults import Action, Fault, draw
from tests.chaos.hosts.host import FIRST_GROUP, Host
from tests.chaos.hosts.pipelines import FILE, names, topics_of
from tests.chaos.hosts.running import RunningPipeline
from tests.chaos.names import CHECKPOINTS_VARIABLE
from tests.chaos.network import Network, can_cut
from tests.support.processes import objects, run_kcontrol

TOPIC_TIMEOUT_S = 30.0
JOIN_TIMEOUT_S = 120.0
START_TIMEOUT_S = 300.0
ROUND_TIMEOUT_S = 300.0
END_TIMEOUT_S = 300.0
STILL_S = 0.3
SHOWN = 20


class HostsError(Exception):
    """A pipeline did not go on, did something wrong, or was not placed again."""


@dataclass(frozen=True)
class HostsRound:
    """What was done, to which host, and by pipeline how long after the fault the first step was committed that was begun
    after it."""

    number: int
    fault: str
    host: str
    had: tuple[str, ...]
    outage_s: float
    processes: int
    back_s: dict[str, float]


@dataclass
class HostsOutcome:
    """A whole run."""

    seed: int
    rounds: list[HostsRound] = field(default_factory=list)
    checks: int = 0
    steps: int = 0
    records_in: int = 0


class HostsChaos:
    """One run. tell: hears of every round."""

    def __init__(
        self, home: Path, seed: int, hosts: int, pipelines: int, tell: Callable[[HostsRound], None]
    ) -> None:
        self._faults = random.Random(f"faults-{seed}")
        # Apart from the faults: where nodes are placed is not the seed's to say.
        self._victims = random.Random(f"victims-{seed}")
        self._tell, self._home = tell, home
        self._outcome = HostsOutcome(seed)
        self._broker = EmbeddedBroker(home / "broker").start()
        self._network = Network()
        self._cuts = can_cut()
        servers = self._servers = self._broker.bootstrap_servers
        environment = {CHECKPOINTS_VARIABLE: str(home / "checkpoints")}
        self._hosts = [
            Host(number, home, servers, environment, FIRST_GROUP + number if self._cuts else None)
            for number in range(1, hosts + 1)
        ]
        self._pipelines = [RunningPipeline(name, servers, seed) for name in names(pipelines)]

    def run(self, rounds: int) -> HostsOutcome:
        """Raises HostsError."""
        try:
            self._begin()
            for number in range(1, rounds + 1):
                self._round(number, draw(self._faults, cuts=self._cuts))
                self._check(complete=False)
            self._end()
            return self._outcome
        except (HostsError, TimeoutError) as error:
            said = "\n".join(host.agent.log_tail() for host in self._hosts)
            raise HostsError(f"seed {self._outcome.seed}: {error}\n{said}") from None
        finally:
            self._close()

    # --- the beginning and the end ------------------------------------------------------------------------

    def _begin(self) -> None:
        files = self._home / "files"
        files.mkdir()
        topics: list[NewTopic] = []
        for pipeline in self._pipelines:
            (files / f"{pipeline.name}.py").write_text(FILE.format(name=pipeline.name))
            topics += [NewTopic(name, count, 1) for name, count in topics_of(pipeline.name).items()]
        admin = AdminClient({"bootstrap.servers": self._servers, "log_level": 0})
        for future in admin.create_topics(topics).values():
            future.result(TOPIC_TIMEOUT_S)
        for host in self._hosts:
            host.start()
        self._until(self._all_joined, JOIN_TIMEOUT_S, "all hosts have joined")
        for pipeline in self._pipelines:
            self._ask("place", f"{pipeline.name}.py", "--job", pipeline.name)
            pipeline.feeder.start()
        self._until(
            lambda: all(one.feed.committed > 0 for one in self._pipelines), START_TIMEOUT_S, "first steps"
        )

    def _end(self) -> None:
        """Everything is as it should be: who is a member, what runs, and what was committed."""
        self._until(self._all_joined, JOIN_TIMEOUT_S, "all hosts are members again")
        self._until(
            self._runs_as_placed, END_TIMEOUT_S, "each node runs where it is placed, and nowhere else"
        )
        since_ms = now_ms()
        self._until(
            lambda: all(one.has_begun_one(since_ms) for one in self._pipelines), END_TIMEOUT_S, "last steps"
        )
        for pipeline in self._pipelines:
            pipeline.feeder.stop()
            self._until(pipeline.drained(), END_TIMEOUT_S, f"all input of {pipeline.name} is committed")
        self._check(complete=True)
        steps = [step for one in self._pipelines for step in one.feed.steps]
        self._outcome.steps = len(steps)
        self._outcome.records_in = sum(piece["records"] for step in steps for piece in step["inputs"])

    def _close(self) -> None:
        for pipeline in self._pipelines:
            pipeline.close()
        self._network.close()
        for host in self._hosts:
            host.kill()
        self._broker.stop()

    # --- a round ------------------------------------------------------------------------------------------

    def _round(self, number: int, fault: Fault) -> None:
        time.sleep(fault.delay_s)  # Not to await something: the fault's instant is random.
        places = self._places()
        host = self._victim(fault, set(places.values()))
        had = tuple(sorted(name for name, where in places.items() if where == host.name))
        hit_ms = now_ms()
        processes = self._strike(host, fault)
        for pipeline in self._pipelines:
            self._until(
                lambda one=pipeline: one.has_begun_one(hit_ms),
                ROUND_TIMEOUT_S,
                f"round {number}, {host.name} {fault.name} for {fault.outage_s:.1f} s: a step of {pipeline.name}",
            )
        back_s = {one.name: self._back_s(one, hit_ms) for one in self._pipelines}
        done = HostsRound(number, fault.name, host.name, had, fault.outage_s, processes, back_s)
        self._outcome.rounds.append(done)
        self._tell(done)

    def _strike(self, host: Host, fault: Fault) -> int:
        """Do it, and undo it after the outage."""
        match fault.action:
            case Action.KILL:
                processes = host.kill(wiped=fault.wiped)
                time.sleep(fault.outage_s)
                host.start()
            case Action.FREEZE:
                processes = host.signal(signal.SIGSTOP)
                time.sleep(fault.outage_s)
                host.signal(signal.SIGCONT)
            case Action.CUT:
                processes = len(host.processes())
                assert host.group is not None
                self._network.cut([host.group], [int(self._servers.rpartition(":")[2])])
                time.sleep(fault.outage_s)
                self._network.heal()
        return processes

    def _victim(self, fault: Fault, busy: set[str]) -> Host:
        fitting = [host for host in self._hosts if (host.name in busy) is fault.busy]
        return self._victims.choice(fitting or self._hosts)

    @staticmethod
    def _back_s(pipeline: RunningPipeline, hit_ms: float) -> float:
        first = next(step for step in pipeline.feed.steps if step["opened_ms"] >= hit_ms)
        return (float(first["committed_ms"]) - hit_ms) / 1_000

    # --- looking ------------------------------------------------------------------------------------------

    def _ask(self, *arguments: str) -> list[dict[str, Any]]:
        asked = run_kcontrol(*arguments, "--json", "--bootstrap-servers", self._servers)
        if asked.returncode:
            raise HostsError(f"kcontrol {' '.join(arguments)}: {asked.stderr.strip()}")
        return objects(asked.stdout)

    def _places(self) -> dict[str, str]:
        """By pipeline: the host of its node; none that has no place."""
        jobs = self._ask("cluster", "jobs")
        return {job["job"]: place for job in jobs if (place := job["places"].get("nodes/0")) is not None}

    def _all_joined(self) -> bool:
        agents = self._ask("cluster", "agents")
        return {one["agent"] for one in agents if one["stage"] == "member"} == {
            one.name for one in self._hosts
        }

    def _runs_as_placed(self) -> bool:
        running = {
            one.name: [host.name for host in self._hosts for _ in host.nodes(one.name)]
            for one in self._pipelines
        }
        placed = {name: [host] for name, host in self._places().items()}
        return len(placed) == len(self._pipelines) and running == placed

    def _check(self, *, complete: bool) -> None:
        found = [each for one in self._pipelines for each in one.violations(complete=complete)]
        self._outcome.checks += 1
        if found:
            shown = "\n".join(found[:SHOWN])
            raise HostsError(f"{len(found)} violations after {len(self._outcome.rounds)} rounds:\n{shown}")

    def _until(self, holds: Callable[[], bool], timeout_s: float, what: str) -> None:
        deadline = time.monotonic() + timeout_s
        while not holds():
            if time.monotonic() > deadline:
                raise HostsError(f"not within {timeout_s:.0f} s: {what}")
            time.sleep(STILL_S)
