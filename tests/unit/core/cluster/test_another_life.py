"""What could not run on a host may be tried there again once its agent has begun another life."""

from __future__ import annotations

from dataclasses import replace

from kcontrol.core.cluster.agent import AgentMachine
from kcontrol.core.cluster.agent_limits import AgentLimits
from kcontrol.core.cluster.duties import Identity
from kcontrol.core.cluster.entries import ClusterEntry, Leave, Prepare, RaiseLevel, SubmitJob, TaskFailed
from kcontrol.core.cluster.model import ANOTHER_LIFE_LEVEL, FIRST_LEVEL, Replica, TaskSpec, bad_key
from kcontrol.core.cluster.ring import watchers
from kcontrol.core.cluster.unit_ends import Hope
from tests.unit.core.cluster.made import after, incarnation, joined

JOB = SubmitJob("job", "r", 0, "p", (TaskSpec("nodes", 1, 1),))
UNIT = ("job", "nodes", 0)
LEVELS = (FIRST_LEVEL, ANOTHER_LIFE_LEVEL)


def failed(value: Replica) -> Replica:
    """Where its node is placed."""
    place = value.places()[UNIT]
    return after(
        value, TaskFailed(*UNIT, place.generation, place.agent, incarnation(place.agent), "no room", False)
    )


def waits_on_two(level: int = ANOTHER_LIFE_LEVEL) -> Replica:
    """Neither host could run it."""
    value = replace(joined("ab"), level=level)
    value = failed(failed(after(value, replace(JOB, as_of=value.offset))))
    assert value.bad == {bad_key(UNIT): ("a", "b")}
    assert UNIT not in value.places()
    return value


def again(agent: str) -> Prepare:
    return Prepare(agent, f"{agent}-2", slots=1, previous=incarnation(agent), levels=LEVELS)


def gone(value: Replica, agent: str) -> Leave:
    by = watchers(value)[agent]
    return Leave(agent, incarnation(agent), by, incarnation(by), "silent")


def test_it_is_placed_there_as_soon_as_its_agent_begins_another_life() -> None:
    value = after(waits_on_two(), again("b"))
    assert value.bad == {bad_key(UNIT): ("a",)}
    assert value.places()[UNIT].agent == "b"


def test_who_is_gone_is_forgotten_and_nobody_else() -> None:
    value = waits_on_two()
    assert after(value, gone(value, "b")).bad == {bad_key(UNIT): ("a",)}


def test_below_its_level_it_stays_as_it_was() -> None:
    value = waits_on_two(ANOTHER_LIFE_LEVEL - 1)
    for entry in (again("b"), gone(value, "b")):
        assert after(value, entry).bad == value.bad


def test_the_level_is_raised_by_whoever_reports_a_failure_if_all_know_it() -> None:
    assert says_first([Prepare("a", "a-1", slots=1, levels=LEVELS)]) == RaiseLevel(2)
    older = Prepare("b", "b-1", slots=0, levels=(FIRST_LEVEL, ANOTHER_LIFE_LEVEL - 1))
    assert isinstance(says_first([Prepare("a", "a-1", slots=1, levels=LEVELS), older]), TaskFailed)


def says_first(joins: list[ClusterEntry]) -> ClusterEntry | None:
    """What an agent of the newest version says of a node that failed on its host."""
    me = Identity("a", "a-1", 1, levels=LEVELS)
    machine = AgentMachine(me, AgentLimits(failures=1), 0)
    for offset, entry in enumerate([*joins, replace(JOB, as_of=0)]):
        machine.read(offset, entry)
    machine.read_to_end(0)
    machine.unit_failed(UNIT, machine.replica.places()[UNIT].generation, "no room", Hope.ELSEWHERE)
    return next(iter(machine._failed()), None)
