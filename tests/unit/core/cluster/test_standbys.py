"""Processes that stand by: where they are placed, who is given one when a node loses its place, and what fails with one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.cluster.canonical import canonical, digest
from kcontrol.core.cluster.diff import diff
from kcontrol.core.cluster.duties import Identity
from kcontrol.core.cluster.entries import (
    ClusterEntry,
    DrainAgent,
    KillJob,
    Leave,
    ResizeJob,
    SetStandbys,
    SubmitJob,
    TaskFailed,
)
from kcontrol.core.cluster.explain import explain
from kcontrol.core.cluster.model import (
    AS_OF_LEVEL,
    LEFT_ROOM_LEVEL,
    STANDBY,
    STANDBY_LEVEL,
    Place,
    Replica,
    TaskSpec,
    Unit,
)
from kcontrol.core.cluster.work import RunningUnit, work
from kcontrol.wire.cluster_snapshot import replica_of, snapshot_bytes
from tests.unit.core.cluster.made import after, agents_of, incarnation, joined, rejection

JOB = "job"


def submit(value: Replica, nodes: int, job: str = JOB, package: str = "p") -> SubmitJob:
    return SubmitJob(job, f"{job}-{value.offset}", value.offset, package, (TaskSpec("nodes", nodes, nodes),))


def wish(value: Replica, standbys: int, job: str = JOB) -> SetStandbys:
    return SetStandbys(job, f"stand-{value.offset}", value.offset, standbys)


def standing(names: str, nodes: int, standbys: int = 1, slots: int = 2) -> Replica:
    value = replace(joined(names, slots=slots), level=STANDBY_LEVEL)
    value = after(value, submit(value, nodes))
    return after(value, wish(value, standbys))


def comes(value: Replica, name: str, slots: int, tags: tuple[str, ...] = ()) -> Replica:
    """One more host."""
    return replace(joined(name, replace(value, level=1), slots=slots, tags=tags), level=value.level)


def dies(value: Replica, name: str) -> Replica:
    by = next(one for one, watched in value.pairs.items() if watched == name)
    return after(value, Leave(name, incarnation(name), by, incarnation(by), "silent"))


def node(value: Replica, index: int = 0) -> Place:
    place = value.allocations[JOB]["nodes"][index]
    assert place is not None
    return place


def standbys(value: Replica, job: str = JOB) -> tuple[Place | None, ...]:
    return value.allocations[job].get(STANDBY, ())


def standby(value: Replica, index: int = 0) -> Place:
    place = standbys(value)[index]
    assert place is not None
    return place


def failed(value: Replica, unit: Unit, useless: bool = False) -> TaskFailed:
    place = value.places()[unit]
    return TaskFailed(*unit, place.generation, place.agent, incarnation(place.agent), "why", useless)


def test_a_standby_is_where_no_node_of_its_job_is() -> None:
    value = standing("abc", nodes=2)
    assert standby(value).agent not in {node(value, 0).agent, node(value, 1).agent}


def test_beside_a_node_it_stays_only_until_another_host_has_room() -> None:
    value = standing("ab", nodes=2)
    assert standby(value).agent in {node(value, 0).agent, node(value, 1).agent}, "better than none"
    more = comes(value, "c", slots=2)
    assert standby(more).agent == "c"
    assert (node(more, 0), node(more, 1)) == (node(value, 0), node(value, 1))


def test_when_a_host_dies_its_node_is_the_standbys_process_and_another_one_stands_by() -> None:
    value = standing("abc", nodes=1)
    was, stood = node(value), standby(value)
    dead = dies(value, was.agent)
    assert node(dead) == Place(stood.agent, dead.offset, 0, stood.generation)
    assert standby(dead).agent not in {was.agent, stood.agent}
    assert (
        f"job/nodes/0 on {stood.agent} (generation {dead.offset}), was on {was.agent}, by the process of standby 0"
        in diff(value, dead)
    )


def test_the_death_of_the_last_free_slots_gives_the_node_the_standby_all_the_same() -> None:
    value = standing("ab", nodes=1, slots=1)
    stood = standby(value)
    dead = dies(value, node(value).agent)
    assert (node(dead).agent, node(dead).stood) == (stood.agent, stood.generation)
    assert standbys(dead) == ()
    assert explain(dead, dead.jobs[JOB]) == ""
    back = comes(dead, "c", slots=1)
    assert (node(back), standby(back).agent) == (node(dead), "c")


def test_who_stands_by_still_goes_on_under_its_index() -> None:
    value = standing("abc", nodes=1, standbys=2, slots=1)
    second = standby(value, 1)
    dead = dies(value, node(value).agent)
    assert standbys(dead) == (None, second)


def test_a_drained_hosts_node_goes_to_the_standby_too() -> None:
    value = standing("abc", nodes=1)
    stood = standby(value)
    drained = after(value, DrainAgent(node(value).agent, True, value.offset))
    assert (node(drained).agent, node(drained).stood) == (stood.agent, stood.generation)


def test_while_the_number_of_nodes_is_changed_nothing_is_given_to_a_standby() -> None:
    value = standing("abc", nodes=1)
    resized = after(value, ResizeJob(JOB, "r", value.offset, 2))
    assert not any(place.stood_by for place in dies(resized, node(value).agent).places().values())


def test_no_job_waits_for_a_standby_and_nodes_take_its_slot() -> None:
    value = standing("ab", nodes=1, standbys=3, slots=1)
    assert len(standbys(value)) == 1
    other = after(value, submit(value, 1, "other"))
    assert explain(other, other.jobs["other"]) == ""
    assert standbys(other) == ()
    ended = after(other, KillJob("other", "k", other.offset))
    assert len(standbys(ended)) == 1


def test_room_that_tags_keep_one_standby_from_is_for_another() -> None:
    value = replace(joined("ab", tags=("gpu",)), level=STANDBY_LEVEL)
    value = after(value, replace(submit(value, 1), tasks=(TaskSpec("nodes", 1, 1, ("gpu",)),)))
    value = after(value, submit(value, 1, "other"))
    value = comes(value, "c", slots=1)
    value = after(value, wish(value, 1))
    assert standbys(value) == (), "it may not run where room is"
    value = after(value, wish(value, 1, "other"))
    assert [place and place.agent for place in standbys(value, "other")] == ["c"]
    again = after(value, wish(value, 1))
    assert standbys(again, "other") == standbys(value, "other")


def where(value: Replica, job: str) -> list[str | None]:
    return [place and place.agent for place in standbys(value, job)]


def leaves_room(level: int) -> Replica:
    """Two stand by for a job without tags, of which one is given up; the other is beside a node, and moves to where that was.
    The standby of a job with tags may only run where this one came from."""
    value = replace(joined("c", tags=("gpu",)), level=level)
    value = after(value, replace(submit(value, 1, "other"), tasks=(TaskSpec("nodes", 1, 1, ("gpu",)),)))
    value = comes(value, "a", slots=2, tags=("gpu",))
    value = after(value, submit(value, 1))
    value = after(value, wish(value, 2))
    value = comes(value, "b", slots=1)
    value = after(value, wish(value, 1, "other"))
    assert (node(value).agent, where(value, JOB), where(value, "other")) == ("a", ["a", "b"], [])
    return after(value, wish(value, 1))


def test_the_room_that_a_standby_leaves_is_for_one_that_has_found_none() -> None:
    value = leaves_room(LEFT_ROOM_LEVEL)
    assert (where(value, JOB), where(value, "other")) == (["b"], ["a"])


def test_below_its_level_that_room_waits_for_the_next_entry_that_places() -> None:
    value = leaves_room(LEFT_ROOM_LEVEL - 1)
    assert (where(value, JOB), where(value, "other")) == (["b"], [])
    assert where(after(value, wish(value, 1)), "other") == ["a"]


def test_new_code_is_run_by_new_processes_of_standbys_as_well() -> None:
    value = standing("abc", nodes=1)
    newer = after(value, submit(value, 1, package="q"))
    assert standby(newer) == Place(standby(value).agent, newer.offset)
    assert newer.jobs[JOB].standbys == 1
    assert node(dies(value, node(value).agent)).stood_by
    dead = dies(value, node(value).agent)
    assert not node(after(dead, submit(dead, 1, package="q"))).stood_by, "that process has the old code"


def test_a_standby_that_can_not_run_is_tried_elsewhere_and_given_up_but_fails_no_job() -> None:
    value = standing("abcd", nodes=1)
    tried = [standby(value).agent]
    for _ in range(2):
        value = after(value, failed(value, (JOB, STANDBY, 0)))
        tried.append(standby(value).agent)
    assert len(set(tried)) == 3
    over = after(value, failed(value, (JOB, STANDBY, 0)))
    job = over.jobs[JOB]
    assert (job.active, job.standbys, standbys(over), over.bad) == (True, 0, (), {})
    assert job.error == f"a standby failed on {', '.join(tried)}: why"
    assert "job job: 0 standbys: a standby failed" in diff(value, over)[0]
    again = after(over, wish(over, 1))
    assert (again.jobs[JOB].error, len(standbys(again))) == ("", 1)
    useless = after(again, failed(again, (JOB, STANDBY, 0), useless=True))
    assert (useless.jobs[JOB].active, useless.jobs[JOB].standbys) == (True, 0)
    assert after(useless, KillJob(JOB, "k", useless.offset)).jobs[JOB].error == ""


def refused() -> list[tuple[Replica, ClusterEntry, str]]:
    value = standing("ab", nodes=1)
    elastic = SubmitJob("elastic", "e", value.offset, "p", (TaskSpec("nodes", 1, 2),))
    named = SubmitJob("named", "n", value.offset, "p", (TaskSpec(STANDBY, 1, 1),))
    both = after(value, elastic)
    both = after(both, replace(named, as_of=both.offset))
    older = replace(value, level=AS_OF_LEVEL)
    return [
        (older, wish(value, 1), f"it needs level {STANDBY_LEVEL}"),
        (value, wish(value, 1, "nothing"), "no such job is active"),
        (value, wish(value, -1), "more standbys than a job may have nodes"),
        (value, wish(value, 1_001), "more standbys than a job may have nodes"),
        (value, replace(wish(value, 2), as_of=0), "the job was changed since this was asked for"),
        (both, wish(both, 1, "elastic"), "it has no number of nodes that is given"),
        (both, wish(both, 1, "named"), "it has no number of nodes that is given"),
    ]


@pytest.mark.parametrize(("value", "entry", "why"), refused())
def test_what_makes_no_sense_is_rejected(value: Replica, entry: ClusterEntry, why: str) -> None:
    assert rejection(value, entry) == why


def test_the_process_that_stood_by_is_the_node_and_no_other_is_started() -> None:
    value = standing("abc", nodes=1)
    stood = standby(value)
    dead = dies(value, node(value).agent)
    me = Identity(stood.agent, incarnation(stood.agent), 2)
    one = RunningUnit((JOB, STANDBY, 0), stood.generation)
    found = work(dead, me, [one], 0, 1)
    assert found.given == ((one, (JOB, "nodes", 0), node(dead)),)
    assert (found.start, found.stop, found.handed_over) == ((), (), ())
    is_node = RunningUnit((JOB, "nodes", 0), dead.offset)
    assert work(dead, me, [is_node], 0, 1).start == ()
    assert work(dead, me, [], 0, 1).start == (((JOB, "nodes", 0), node(dead)),), "it had died meanwhile"
    other = RunningUnit((JOB, STANDBY, 0), stood.generation - 1)
    assert work(dead, me, [other], 0, 1).given == (), "that is an older one"


def test_a_value_with_standbys_comes_back_and_older_values_look_as_they_did() -> None:
    value = standing("abc", nodes=1)
    dead = dies(value, node(value).agent)
    found = replica_of(snapshot_bytes(dead))
    assert found == dead
    assert found is not None
    assert digest(found) == digest(dead)
    text = repr(canonical(replace(joined("ab"), level=AS_OF_LEVEL)))
    assert STANDBY not in text


def test_where_everything_runs_is_the_same_with_any_number_of_standbys() -> None:
    value = standing("abc", nodes=2, standbys=0)
    nodes = agents_of(value)
    for wanted in (1, 2, 0):
        value = after(value, wish(value, wanted))
        assert {unit: at for unit, at in agents_of(value).items() if unit[1] != STANDBY} == nodes
        assert len([place for place in standbys(value) if place]) == wanted if wanted else not standbys(value)
