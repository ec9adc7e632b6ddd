"""Jobs that follow the size of the cluster: how many nodes each is to have, and who says so when."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.cluster.agent_limits import AgentLimits
from kcontrol.core.cluster.canonical import digest
from kcontrol.core.cluster.diff import diff
from kcontrol.core.cluster.duties import Identity
from kcontrol.core.cluster.entries import (
    ClusterEntry,
    DrainAgent,
    FitJob,
    JobResized,
    KillJob,
    Leave,
    ResizeJob,
    SetBounds,
    SubmitJob,
)
from kcontrol.core.cluster.fit_wards import FitWards
from kcontrol.core.cluster.fitting import fitting
from kcontrol.core.cluster.model import (
    BOUNDS_LEVEL,
    FIRST_LEVEL,
    STANDBY_LEVEL,
    Bounds,
    ClusterPolicy,
    Replica,
    Scheduler,
    TaskSpec,
)
from kcontrol.views.agents_facts import jobs_of
from kcontrol.wire.cluster_snapshot import replica_of, snapshot_bytes
from tests.unit.core.cluster.made import after, incarnation, joined, rejection


def submit(value: Replica, job: str, nodes: int, package: str = "p") -> SubmitJob:
    return SubmitJob(job, f"{job}-{value.offset}", value.offset, package, (TaskSpec("nodes", nodes, nodes),))


def bounds(
    value: Replica, job: str, least: int = 1, most: int | None = None, percentage: int = 0
) -> SetBounds:
    return SetBounds(job, f"{job}-{value.offset}", value.offset, least, most, percentage)


def fit(value: Replica, job: str, nodes: int, anew: bool = False) -> FitJob:
    return FitJob(job, value.jobs[job].revision, value.offset, nodes, anew)


def hosts(names: str, slots: int = 4, scheduler: Scheduler = Scheduler.BALANCED) -> Replica:
    return replace(joined(names, slots=slots), level=BOUNDS_LEVEL, policy=ClusterPolicy(scheduler=scheduler))


def more(value: Replica, names: str, slots: int = 4, tags: tuple[str, ...] = ()) -> Replica:
    """With these as members, too."""
    return replace(joined(names, replace(value, level=FIRST_LEVEL), slots, tags), level=BOUNDS_LEVEL)


def following(value: Replica, job: str, *asked: int | None, least: int = 1) -> Replica:
    """Submitted with its least. asked: at most, and a percentage."""
    value = after(value, submit(value, job, least))
    most, percentage = (*asked, None, None)[:2]
    return after(value, bounds(value, job, least, most, percentage or 0))


def leave(value: Replica, gone: str) -> Leave:
    by = next(watcher for watcher, watched in value.pairs.items() if watched == gone)
    return Leave(gone, incarnation(gone), by, incarnation(by), "silent")


# --- how many -----------------------------------------------------------------------------------------------


def test_what_remains_when_the_largest_host_is_away_is_shared_out() -> None:
    value = following(hosts("abc"), "a")
    assert fitting(value) == {"a": 8}
    assert fitting(following(value, "b")) == {"a": 4, "b": 4}
    one = following(hosts("a"), "a")
    assert fitting(one) == {"a": 4}, "a host that is alone can't be missed"
    uneven = more(value, "d", 10)
    assert fitting(uneven) == {"a": 12}, "4, 4, 4 and 10 slots, without the 10"


def test_75_percent_of_the_cluster() -> None:
    value = following(hosts("abcd", scheduler=Scheduler.PERCENTAGE), "a", None, 75)
    assert fitting(value) == {"a": 12}, "what nobody else has is for the first that can use it"
    both = following(value, "b", None, 25)
    assert fitting(both) == {"a": 9, "b": 3}, "12 slots, of which 75 and 25 %"
    larger = more(both, "efgh")
    assert fitting(larger) == {"a": 21, "b": 7}, "28 slots"
    capped = after(both, bounds(both, "a", 1, 8, 75))
    assert fitting(capped) == {"a": 8, "b": 4}


def test_greedy_the_first_has_all_that_it_can_use() -> None:
    value = following(following(hosts("abc", scheduler=Scheduler.GREEDY), "a", 6), "b")
    assert fitting(value) == {"a": 6, "b": 2}


def test_what_a_later_job_needs_is_left_to_it() -> None:
    value = following(hosts("abc"), "a", least=2)
    value = after(value, fit(value, "a", 8))
    value = after(value, JobResized("a", value.jobs["a"].revision, value.offset, 8))
    value = after(value, submit(value, "later", 6))
    assert "later" not in value.allocations, "4 slots are left"
    assert fitting(value) == {"a": 2}
    value = after(value, fit(value, "a", 2))
    assert "later" not in value.allocations, "no node is taken away before the layout is without it"
    value = after(value, JobResized("a", value.jobs["a"].revision, value.offset, 2))
    assert len(value.allocations["later"]["nodes"]) == 6


def test_tags_and_drained_hosts_count() -> None:
    value = hosts("ab")
    value = more(value, "c", 4, ("gpu",))
    value = after(value, SubmitJob("a", "q", value.offset, "p", (TaskSpec("nodes", 1, 1, ("gpu",)),)))
    value = after(value, bounds(value, "a"))
    assert fitting(value) == {"a": 1}, "the one host with a GPU may be away: it has its least"
    value = more(value, "d", 3, ("gpu",))
    assert fitting(value) == {"a": 3}
    value = following(hosts("abc"), "a")
    assert fitting(after(value, DrainAgent("c", True, value.offset))) == {"a": 4}


def test_a_host_that_dies_costs_no_node_its_room() -> None:
    value = following(hosts("abc"), "a")
    value = after(value, fit(value, "a", 8))
    value = after(value, JobResized("a", value.jobs["a"].revision, value.offset, 8))
    for gone in "abc":
        assert len(after(value, leave(value, gone)).places()) == 8
    assert fitting(after(value, leave(value, "c"))) == {"a": 4}


# --- entries ------------------------------------------------------------------------------------------------


def test_who_stays_goes_on_or_all_begin_anew() -> None:
    value = following(hosts("abc"), "a", least=2)
    before = value.allocations["a"]["nodes"]
    on = after(value, fit(value, "a", 8))
    assert on.allocations["a"]["nodes"][:2] == before
    assert (on.jobs["a"].kept, on.jobs["a"].most, on.jobs["a"].revision) == (2, 8, value.jobs["a"].revision)
    assert diff(value, on)[0] == "job a: 2 -> 8 nodes, once its pipeline's layout has them"
    anew = after(value, fit(value, "a", 8, anew=True))
    job, places = anew.jobs["a"], anew.allocations["a"]["nodes"]
    assert (job.kept, job.nodes, job.revision, job.id) == (0, 8, anew.offset, value.jobs["a"].id)
    assert all(place is not None and place.generation == anew.offset for place in places)
    assert job.bounds == Bounds(2)


def test_what_the_cluster_has_no_room_for_by_now_does_not_count() -> None:
    value = following(hosts("abc"), "a", least=2)
    entry = fit(value, "a", 8)
    smaller = after(value, leave(value, "c"))
    assert rejection(smaller, entry) == "it is to have 4 nodes by now"
    grown = after(smaller, fit(smaller, "a", 4))
    assert rejection(grown, fit(grown, "a", 3)) == "it is to have 4 nodes by now"
    assert rejection(grown, entry) == "the job was changed since its pipeline was looked at"
    assert rejection(value, replace(entry, as_of=value.offset + 1)) == (
        "it says that it has read what comes after it"
    )
    larger = more(value, "d")
    assert not rejection(larger, replace(entry, as_of=larger.offset)), (
        "it may have less than there is room for"
    )


def test_one_change_at_a_time_unless_what_is_waited_for_has_no_room_any_more() -> None:
    value = following(hosts("abc"), "a", least=2)
    grows = after(value, fit(value, "a", 8))
    larger = more(grows, "d")
    assert rejection(larger, fit(larger, "a", 12)) == "it is being given another number of nodes"
    smaller = after(grows, leave(grows, "c"))
    back = after(smaller, fit(smaller, "a", 4))
    assert (back.jobs["a"].nodes, back.jobs["a"].kept, back.jobs["a"].most) == (4, 2, 8)


def test_growth_that_has_no_room_any_more_is_taken_back_by_who_begins_anew_as_well() -> None:
    value = following(hosts("abc"), "a", least=2)
    grows = after(value, fit(value, "a", 8))
    smaller = after(grows, leave(grows, "c"))
    back = after(smaller, fit(smaller, "a", 4, anew=True))
    job = back.jobs["a"]
    assert (job.nodes, job.revision) == (4, back.offset)
    assert (job.kept, job.most) == (2, 8), "its pipeline may have got 8 by now: its warden looks"


def test_a_layout_is_changed_only_while_all_nodes_run() -> None:
    value = following(hosts("ab", slots=2), "a", least=3)
    value = after(value, submit(value, "b", 1))
    lost = after(value, leave(value, "b"))
    assert fitting(lost) == {"a": 3}
    roomy = replace(lost, jobs={**lost.jobs, "a": replace(lost.jobs["a"], bounds=Bounds(1))})
    assert rejection(roomy, fit(roomy, "a", 1)).startswith("its nodes do not all run")
    anew = after(roomy, fit(roomy, "a", 1, anew=True))
    assert len(anew.allocations["a"]["nodes"]) == 1, "who keeps nothing runs again with as many as have room"


def test_who_says_a_number_does_not_follow_the_cluster_any_more() -> None:
    value = following(hosts("abc"), "a", None, 0, least=2)
    assert value.jobs["a"].bounds == Bounds(2)
    same = after(value, ResizeJob("a", "q", value.offset, 2))
    assert (same.jobs["a"].bounds, same.jobs["a"].kept) == (None, 0)
    assert after(value, ResizeJob("a", "q", value.offset, 3)).jobs["a"].bounds is None
    fixed = after(value, bounds(value, "a", 2, 2))
    assert fixed.jobs["a"].bounds is None
    assert diff(value, fixed)[0] == "job a: 2 nodes, whatever the size of the cluster"


def test_other_code_goes_on_following() -> None:
    value = following(hosts("abc"), "a", 5, 75, least=2)
    assert not rejection(value, submit(value, "a", 2))
    again = after(value, submit(value, "a", 2))
    assert again.jobs["a"].revision == value.jobs["a"].revision, "the same again"
    other = after(value, submit(value, "a", 2, "other"))
    assert (other.jobs["a"].bounds, other.jobs["a"].percentage) == (Bounds(2, 5), 75)
    assert after(value, submit(value, "a", 6, "other")).jobs["a"].bounds is None
    ended = after(value, KillJob("a", "q", value.offset))
    assert after(ended, submit(ended, "a", 2)).jobs["a"].bounds is None


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ((3, 2, 0), "the bounds of its nodes make no sense, or are more than a job may have"),
        ((0, 2, 0), "the bounds of its nodes make no sense, or are more than a job may have"),
        ((1, 1_001, 0), "the bounds of its nodes make no sense, or are more than a job may have"),
        ((3, None, 0), "it has 2 nodes, which is not between these bounds"),
        ((1, None, 101), "a percentage is from 0 to 100"),
        ((1, None, 60), "other jobs leave 50 %"),
    ],
)
def test_bounds_that_make_no_sense_are_rejected(asked: tuple[int, int | None, int], why: str) -> None:
    value = following(hosts("abc", scheduler=Scheduler.PERCENTAGE), "b", None, 50)
    value = after(value, submit(value, "a", 2))
    assert rejection(value, bounds(value, "a", *asked)) == why


def test_an_older_level_knows_none_of_it() -> None:
    value = after(hosts("abc"), submit(hosts("abc"), "a", 1))
    old = replace(value, level=STANDBY_LEVEL)
    entries: tuple[ClusterEntry, ...] = (bounds(old, "a"), fit(old, "a", 2))
    for entry in entries:
        assert rejection(old, entry) == f"it needs level {BOUNDS_LEVEL}"
    later = {name: replace(job, bounds=Bounds(1)) for name, job in value.jobs.items()}
    assert digest(value) != digest(replace(value, jobs=later))


def test_bounds_are_in_snapshots_of_their_level() -> None:
    value = following(hosts("abc"), "a", 5, 75)
    assert replica_of(snapshot_bytes(value)) == value
    assert replica_of(snapshot_bytes(following(hosts("abc"), "b"))) == following(hosts("abc"), "b")


# --- who says it, and when ----------------------------------------------------------------------------------


def me(name: str) -> Identity:
    return Identity(name, incarnation(name), 4)


def test_its_warden_says_it_once_it_has_lasted() -> None:
    steady_ms = AgentLimits().steady_ms
    value = following(hosts("abc"), "a", least=2)
    place = value.allocations["a"]["nodes"][0]
    assert place is not None
    wards, others = FitWards(steady_ms), FitWards(steady_ms)
    other = next(name for name in "abc" if name != place.agent)
    assert wards.look(value, me(place.agent), 0) == ()
    assert wards.look(value, me(place.agent), steady_ms - 1) == ()
    smaller = after(value, leave(value, next(n for n in "abc" if n not in (place.agent, other))))
    assert wards.look(smaller, me(place.agent), steady_ms) == (), "it is another number since"
    assert wards.look(value, me(place.agent), steady_ms + 1) == ()
    [one] = wards.look(value, me(place.agent), 2 * steady_ms + 1)
    assert (one.nodes, one.has, one.least) == (8, 2, 2)
    assert others.look(value, me(other), 0) == others.look(value, me(other), 10 * steady_ms) == ()
    wards.can_have(one, 6, anew=False)
    assert wards.due(value) == [fit(value, "a", 6)]
    assert wards.due(after(value, fit(value, "a", 6))) == []
    assert wards.due(value) == []


def test_people_see_what_it_follows() -> None:
    value = following(hosts("abc"), "a", None, 75, least=2)
    [facts] = jobs_of(value)
    assert facts.bounds is not None
    assert (facts.nodes, facts.bounds.least, facts.bounds.most) == (2, 2, None)
    assert (facts.bounds.percentage, facts.bounds.room) == (75, 8)
    assert facts.text.endswith(
        "; from 2 to as many nodes as there is room for, 75 % of the cluster; the cluster has room for 8, and it has 2"
    )
