"""Agents of a small cluster: before each act `AgentMachine`, the real one, is made as the state says, and asked.

Time stands still, so nothing is late, and whoever has read is up to date by its clock, however much of the log it has
not seen; who is silent is chosen, and not heard. Both allow more than clocks and beats do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kcontrol.core.cluster.agent import AgentMachine
from kcontrol.core.cluster.agent_limits import AgentLimits
from kcontrol.core.cluster.duties import Identity, lives
from kcontrol.core.cluster.entries import ClusterEntry
from kcontrol.core.cluster.liveness import Liveness, Who
from kcontrol.core.cluster.model import LATEST_LEVEL, STANDBY, Unit
from kcontrol.core.cluster.unit_ends import Hope
from kcontrol.core.cluster.work import RunningUnit, Work
from tests.simulation.cluster.exhaustive.log import read_by_all
from tests.simulation.cluster.exhaustive.state import AgentState, HostState, ProcessState, State
from tests.simulation.cluster.invariants import NOT_STOPPED, SAME_VALUE
from tests.simulation.cluster.standing import STOOD_BY_IS_THE_NODE
from tests.simulation.invariants import require

NOW_MS = 1_000_000
LIMITS = AgentLimits(snapshots=False)
LEVELS = (1, LATEST_LEVEL)
MOST_KEPT = 50_000

Due = tuple[ClusterEntry, Who | None]


def put(state: State, host: HostState) -> State:
    return replace(state, hosts=tuple(host if one.name == host.name else one for one in state.hosts))


def started(host: HostState) -> HostState:
    """With a new process of its agent, which has read nothing yet."""
    incarnation = f"{host.name}#{host.lives + 1}"
    before = host.disk[-1] if host.disk else ""
    agent = AgentState(incarnation, host.disk, before)
    return replace(host, lives=host.lives + 1, disk=(*host.disk, incarnation), agent=agent)


def machine(host: HostState, agent: AgentState, silent: Who | None = None) -> AgentMachine:
    """As the state says; all others were heard just now, or one of them is silent."""
    me = Identity(
        *(host.name, agent.incarnation, host.slots, (), LEVELS, agent.earlier),
        began_ms=1,
    )
    made = AgentMachine(me, LIMITS, NOW_MS, agent.before)
    made.replica = agent.replica
    own = made.beat(NOW_MS)
    if own is not None:
        made.hear(own)
    others = lives(agent.replica) - {me.who}
    count = agent.replica.policy.silent_after
    at = {who: 0 if who == silent else count for who in sorted(others)}
    made.liveness = Liveness(me.who, count, 0, at, frozenset(others - {silent}))
    for unit, place in agent.failed:
        made.unit_failed(unit, place.generation, "it can't run here", Hope.ELSEWHERE)
    if agent.has_read:
        made.read_to_end(NOW_MS)
    return made


class Agents:
    """What agents do. Each act of each agent is looked up, where it was asked already as the same object."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[AgentState, HostState]] = {}
        self._read: dict[tuple[object, ...], tuple[AgentMachine, AgentState]] = {}
        self._due: dict[tuple[object, ...], tuple[Due, ...]] = {}
        self._work: dict[tuple[object, ...], Work] = {}

    def _name(self, host: HostState, agent: AgentState) -> int:
        """Its identity; it is kept, so that no other gets that."""
        if len(self._kept) > MOST_KEPT:
            for one in (self._kept, self._read, self._due, self._work):
                one.clear()
        self._kept.setdefault(id(agent), (agent, host))
        return id(agent)

    # --- reading ----------------------------------------------------------------------------------------------

    def reads_to_end(self, state: State, host: HostState, agent: AgentState) -> State:
        """For the first time: nothing is done before."""
        now = replace(agent, replica=state.truth, has_read=True)
        return read_by_all(put(state, replace(host, agent=now)))

    def reads_one(self, state: State, host: HostState, agent: AgentState) -> tuple[State, str]:
        """And what came of it beside."""
        logged = next(one for one in state.unread if one.offset > agent.replica.offset)
        about = (self._name(host, agent), logged.offset, logged.entry)
        found = self._read.get(about)
        if found is None:
            made = machine(host, agent)
            made.read(logged.offset, logged.entry)
            placed = made.replica.places()
            failed = tuple(one for one in agent.failed if placed.get(one[0]) == one[1])
            found = made, replace(agent, replica=made.replica, failed=failed)
            self._read[about] = found
        made, now = found
        if now.replica.offset == state.truth.offset:
            require(now.replica == state.truth, SAME_VALUE, (host.name, logged))
        if made.ended:
            return read_by_all(put(state, replace(host, agent=None))), f", and ends: {made.ended}"
        more = ""
        if made.removed:
            incarnation = f"{host.name}#{host.lives + 1}"
            earlier = (*agent.earlier, agent.incarnation)
            now = AgentState(incarnation, earlier, "", now.replica, True)
            host = replace(host, lives=host.lives + 1, disk=(*host.disk, incarnation))
            more = f", is known no more, and goes on as {incarnation}"
        return read_by_all(put(state, replace(host, agent=now))), more

    # --- speaking ---------------------------------------------------------------------------------------------

    def due(self, host: HostState, agent: AgentState) -> tuple[Due, ...]:
        """All that it might say, each with whom it must take for silent for that.

        One at a time is enough: no duty rests on the silence of two.
        """
        about = (self._name(host, agent),)
        found = self._due.get(about)
        if found is None:
            found = tuple(_due(host, agent))
            self._due[about] = found
        return found

    # --- running ----------------------------------------------------------------------------------------------

    def reconciles(
        self, state: State, host: HostState, agent: AgentState, waited: bool = False, can_run: bool = True
    ) -> State:
        """What runs on the host is made what the machine wants; the same state if it is. waited: what was handed over has had
        its time."""
        running = {(one.unit, one.generation): one for one in host.processes}
        found = self._works(host, agent, waited)
        for stopped in found.stop:
            _check_stopped(state, host, running.pop((stopped.unit, stopped.generation)))
        for one, unit, place in found.given:
            del running[one.unit, one.generation]
            running[unit, place.generation] = ProcessState(unit, place.generation)
        failed = agent.failed
        for unit, place in found.start:
            if can_run:
                running[unit, place.generation] = ProcessState(unit, place.generation)
            elif (unit, place) not in failed:
                failed = (*failed, (unit, place))
        processes = tuple(running[one] for one in sorted(running))
        if processes == host.processes and failed == agent.failed:
            return state
        now = agent if failed == agent.failed else replace(agent, failed=failed)
        return put(state, replace(host, processes=processes, agent=now))

    def _works(self, host: HostState, agent: AgentState, waited: bool) -> Work:
        about = (self._name(host, agent), host.processes, waited)
        found = self._work.get(about)
        if found is None:
            moved_ms = NOW_MS - LIMITS.handover_ms if waited else None
            shown = [RunningUnit(one.unit, one.generation, moved_ms) for one in host.processes]
            found = machine(host, agent).work(shown, NOW_MS)
            self._work[about] = found
        return found


def _due(host: HostState, agent: AgentState) -> Iterator[Due]:
    said: set[ClusterEntry] = set()
    for silent in (None, *sorted(lives(agent.replica) - {(host.name, agent.incarnation)})):
        made = machine(host, agent, silent)
        while (entry := made.entry(NOW_MS)) is not None:
            made.appended()
            if entry not in said:
                said.add(entry)
                yield entry, silent


def _check_stopped(state: State, host: HostState, process: ProcessState) -> None:
    known, places = state.truth.agents.get(host.name), state.truth.places()
    is_mine = known is not None and known.incarnation in host.disk
    place = places.get(process.unit)
    rightly = is_mine and place is not None and place.is_of(host.name, process.generation)
    require(not rightly, NOT_STOPPED, (host.name, process))
    given = is_mine and any(
        _stood(process, unit, place.standby, place.stood)
        for unit, place in places.items()
        if place.stood_by and place.agent == host.name
    )
    require(not given, STOOD_BY_IS_THE_NODE, (host.name, process))


def _stood(process: ProcessState, unit: Unit, standby: int, generation: int) -> bool:
    return process.unit == (unit[0], STANDBY, standby) and process.generation == generation
