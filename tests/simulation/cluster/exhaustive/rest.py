"""Where nothing calm is left to happen: whether all is as it should be then. As the simulator's `rest.py`."""

from __future__ import annotations

from kcontrol.core.cluster.model import STANDBY
from tests.simulation.cluster.exhaustive.state import HostState, Life, ProcessState, State


def not_as_it_should_be(state: State) -> str | None:
    """None if all is."""
    return _not_joined(state) or _not_placed(state) or _too_many(state)


def _not_joined(state: State) -> str | None:
    truth = state.truth
    joining = truth.prepared or truth.accepted or truth.waiting
    alive = {host.name: host.incarnation for host in state.hosts if host.agent is not None}
    if not alive:
        return None
    if {name: truth.agents[name].incarnation for name in truth.members} != alive or joining:
        return f"members {truth.members}, alive {alive}, joining {joining}"
    for host in state.hosts:
        if host.agent is not None and host.agent.replica != truth:
            return f"{host.incarnation} has another value"
    return None


def _not_placed(state: State) -> str | None:
    if all(host.agent is None for host in state.hosts):
        return None
    for unit, place in state.truth.places().items():
        host, stands = state.host(place.agent), unit[1] == STANDBY
        found = [one for one in host.processes if (one.unit, one.generation) == (unit, place.generation)]
        right = stands or Life(unit, place.generation, host.name) in state.rightful
        if len(found) != 1 or found[0].joined is stands or not right:
            return f"{unit} does not run where it is placed: {place}, {found}, {state.rightful}"
    return None


def _too_many(state: State) -> str | None:
    placed = state.truth.places()
    for host in state.hosts:
        for process in host.processes:
            place = placed.get(process.unit)
            as_placed = place is not None and place.is_of(host.name, process.generation)
            if not as_placed and not _nobody_ends_it(state, host, process):
                return f"a process too many: {host.name} {process}"
    return None


def _nobody_ends_it(state: State, host: HostState, process: ProcessState) -> bool:
    """Its host has no agent, and no other process takes its place; no world tells pipelines that a job has ended."""
    if host.agent is not None:
        return False
    lives = {one.unit: one for one in state.rightful}
    return not process.joined or lives.get(process.unit) == Life(process.unit, process.generation, host.name)
