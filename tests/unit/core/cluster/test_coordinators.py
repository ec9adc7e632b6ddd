"""A coordinator that can't run on its agent's host is placed elsewhere, once in a life of that agent, if there is a better
host."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.cluster.canonical import digest
from kcontrol.core.cluster.diff import diff
from kcontrol.core.cluster.entries import Configure, Leave, Prepare, SetPolicy, TaskFailed
from kcontrol.core.cluster.model import BOUNDS_LEVEL, COORDINATOR, COORDINATOR_LEVEL, FIRST_LEVEL, Replica
from kcontrol.core.cluster.replica import apply
from kcontrol.core.cluster.ring import watchers
from kcontrol.views.agents_facts import ClusterSeen, agents_of
from kcontrol.wire.cluster_snapshot import replica_of, snapshot_bytes
from tests.unit.core.cluster.made import after, incarnation, joined, rejection

WHY = "ended with code 2: no such directory"


def hosts(names: str, coordinators: int = 1, level: int = COORDINATOR_LEVEL) -> Replica:
    value = joined(names)
    policy = replace(value.policy, coordinators=coordinators)
    return replace(value if policy == value.policy else after(value, Configure(policy)), level=level)


def failed(value: Replica, agent: str, generation: int | None = None) -> TaskFailed:
    [place] = [place for place in value.coordinators if place.agent == agent] or value.coordinators[:1]
    return TaskFailed(
        *COORDINATOR, place.generation if generation is None else generation, agent, incarnation(agent), WHY
    )


def places(value: Replica) -> list[str]:
    return [place.agent for place in value.coordinators]


def gone(value: Replica, agent: str) -> Leave:
    by = watchers(value)[agent]
    return Leave(agent, incarnation(agent), by, incarnation(by), "silent")


def again(agent: str) -> Prepare:
    levels = (FIRST_LEVEL, COORDINATOR_LEVEL)
    return Prepare(agent, f"{agent}-2", slots=1, previous=incarnation(agent), levels=levels)


def test_it_is_placed_on_another_host_by_a_new_generation() -> None:
    value = hosts("abc")
    assert places(value) == ["a"]
    moved = after(value, failed(value, "a"))
    assert places(moved) == ["b"]
    assert moved.coordinators[0].generation == moved.offset
    assert diff(value, moved) == (
        f"agent a: a coordinator can't run there: {WHY}",
        "coordinators on b",
    )


def test_others_stay_where_they_are() -> None:
    value = hosts("abcd", coordinators=2)
    moved = after(value, failed(value, "a"))
    assert places(moved) == ["b", "c"]
    assert moved.coordinators[0] == value.coordinators[1]


def test_where_there_is_no_better_host_it_stays_by_the_same_generation() -> None:
    value = hosts("ab", coordinators=2)
    stuck = after(value, failed(value, "b"))
    assert {*stuck.coordinators} == {*value.coordinators}
    both = after(stuck, failed(stuck, "a"))
    assert {*both.coordinators} == {*value.coordinators}


def test_one_that_came_after_takes_it_over_at_once() -> None:
    value = hosts("ab", coordinators=2)
    value = after(value, failed(value, "b"))
    came = joined("c", replace(value, level=FIRST_LEVEL))
    assert places(came) == ["a", "c"]


def test_all_that_there_is_is_used_even_where_none_could_run() -> None:
    """The host may have been put right meanwhile, and nobody would know."""
    value = hosts("ab")
    value = after(value, failed(value, "a"))
    assert places(after(value, gone(value, "b"))) == ["a"]


def test_it_counts_once_and_only_of_the_one_that_is_placed_there() -> None:
    value = hosts("abc")
    known = after(value, failed(value, "a"))
    assert rejection(known, failed(value, "a")) == "it is not placed so any more"
    assert rejection(value, failed(value, "b")) == "it is not placed so any more"
    assert rejection(value, failed(value, "a", generation=value.offset + 1)) == "it is not placed so any more"
    alone = hosts("a")
    assert rejection(after(alone, failed(alone, "a")), failed(alone, "a")) == "that is known"


def test_below_its_level_it_changes_nothing() -> None:
    value = hosts("abc", level=BOUNDS_LEVEL)
    assert rejection(value, failed(value, "a")) == f"it needs level {COORDINATOR_LEVEL}"


def test_what_was_lacking_is_forgotten_with_the_life_of_the_agent() -> None:
    value = hosts("abc", coordinators=2)
    value = after(value, failed(value, "a"))
    assert value.unable == {"a": WHY}
    assert after(value, gone(value, "b")).unable == {"a": WHY}
    for entry in (again("a"), gone(value, "a")):
        assert after(value, entry).unable == {}


def test_one_that_is_able_again_takes_over_from_one_that_is_not() -> None:
    value = hosts("ab")
    value = after(value, failed(value, "a"))
    value = after(value, failed(value, "b"))
    assert places(value) == ["b"], "there is no better one"
    assert places(after(value, again("a"))) == ["a"]


@pytest.mark.parametrize("coordinators", [1, 2, 3])
def test_what_is_looked_up_and_what_is_computed_whole_are_the_same(coordinators: int) -> None:
    """The quick way is taken where nothing is unplaced, as after all of these."""
    value = hosts("abcde", coordinators=coordinators)
    policy = replace(value.policy, coordinators=coordinators)
    for agent in ("c", "a", "b", "e"):
        for entry in (failed(value, agent), SetPolicy(policy, value.offset), again("c")):
            whole = apply(replace(value, settled=None), value.offset + 1, entry)
            value, why = apply(value, value.offset + 1, entry)
            assert (value, why) == whole
    assert value.settled is not None


def test_a_snapshot_has_it_and_one_of_an_older_level_is_as_it_was() -> None:
    value = hosts("abc")
    known = after(value, failed(value, "a"))
    found = replica_of(snapshot_bytes(known))
    assert found == known
    assert found is not None
    assert digest(found) == digest(known) != digest(replace(known, unable={}))
    older = hosts("abc", level=BOUNDS_LEVEL)
    assert replica_of(snapshot_bytes(older)) == older


def test_people_see_where_none_can_run_and_why() -> None:
    value = hosts("ab")
    shown = agents_of(ClusterSeen(after(value, failed(value, "a"))))
    assert [one.coordinator for one in shown] == [False, True]
    assert [one.coordinator_error for one in shown] == [WHY, ""]
    assert f"no coordinator can run there: {WHY}" in shown[0].text
