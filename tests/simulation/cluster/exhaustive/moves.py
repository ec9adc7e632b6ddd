"""What may happen next in a small cluster: each a state, with a line that says what it was.

A move is calm if it comes by itself, without a fault and without anybody's wish; `rank` is its turn in a calm run, in which
what is under way comes first, then reading, then running, then speaking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from kcontrol.core.cluster.entries import Abort, Accept, ClusterEntry, Leave, Prepare
from kcontrol.core.cluster.liveness import Who
from kcontrol.core.cluster.model import STANDBY
from kcontrol.core.log.control_view import PipelineView, evolve
from kcontrol.core.model import AgentPlacement, NodeJoin
from kcontrol.core.model import Logged as LoggedRecord
from tests.simulation.cluster.exhaustive.agents import Agents, put, started
from tests.simulation.cluster.exhaustive.log import Log, read_by_all
from tests.simulation.cluster.exhaustive.state import AgentState, HostState, Life, ProcessState, State
from tests.simulation.cluster.invariants import OLDER_PLACEMENT
from tests.simulation.invariants import require

Wish = Callable[[int], ClusterEntry]
"""What a user asks, as of an offset."""
ARRIVES, READS, RUNS, SPEAKS, WAITED = range(5)
MOST_MEMBERS = 3
"""Of which all choices of free members are made by six offsets; at the level of today every third one chooses anew."""


@dataclass(frozen=True)
class Bounds:
    """Of a world. wishes: of users, made in this order, arriving in any. lag: so many entries an agent may not have read when
    another one arrives. flights: whether what an agent says is on its way while it goes on; else it arrives at once, be
    it that the agent has not read for long."""

    wishes: tuple[Wish, ...] = ()
    lag: int = 3
    flights: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """rank: None if it is not calm."""

    line: str
    rank: int | None
    to: State


class Moves:
    """Of one world."""

    def __init__(self, log: Log, bounds: Bounds) -> None:
        self._log, self._bounds, self._agents = log, bounds, Agents()
        self.doing = ""
        """What is being tried: if an invariant breaks, by this."""

    def of(self, state: State) -> Iterator[Move]:
        """Raises Violation."""
        yield from self._arrivals(state)
        for host in state.hosts:
            if host.agent is None:
                line = f"an agent is started on {host.name} as {host.name}#{host.lives + 1}"
                yield Move(line, None, put(state, started(host)))
            else:
                yield from self._acts(state, host, host.agent)
            yield from self._processes(state, host)
        if state.wishes < len(self._bounds.wishes):
            entry = self._bounds.wishes[state.wishes](state.truth.offset)
            asked = replace(state, wishes=state.wishes + 1, asked=(*state.asked, entry))
            yield Move(f"a user asks: {brief(entry)}", None, asked)
        for host in state.hosts:
            yield from self._kills(state, host)

    # --- the log ----------------------------------------------------------------------------------------------

    def _arrivals(self, state: State) -> Iterator[Move]:
        for entry in state.asked:
            left = replace(state, asked=_without(state.asked, entry))
            yield from self._arrives(left, entry, "the wish", ARRIVES)
        for host in state.hosts:
            if host.agent is not None and host.agent.flight is not None:
                entry = host.agent.flight
                left = put(state, replace(host, agent=replace(host.agent, flight=None)))
                yield from self._arrives(left, entry, f"of {host.incarnation}", ARRIVES)
                if state.faults.given_up:
                    yield _gives_up(left, host.agent, entry)
        for entry in dict.fromkeys(state.late):
            left = replace(state, late=_without(state.late, entry))
            yield from self._arrives(left, entry, "late", None)

    def _arrives(self, left: State, entry: ClusterEntry, whose: str, rank: int | None) -> Iterator[Move]:
        if len(left.unread) >= self._bounds.lag:
            return
        self.doing = f"arrives, {whose}: {brief(entry)}"
        for gap in _gaps(left, entry):
            to, why = self._log.append(left, entry, gap)
            line = f"arrives, {whose}: {brief(entry)} at {to.truth.offset}{why and f' (void: {why})'}"
            yield Move(line, rank, to)
            if left.faults.twice:
                faults = left.faults._replace(twice=left.faults.twice - 1)
                again = replace(_late(to, entry), faults=faults)
                yield Move(f"{line}, and will once more", None, again)

    # --- agents -----------------------------------------------------------------------------------------------

    def _acts(self, state: State, host: HostState, agent: AgentState) -> Iterator[Move]:
        who = agent.incarnation
        self.doing = f"{who} reads one more entry, or makes {host.name} run what it should"
        if not agent.has_read:
            to = self._agents.reads_to_end(state, host, agent)
            yield Move(f"{who} reads the log to its end, for the first time", READS, to)
            # Nothing is run, nor ended, before: rules that are switched off may see that otherwise.
            found = self._agents.reconciles(state, host, agent)
            if found is not state:
                yield Move(f"{who} changes what runs on its host, and has not read the log", RUNS, found)
            return
        if agent.replica.offset < state.truth.offset:
            to, more = self._agents.reads_one(state, host, agent)
            yield Move(f"{who} reads one more entry{more}", READS, to)
        yield from self._runs(state, host, agent)
        if agent.flight is None:
            yield from self._speaks(state, host, agent)

    def _runs(self, state: State, host: HostState, agent: AgentState) -> Iterator[Move]:
        found = self._agents.reconciles(state, host, agent)
        if found is not state:
            yield Move(f"{agent.incarnation} makes {host.name} run what it should", RUNS, found)
            if state.faults.can_not_run:
                faults = state.faults._replace(can_not_run=state.faults.can_not_run - 1)
                to = self._agents.reconciles(state, host, agent, can_run=False)
                yield Move(f"{agent.incarnation} can't run what it should", None, replace(to, faults=faults))
        waited = self._agents.reconciles(state, host, agent, waited=True)
        if waited is not state and waited != found:
            yield Move(f"{agent.incarnation} has waited, and ends what was handed over", WAITED, waited)

    def _speaks(self, state: State, host: HostState, agent: AgentState) -> Iterator[Move]:
        """What it has said it does not say again before it has read it."""
        said = [one.entry for one in state.unread if one.offset > agent.replica.offset]
        for entry, silent in self._agents.due(host, agent):
            if entry in said:
                continue
            suspects = silent is not None and _counts_as_alive(state, host, silent)
            if suspects and not state.faults.suspicions:
                continue
            more, left = "", state
            rank: int | None = SPEAKS
            if suspects:
                faults = state.faults._replace(suspicions=state.faults.suspicions - 1)
                more, rank, left = ", which lives", None, replace(state, faults=faults)
            if self._bounds.flights:
                to = put(left, replace(host, agent=replace(agent, flight=entry)))
                yield Move(f"{agent.incarnation} is about to say: {brief(entry)}{more}", rank, to)
                continue
            yield from self._arrives(left, entry, f"of {agent.incarnation}{more}", rank)
            if state.faults.given_up:
                yield _gives_up(left, agent, entry)

    # --- processes of nodes -----------------------------------------------------------------------------------

    def _processes(self, state: State, host: HostState) -> Iterator[Move]:
        lives = {one.unit: one for one in state.rightful}
        for process in host.processes:
            what = f"{'/'.join(map(str, process.unit))} of {process.generation} on {host.name}"
            life = lives.get(process.unit)
            gone = _with_processes(state, host, tuple(one for one in host.processes if one is not process))
            self.doing = f"{what} joins"
            if not process.joined and process.unit[1] != STANDBY:
                yield Move(f"{what} joins", RUNS, joins(state, host, process, life))
            elif process.joined and life is not None and life != _life(host, process):
                yield Move(f"{what} sees that it is replaced, and ends", RUNS, gone)
            if state.faults.nodes_killed:
                faults = state.faults._replace(nodes_killed=state.faults.nodes_killed - 1)
                yield Move(f"{what} is killed", None, replace(gone, faults=faults))

    # --- deaths -----------------------------------------------------------------------------------------------

    def _kills(self, state: State, host: HostState) -> Iterator[Move]:
        faults = state.faults
        if faults.agents_killed and host.agent is not None:
            left = faults._replace(agents_killed=faults.agents_killed - 1)
            to = put(replace(state, faults=left), replace(host, agent=None))
            yield from self._killed(state, host, to, f"the agent on {host.name} is killed")
        if faults.hosts_killed and (host.agent is not None or host.processes):
            left = faults._replace(hosts_killed=faults.hosts_killed - 1)
            bare = replace(host, agent=None, processes=())
            to = put(replace(state, faults=left), bare)
            yield from self._killed(state, host, to, f"all on {host.name} is killed")
            if faults.disks_lost:
                left = left._replace(disks_lost=faults.disks_lost - 1)
                to = put(replace(state, faults=left), replace(bare, disk=()))
                yield from self._killed(state, host, to, f"{host.name} is lost with its disk")

    def _killed(self, state: State, host: HostState, to: State, line: str) -> Iterator[Move]:
        """What it had sent may arrive all the same, whenever."""
        to, agent = read_by_all(to), host.agent
        if agent is None or not agent.has_read:
            yield Move(line, None, to)
        elif self._bounds.flights:
            yield Move(line, None, to if agent.flight is None else _late(to, agent.flight))
        else:
            yield Move(line, None, to)
            for entry, silent in self._agents.due(host, agent):
                if silent is None or not _counts_as_alive(state, host, silent):
                    yield Move(f"{line}, which has sent: {brief(entry)}", None, _late(to, entry))


def joins(state: State, host: HostState, process: ProcessState, life: Life | None) -> State:
    """By the real view of readers of the control topic: whoever joined last, unless it was placed earlier."""
    pipeline = f"{process.unit[0]}-{process.unit[1]}"
    view = PipelineView.empty(pipeline)
    for at, one in enumerate((life, _life(host, process))):
        if one is not None:
            placement = AgentPlacement(state.truth.founded_ms, one.generation)
            join = NodeJoin(pipeline, one.unit[2], f"{at}", one.host, at, placement=placement)
            view = evolve(view, LoggedRecord(at, 0, join))
    joined = replace(process, joined=True)
    to = _with_processes(state, host, tuple(joined if one is process else one for one in host.processes))
    if view.incarnation(process.unit[2]) != 1:
        return to
    older = life is not None and process.generation < life.generation
    require(not older, OLDER_PLACEMENT, (process, life))
    others = (one for one in state.rightful if one.unit != process.unit)
    rightful = sorted((*others, _life(host, process)), key=lambda one: one.unit)
    return replace(to, rightful=tuple(rightful))


def _life(host: HostState, process: ProcessState) -> Life:
    return Life(process.unit, process.generation, host.name)


def _with_processes(state: State, host: HostState, processes: tuple[ProcessState, ...]) -> State:
    return put(state, replace(host, processes=processes))


def _counts_as_alive(state: State, host: HostState, who: Who) -> bool:
    """Who is heard: a process speaks for the incarnation before, too, until it is known."""
    name, incarnation = who
    if name == host.name:
        return False
    agent = state.host(name).agent
    return agent is not None and incarnation in (agent.incarnation, agent.before)


def _gives_up(left: State, agent: AgentState, entry: ClusterEntry) -> Move:
    faults = left.faults._replace(given_up=left.faults.given_up - 1)
    line = f"{agent.incarnation} gives up, and it may arrive all the same: {brief(entry)}"
    return Move(line, None, replace(_late(left, entry), faults=faults))


def _late(state: State, entry: ClusterEntry) -> State:
    return replace(state, late=tuple(sorted((*state.late, entry), key=repr)))


def _without(entries: tuple[ClusterEntry, ...], entry: ClusterEntry) -> tuple[ClusterEntry, ...]:
    at = entries.index(entry)
    return entries[:at] + entries[at + 1 :]


def _gaps(state: State, entry: ClusterEntry) -> range:
    """Before an entry after which a joiner may be given one of several: as many offsets as choices."""
    rings = isinstance(entry, Prepare | Leave | Abort | Accept)
    members = len(state.truth.members)
    if not rings or members < 2:
        return range(1)
    return range(0, 3 * (2 if members == 2 else 6), 3)


def brief(entry: ClusterEntry) -> str:
    """As a person would write it."""
    parts = {name: getattr(entry, name) for name in type(entry).__slots__}
    shown = ("agent", "incarnation", "previous", "lost", "by", "job", "as_of", "index", "nodes", "standbys")
    words = [f"{name}={parts[name]}" for name in shown if parts.get(name) not in (None, "", False)]
    return f"{type(entry).__name__}({', '.join(words)})"
