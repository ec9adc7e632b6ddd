"""What must always hold of standbys, each by its name, checked after every entry."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kcontrol.core.cluster.entries import TaskFailed
from kcontrol.core.cluster.jobs import runs
from kcontrol.core.cluster.model import LEFT_ROOM_LEVEL, STANDBY, Agent, ClusterJob, Place, Replica, Unit
from tests.simulation.invariants import require

if TYPE_CHECKING:
    from tests.simulation.cluster.invariants import Applied

NOT_BESIDE_ITS_NODE = "no standby is beside a node of its job where another host has room for it"
GIVEN_TO_A_STANDBY = "a node that loses its place is given to a standby that may run it"
STOOD_BY_IS_THE_NODE = "a process that stood by is the node that it is given, and is not ended for it"
AS_MANY_STAND_BY = "as many stand by as are wanted, where there is room"
FAILS_NO_JOB = "a standby that can't run fails no job"


def check_standbys(done: Applied) -> None:
    value, used = done.after, _used(done.after)
    for job in value.active():
        if job.standbys:
            _check_beside(value, job, used)
            _check_number(done, job, used)
            _check_given(done, job)
    entry = done.entry
    if isinstance(entry, TaskFailed) and entry.task == STANDBY:
        require(value.jobs[entry.job].active, FAILS_NO_JOB, entry)


def leaves_a_node(value: Replica, unit: Unit, agent: str) -> bool:
    """Whether it is a standby that moves to where no node of its job is."""
    return unit[1] == STANDBY and agent in _with_nodes(value, unit[0])


def is_tagged(value: Replica) -> bool:
    return any(task.tags for job in value.active() for task in job.tasks)


def _used(value: Replica) -> Counter[str]:
    return Counter(place.agent for place in value.places().values())


def _with_nodes(value: Replica, job: str) -> set[str]:
    return {place.agent for unit, place in value.places().items() if unit[0] == job and unit[1] != STANDBY}


def _may_run(value: Replica, job: ClusterJob, unit: Unit, agent: Agent) -> bool:
    return set(job.tasks[0].tags) <= set(agent.tags) and not value.is_bad(unit, agent.name)


def _fitting(value: Replica, job: ClusterJob, unit: Unit, used: Counter[str]) -> set[str]:
    """Agents with room for it."""
    return {
        name
        for name, agent in value.usable().items()
        if used[name] < agent.slots and _may_run(value, job, unit, agent)
    }


def _check_beside(value: Replica, job: ClusterJob, used: Counter[str]) -> None:
    nodes = _with_nodes(value, job.name)
    for index, place in enumerate(value.allocations.get(job.name, {}).get(STANDBY, ())):
        if place is not None and place.agent in nodes:
            better = _fitting(value, job, (job.name, STANDBY, index), used) - nodes
            require(not better, NOT_BESIDE_ITS_NODE, (job.name, index, place, better))


def _check_number(done: Applied, job: ClusterJob, used: Counter[str]) -> None:
    places = done.after.allocations.get(job.name, {}).get(STANDBY, ())
    there = sum(place is not None for place in places)
    require(there <= job.standbys, AS_MANY_STAND_BY, (job, places))
    room = _room_for_more(done.after, job, used)
    require(not room or _waits_for_an_entry(done, job), AS_MANY_STAND_BY, (job, places, room))


def _room_for_more(value: Replica, job: ClusterJob, used: Counter[str]) -> set[str]:
    """Where one that is missing could stand by."""
    places = value.allocations.get(job.name, {}).get(STANDBY, ())
    there = sum(place is not None for place in places)
    if there >= job.standbys or not runs(value, job) or value.bad:
        return set()
    return _fitting(value, job, (job.name, STANDBY, 0), used)


def _waits_for_an_entry(done: Applied, job: ClusterJob) -> bool:
    """Below its level, what a standby has left as it was put elsewhere is free until an entry places again."""
    before, value = done.before, done.after
    if value.allocations is before.allocations:
        was = before.jobs.get(job.name)
        return was is not None and bool(_room_for_more(before, was, _used(before)))
    put = any(
        unit[1] == STANDBY and place.generation == done.offset for unit, place in value.places().items()
    )
    return put and before.level < LEFT_ROOM_LEVEL


def _check_given(done: Applied, job: ClusterJob) -> None:
    """What tags, or agents on which others could not run, can bring about is not looked at."""
    before, value, was = done.before, done.after, done.before.jobs.get(job.name)
    if was is None or was.revision != job.revision or job.kept or value.bad or is_tagged(value):
        return
    now = {unit: place for unit, place in value.places().items() if unit[0] == job.name}
    given = {(place.standby, place.stood) for place in now.values() if place.stood_by}
    left = [
        place
        for index, place in enumerate(before.allocations.get(job.name, {}).get(STANDBY, ()))
        if place is not None and (index, place.generation) not in given and _is_as_it_was(done, place)
    ]
    for unit, old in before.places().items():
        new = now.get(unit)
        if unit[0] != job.name or unit[1] == STANDBY or new is None or new.agent == old.agent:
            continue
        require(new.stood_by or not left, GIVEN_TO_A_STANDBY, (unit, old, new, left))


def _is_as_it_was(done: Applied, place: Place) -> bool:
    agent = done.after.usable().get(place.agent)
    return agent is not None and agent.slots == done.before.agents[place.agent].slots
