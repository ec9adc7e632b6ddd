"""`python -m bench.cluster --agents 10 100 1000`: how many entries a cluster's log takes for joins, a death, a
restart. These figures are the same on every machine. `--entries 100000`: how long it takes to apply so many.

Agents as they run (`AgentMachine`) on one log in memory, in rounds of one beat; each reads all, says at most
one thing, and reads again. That all make the same value of an entry is for tests: here it is made once.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kcontrol.core.cluster import ring
from kcontrol.core.cluster.agent import AgentMachine
from kcontrol.core.cluster.agent_limits import AgentLimits
from kcontrol.core.cluster.diff import diff
from kcontrol.core.cluster.duties import Identity
from kcontrol.core.cluster.entries import (
    Accept,
    ClusterEntry,
    Drain,
    KillJob,
    Leave,
    Notify,
    Prepare,
    SubmitJob,
)
from kcontrol.core.cluster.explain import explain
from kcontrol.core.cluster.liveness import Beat
from kcontrol.core.cluster.model import EMPTY, ClusterPolicy, Replica, TaskSpec
from kcontrol.core.cluster.replica import apply

MOST_ROUNDS = 400


class _Agent(AgentMachine):
    """Takes the value that somebody else has made of an entry."""

    made: list[Replica]

    def _apply(self, offset: int, entry: ClusterEntry | None) -> None:
        assert entry is not None
        self._said_ms.pop(entry, None)
        self.replica = self.made[offset]


class Cluster:
    """One log and its readers."""

    def __init__(self, agents: int) -> None:
        self.log: list[ClusterEntry] = []
        self.value: Replica = EMPTY
        self._made: list[Replica] = []
        self.now_ms = 0
        names = [f"a{number:04}" for number in range(agents)]
        self.machines = {name: self._start(name) for name in names}

    def _start(self, name: str, earlier: tuple[str, ...] = ()) -> AgentMachine:
        incarnation = f"{name}-{len(earlier)}"
        me = Identity(name, incarnation, 2, earlier=earlier)
        agent = _Agent(me, AgentLimits(), self.now_ms, earlier[-1] if earlier else "")
        agent.made = self._made
        return agent

    def append(self, entry: ClusterEntry) -> None:
        self.value, _ = apply(self.value, len(self.log), entry)
        self.log.append(entry)
        self._made.append(self.value)

    def round(self) -> None:
        """One beat of everybody, and what it leads to."""
        self.now_ms += ClusterPolicy().beat_ms
        beats = [machine.beat(self.now_ms) for machine in self.machines.values()]
        said: list[Beat] = [beat for beat in beats if beat is not None]
        for machine in self.machines.values():
            machine.beat_sent(self.now_ms)
            machine.hear(*said)
            self._read(machine)
        for machine in self.machines.values():
            entry = machine.entry(self.now_ms)
            if entry is not None:
                self.append(entry)
                machine.appended()
        for machine in self.machines.values():
            self._read(machine)

    def _read(self, machine: AgentMachine) -> None:
        while machine.next_offset < len(self.log):
            machine.read(machine.next_offset, self.log[machine.next_offset])
        machine.read_to_end(self.now_ms)

    def until_joined(self) -> str:
        """Rounds and entries until exactly these are members."""
        before, rounds = len(self.log), 0
        while set(self.value.members) != set(self.machines) or self.value.prepared or self.value.accepted:
            self.round()
            rounds += 1
            if rounds > MOST_ROUNDS:
                return f"not in {rounds} rounds: {len(self.value.members)} members"
        kinds = Counter(type(entry).__name__ for entry in self.log[before:])
        return f"{len(self.log) - before} entries in {rounds} rounds ({', '.join(_counted(kinds))})"

    def kill(self, name: str) -> None:
        del self.machines[name]

    def restart(self, name: str) -> None:
        earlier = self.machines[name].me
        self.machines[name] = self._start(name, (*earlier.earlier, earlier.incarnation))

    def submit(self, name: str, nodes: int) -> None:
        task = TaskSpec("nodes", nodes, nodes)
        self.append(SubmitJob(name, name, len(self.log) - 1, "package", (task,)))


def _counted(kinds: Counter[str]) -> list[str]:
    return [f"{count} {kind.lower()}" for kind, count in sorted(kinds.items())]


def show(agents: int) -> None:
    cluster = Cluster(agents)
    print(f"{agents} agents join: {cluster.until_joined()}")
    cluster.submit("flights", max(1, agents // 2))
    cluster.submit("orders", 2 * agents)
    print(f"  orders waits: {explain(cluster.value, cluster.value.jobs['orders'])}")
    name, before = cluster.value.places()["flights", "nodes", 0].agent, cluster.value
    cluster.kill(name)
    print(f"  one dies: {cluster.until_joined()}")
    for line in diff(before, cluster.value):
        print(f"    {line}")
    cluster.restart(cluster.value.members[0])
    entries = len(cluster.log)
    for _ in range(3):
        cluster.round()
    print(f"  one is restarted: {len(cluster.log) - entries} entries")


def entries_of(agents: int, count: int, seed: int = 1) -> list[ClusterEntry]:
    """A long life of a cluster: all join, then at random restarts, deaths and joins, submissions, kills, drains."""
    drawn, value, log = random.Random(seed), EMPTY, list[ClusterEntry]()
    lives = Counter[str]()

    def say(entry: ClusterEntry) -> None:
        nonlocal value
        if len(log) < count:
            value, _ = apply(value, len(log), entry)
            log.append(entry)

    def who(name: str) -> tuple[str, str]:
        return name, f"{name}-{lives[name]}"

    def join(name: str) -> None:
        say(Prepare(*who(name), slots=4))
        say(Notify(*who(name)))
        if name in value.accepted:
            say(Accept(*who(name), *who(ring.watchers(value)[value.accepted[name]])))

    for number in range(agents):
        join(f"a{number:04}")
    while len(log) < count:
        name, job = drawn.choice(value.members), f"j{drawn.randrange(max(1, agents // 5)):03}"
        match drawn.randrange(10):
            case 0:
                watcher = ring.watchers(value).get(name, name)
                say(Leave(*who(name), *who(watcher), "silent"))
                lives[name] += 1
                join(name)
            case 1 | 2 | 3:
                before = f"{name}-{lives[name]}"
                lives[name] += 1
                say(Prepare(*who(name), previous=before, slots=4))
            case 4:
                say(KillJob(job, "k", len(log) - 1))
            case 5:
                say(Drain(name, not value.agents[name].draining))
            case _:
                task = TaskSpec("nodes", (nodes := drawn.randrange(1, 6)), nodes)
                say(SubmitJob(job, f"r{len(log)}", len(log) - 1, "package", (task,)))
    return log


@dataclass(frozen=True)
class EntryRate:
    """Of one size of cluster. per_s: entries in a second of the processor. ratio: of the time of an entry to that in the
    smallest cluster. whole_per_s: with everything looked at for each entry, of a piece of the same log."""

    agents: int
    entries: int
    rejected: int
    per_s: float
    whole_per_s: float
    ratio: float


def _applied(log: Sequence[ClusterEntry], whole: bool) -> tuple[float, int]:
    """Entries a second of the processor, and how many were rejected."""
    value, rejected = EMPTY, 0
    began = time.process_time()
    for offset, entry in enumerate(log):
        value, why = apply(value.but(settled=None) if whole else value, offset, entry)
        rejected += bool(why)
    return len(log) / max(1e-9, time.process_time() - began), rejected


def measure_entries(
    sizes: Sequence[int], count: int, whole: int, tell: Callable[[str], None]
) -> list[EntryRate]:
    """Of each size of cluster count entries are applied, and the first `whole` of them without what is known from the
    one before."""
    found: list[EntryRate] = []
    for agents in sizes:
        log = entries_of(agents, count)
        (per_s, rejected), (whole_per_s, _) = _applied(log, False), _applied(log[:whole], True)
        smallest = found[0].per_s if found else per_s
        found.append(EntryRate(agents, count, rejected, per_s, whole_per_s, smallest / per_s))
        tell(
            f"{agents} agents: {count:,} entries, {count / per_s:.1f} s of the processor, {rejected} rejected"
        )
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.cluster", description=__doc__)
    parser.add_argument("--agents", type=int, nargs="+", default=[10, 100], metavar="N")
    parser.add_argument("--entries", type=int, default=0, metavar="N", help="apply so many, too")
    options = parser.parse_args(sys.argv[1:])
    for number in options.agents:
        show(number)
    if options.entries:
        measure_entries(options.agents, options.entries, min(4_000, options.entries), print)
