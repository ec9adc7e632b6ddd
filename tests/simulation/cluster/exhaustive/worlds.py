"""Small clusters, each searched whole."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kcontrol.core.cluster.entries import ClusterEntry, Configure, KillJob, RaiseLevel, SubmitJob
from kcontrol.core.cluster.model import LATEST_LEVEL, ClusterPolicy, TaskSpec
from tests.simulation.cluster.exhaustive.agents import put, started
from tests.simulation.cluster.exhaustive.keys import Keys
from tests.simulation.cluster.exhaustive.log import Log
from tests.simulation.cluster.exhaustive.moves import Bounds, Wish
from tests.simulation.cluster.exhaustive.search import Search, calm_run
from tests.simulation.cluster.exhaustive.state import NO_FAULTS, Faults, HostState, State

MANY = 10**9
POLICY = ClusterPolicy(coordinators=0, digest_every=MANY, snapshot_every=MANY, finished_jobs=1)


def submit(job: str, request: str, nodes: int = 1, package: str = "package-1") -> Wish:
    tasks = (TaskSpec("nodes", nodes, nodes),)
    return lambda as_of: SubmitJob(job, request, as_of, package, tasks)


def kill(job: str, request: str) -> Wish:
    return lambda as_of: KillJob(job, request, as_of)


@dataclass(frozen=True)
class World:
    """slots: of each host. members: so many are members when the search begins; all others begin with it. begun: wishes that
    were carried out before. wishes, faults: what may come, at any moment. most: so many states are seen where there are
    too many to see all."""

    name: str
    slots: tuple[int, ...]
    members: int = 0
    begun: tuple[Wish, ...] = ()
    wishes: tuple[Wish, ...] = ()
    faults: Faults = NO_FAULTS
    coordinators: int = 0
    lag: int = 3
    flights: bool = False
    most: int = MANY

    def search(self, most: int = MANY) -> Search:
        return Search(self._first(), Bounds(self.wishes, self.lag, self.flights), min(most, self.most))

    def _first(self) -> State:
        hosts = tuple(HostState(f"h{at}", slots) for at, slots in enumerate(self.slots))
        state, log = State(hosts), Log(Keys())
        policy = replace(POLICY, coordinators=self.coordinators)
        levels = [RaiseLevel(level) for level in range(2, LATEST_LEVEL + 1)]
        founding: list[ClusterEntry] = [Configure(policy), *levels]
        for entry in founding:
            state, _ = log.append(state, entry)
        for host in state.hosts[: self.members]:
            state = calm_run(put(state, started(host)))
        for wish in self.begun:
            state, _ = log.append(state, wish(state.truth.offset))
            state = calm_run(state)
        for host in state.hosts[self.members :]:
            state = put(state, started(host))
        return replace(state, faults=self.faults)

    def __str__(self) -> str:
        return self.name.replace(" ", "_")


A_JOB = (submit("orders", "q1"),)
COMES_AND_GOES = (submit("orders", "q1"), kill("orders", "q2"))
ANEW = (submit("orders", "q2", package="package-2"),)
TWO_JOBS = (submit("taxis", "q2", 2), kill("orders", "q3"))
WORLDS = (
    World("two join and an agent dies", (1, 1), faults=Faults(agents_killed=1)),
    World("two join of whom one is suspected", (1, 1), faults=Faults(suspicions=1)),
    World("three join", (1, 1, 1)),
    World("a host dies and loses its disk", (1, 1), 2, A_JOB, faults=Faults(hosts_killed=1, disks_lost=1)),
    World("a job comes and goes", (1, 1), 2, (), COMES_AND_GOES, Faults(twice=1)),
    World("a job is submitted anew", (1, 1), 2, A_JOB, ANEW, Faults(agents_killed=1)),
    World("a node moves", (1, 1), 2, A_JOB, (), Faults(suspicions=1, nodes_killed=1)),
    World("an agent dies", (1, 1), 2, A_JOB, (), Faults(agents_killed=1)),
    World("a node fails", (1, 1), 2, A_JOB, (kill("orders", "q2"),), Faults(can_not_run=1, nodes_killed=1)),
)
LARGER = (
    World("a node moves and an agent dies", (1, 1), 2, A_JOB, (), Faults(suspicions=1, agents_killed=1)),
    World("a job comes while an agent dies", (1, 1), 2, (), A_JOB, Faults(agents_killed=1, given_up=1)),
    World("a third joins and a host dies", (1, 1, 1), 2, faults=Faults(hosts_killed=1), most=25_000),
)
"""Those that take longer."""
FOR_RULES = (World("two jobs and a death", (1, 1), 2, A_JOB, TWO_JOBS, Faults(agents_killed=1)),)
"""In which something is found soon if a rule is off; it was not searched whole."""
BY_NAME = {world.name: world for world in (*WORLDS, *LARGER, *FOR_RULES)}
