"""`python -m bench.cluster --agents 10 100`: how many entries a cluster's log takes for joins, a death, a
restart; nothing is timed.

Agents as they run (`AgentMachine`) on one log in memory, in rounds of one beat; each reads all, says at most
one thing, and reads again. The figures are the same on every machine.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from kcontrol.core.cluster.agent import AgentLimits, AgentMachine
from kcontrol.core.cluster.diff import diff
from kcontrol.core.cluster.duties import Identity
from kcontrol.core.cluster.entries import ClusterEntry, SubmitJob
from kcontrol.core.cluster.explain import explain
from kcontrol.core.cluster.liveness import Beat
from kcontrol.core.cluster.model import EMPTY, ClusterPolicy, Replica, TaskSpec
from kcontrol.core.cluster.replica import apply

MOST_ROUNDS = 400


class Cluster:
    """One log and its readers."""

    def __init__(self, agents: int) -> None:
        self.log: list[ClusterEntry] = []
        self.value: Replica = EMPTY
        self.now_ms = 0
        names = [f"a{number:04}" for number in range(agents)]
        self.machines = {name: self._start(name) for name in names}

    def _start(self, name: str, earlier: tuple[str, ...] = ()) -> AgentMachine:
        incarnation = f"{name}-{len(earlier)}"
        me = Identity(name, incarnation, 2, earlier=earlier)
        return AgentMachine(me, AgentLimits(), self.now_ms, earlier[-1] if earlier else "")

    def append(self, entry: ClusterEntry) -> None:
        self.value, _ = apply(self.value, len(self.log), entry)
        self.log.append(entry)

    def round(self) -> None:
        """One beat of everybody, and what it leads to."""
        self.now_ms += ClusterPolicy().beat_ms
        beats = [machine.beat(self.now_ms) for machine in self.machines.values()]
        said: list[Beat] = [beat for beat in beats if beat is not None]
        for machine in self.machines.values():
            machine.beat_sent(self.now_ms)
            for beat in said:
                machine.hear(beat)
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.cluster", description=__doc__)
    parser.add_argument("--agents", type=int, nargs="+", default=[10, 100], metavar="N")
    for count in parser.parse_args(sys.argv[1:]).agents:
        show(count)
