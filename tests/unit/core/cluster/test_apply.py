"""Entries one by one: what counts, what is rejected, what follows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.cluster.canonical import canonical
from kcontrol.core.cluster.diff import diff
from kcontrol.core.cluster.entries import (
    Abort,
    Accept,
    ClusterEntry,
    CompleteTask,
    Configure,
    ConfirmSnapshot,
    Drain,
    KillJob,
    Leave,
    Notify,
    PeerGc,
    Prepare,
    ProposeSnapshot,
    RaiseLevel,
    SubmitJob,
    TaskFailed,
)
from kcontrol.core.cluster.explain import explain
from kcontrol.core.cluster.model import (
    EMPTY,
    AgentStage,
    ClusterPolicy,
    JobState,
    Mark,
    Place,
    Replica,
    Scheduler,
    TaskSpec,
)
from kcontrol.core.cluster.replica import apply
from tests.unit.core.cluster.made import after, agents_of, incarnation, joined, prepare, rejection, ring_of


def submit(
    replica: Replica, name: str = "job", nodes: int = 1, package: str = "p", tags: tuple[str, ...] = ()
) -> SubmitJob:
    return SubmitJob(
        name, f"r{replica.offset}", replica.offset, package, (TaskSpec("nodes", nodes, nodes, tags),)
    )


def running(nodes: int = 2) -> Replica:
    replica = joined("abc")
    return after(replica, submit(replica, nodes=nodes))


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (Prepare("a", "a-1"), "joining or has joined"),
        (Prepare("a", "a-2"), "another process has this name"),
        (Prepare("a", "a-2", "a-0"), "another process has this name"),
        (Prepare("d", "d-1", levels=(2, 3)), "does not support the cluster's level"),
        (Notify("d", "d-1"), "not known"),
        (Notify("a", "a-1"), "not prepared"),
        (Accept("d", "d-1", "a", "a-1"), "has not notified"),
        (Abort("a", "a-1", "c", "c-1"), "not joining"),
        (Leave("b", "b-0", "a", "a-1"), "new incarnation"),
        (Leave("b", "b-1", "c", "c-1"), "does not watch it"),
        (Leave("b", "b-1", "a", "a-0"), "earlier incarnation"),
        (PeerGc("a", "a-1"), "joining or has joined"),
        (SubmitJob("j", "r", 99, "p", (TaskSpec("nodes"),)), "read what comes after it"),
        (SubmitJob("j", "r", 0, "p", ()), "no task"),
        (SubmitJob("j", "r", 0, "p", (TaskSpec("n", 2, 1),)), "bounds make no sense"),
        (SubmitJob("j", "r", 0, "p", (TaskSpec("n", 1_001),)), "more nodes"),
        (SubmitJob("j", "r", 0, "p", (TaskSpec("n"),), percentage=101), "from 0 to 100"),
        (KillJob("j", "r", 0), "no such job"),
        (CompleteTask("j", 0, "nodes"), "no such revision"),
        (TaskFailed("j", "nodes", 0, 0, "a", "a-1", "e"), "not placed so any more"),
        (Drain("z", True), "no such agent"),
        (Drain("a", False), "nothing to change"),
        (Configure(ClusterPolicy()), "nothing to change"),
        (Configure(ClusterPolicy(beat_ms=0)), "makes no sense"),
        (RaiseLevel(3), "one by one"),
        (RaiseLevel(2), "does not support it yet"),
        (ProposeSnapshot("a", "a-1", 50, "x"), "no newer"),
        (ConfirmSnapshot("a", "a-1", 5, "x"), "nothing like it"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_rejected_and_changes_nothing(entry: ClusterEntry, why: str) -> None:
    replica = ring_of("abc", 10)
    assert why in rejection(replica, entry)
    assert replace(apply(replica, 11, entry)[0], offset=10) == replica


def test_the_next_incarnation_keeps_the_place_and_the_units() -> None:
    before = running()
    renewed = after(before, Prepare("b", "b-2", "b-1"))
    assert renewed.pairs == before.pairs
    assert renewed.places() == before.places()
    assert renewed.agents["b"].incarnation == "b-2"


def test_a_lost_disk_gives_up_the_place_and_the_units() -> None:
    before = running(3)
    lost = after(before, Prepare("b", "b-2", "b-1", lost=True))
    assert "b" not in lost.members
    assert lost.stage("b") is AgentStage.PREPARED
    assert "b" not in agents_of(lost).values()


def test_joiners_wait_in_their_order_and_who_is_thrown_back_goes_to_the_front() -> None:
    replica = after(ring_of("ab"), prepare("c"), prepare("d"), prepare("e"))
    assert replica.stage("c") is AgentStage.PREPARED
    assert replica.waiting == ("d", "e")
    watcher, target = ("a", "b") if replica.prepared["c"] == "b" else ("b", "a")
    gone = after(replica, Leave(watcher, incarnation(watcher), target, incarnation(target)))
    assert gone.prepared == {"c": target}
    assert gone.waiting == ("d", "e")


def test_collectors_are_bounded() -> None:
    small = after(EMPTY, Configure(ClusterPolicy(collectors=2)))
    replica = after(small, *(PeerGc(name, incarnation(name)) for name in "abc"))
    assert replica.collectors == ("b", "c")
    assert set(replica.agents) == {"b", "c"}


def test_the_same_submission_again_changes_nothing_that_runs() -> None:
    before = running()
    again = after(before, replace(submit(before, nodes=2), request="again"))
    assert again.places() == before.places()
    assert again.jobs["job"].revision == before.jobs["job"].revision
    assert diff(before, again) == ("job job: submitted again, unchanged",)


def test_an_old_wish_is_void_and_a_killed_job_stays_killed() -> None:
    replica = joined("a")
    asked = submit(replica)
    replica = after(replica, asked)
    killed = after(replica, KillJob("job", "k", replica.offset))
    assert killed.jobs["job"].state is JobState.KILLED
    assert killed.places() == {}
    assert "was changed since" in rejection(killed, asked)
    back = after(killed, submit(killed))
    assert back.jobs["job"].id == back.offset


def test_an_old_wish_is_void_even_about_a_job_that_is_forgotten() -> None:
    replica = after(joined("a"), Configure(ClusterPolicy(finished_jobs=0)))
    asked = submit(replica)
    replica = after(replica, asked)
    forgotten = after(replica, KillJob("job", "k", replica.offset))
    assert forgotten.jobs == {}
    assert "was changed since" in rejection(forgotten, asked)


def test_another_package_runs_where_the_one_before_did_as_new_processes() -> None:
    before = running()
    asked = submit(before, nodes=2, package="q")
    now = after(before, asked)
    assert agents_of(now) == agents_of(before)
    assert {place.generation for place in now.places().values()} == {now.offset}
    assert now.jobs["job"].id == before.jobs["job"].id


def test_a_job_that_fails_on_several_hosts_has_failed_and_says_where() -> None:
    replica = running(1)
    unit, tried = ("job", "nodes", 0), []
    while replica.jobs["job"].active:
        place = replica.places()[unit]
        tried.append(place.agent)
        failed = TaskFailed(*unit, place.generation, place.agent, incarnation(place.agent), "no Java")
        replica = after(replica, failed)
    assert sorted(tried) == ["a", "b", "c"]
    assert replica.jobs["job"].state is JobState.FAILED
    assert replica.jobs["job"].error == f"node 0 of task nodes failed on {', '.join(tried)}: no Java"


def test_a_failure_that_no_host_would_mend_fails_the_job_at_once() -> None:
    replica = running(1)
    place = replica.places()["job", "nodes", 0]
    who = (place.agent, incarnation(place.agent))
    replica = after(replica, TaskFailed("job", "nodes", 0, place.generation, *who, "bad file", True))
    assert replica.jobs["job"].state is JobState.FAILED


def test_a_drained_host_loses_its_units_and_its_coordinator_and_takes_none() -> None:
    replica = running(3)
    drained = after(replica, Drain("b", True))
    assert "b" not in {place.agent for place in (*drained.places().values(), *drained.coordinators)}
    assert "b" in drained.members
    assert after(drained, Drain("b", False)).usable().keys() == {"a", "b", "c"}


def test_bounded_jobs_complete_task_by_task() -> None:
    replica = joined("ab")
    tasks = (TaskSpec("load", 1, 1), TaskSpec("sum", 1, 1))
    replica = after(replica, SubmitJob("job", "r", replica.offset, "p", tasks))
    revision = replica.jobs["job"].revision
    half = after(replica, CompleteTask("job", revision, "load"))
    assert {unit[1] for unit in half.places()} == {"sum"}
    whole = after(half, CompleteTask("job", revision, "sum"))
    assert whole.jobs["job"].state is JobState.COMPLETED
    assert "no such revision" in rejection(whole, CompleteTask("job", revision, "sum"))


def test_a_level_is_raised_once_everybody_known_supports_it() -> None:
    replica = after(EMPTY, Prepare("a", "a-1", levels=(1, 1)), Prepare("b", "b-1", levels=(1, 2)))
    assert "does not support it yet" in rejection(replica, RaiseLevel(2))
    newer = after(replica, Prepare("a", "a-2", "a-1", levels=(1, 2)), RaiseLevel(2))
    assert newer.level == 2
    assert "does not support the cluster's level" in rejection(newer, Prepare("c", "c-1", levels=(1, 1)))


def test_the_two_levels_choose_differently_and_old_code_would_too() -> None:
    """Which is why code that does not know a level must not apply anything at it."""
    ring = replace(ring_of("abcd", 9), level=2)
    new, _ = apply(ring, 10, Prepare("x", "x-1", levels=(1, 2)), 2)
    old, _ = apply(ring, 10, Prepare("x", "x-1", levels=(1, 2)), 1)
    assert new.prepared != old.prepared


def test_a_snapshot_counts_once_another_member_confirms_it() -> None:
    replica = after(ring_of("ab", 50), ProposeSnapshot("a", "a-1", 40, "sha"))
    assert "who proposed it" in rejection(replica, ConfirmSnapshot("a", "a-1", 40, "sha"))
    assert "nothing like it" in rejection(replica, ConfirmSnapshot("b", "b-1", 40, "other"))
    done = after(replica, ConfirmSnapshot("b", "b-1", 40, "sha"))
    assert done.base == Mark(40, "sha")
    assert diff(replica, done) == ("snapshot at 40 confirmed",)


def test_what_has_no_canonical_form_has_no_place_in_a_value() -> None:
    for value in (1.5, {1, 2}, [1]):
        with pytest.raises(TypeError, match="has no place"):
            canonical(value)
    assert canonical({"b": 1, "a": (Place("x", 1), None)}) == [["a", [["Place", "x", 1], None]], ["b", 1]]


def test_diff_says_in_words_what_an_entry_did() -> None:
    before = running(2)
    gone = after(before, Leave("b", "b-1", "a", "a-1")) if before.pairs["a"] == "b" else before
    changes = diff(before, gone)
    assert "agent b: member -> unknown" in changes
    assert "a watches c" in changes


def test_why_a_job_waits() -> None:
    empty = after(EMPTY, SubmitJob("job", "r", -1, "p", (TaskSpec("nodes", 1, 1),)))
    assert "no agents" in explain(empty, empty.jobs["job"])
    full = running(3)
    full = after(full, submit(full, "second"))
    assert explain(full, full.jobs["job"]) == ""
    assert explain(full, full.jobs["second"]) == (
        "it needs 1 slots of 3; jobs submitted before it have them: job"
    )
    tagged = after(full, submit(full, "third", tags=("gpu",)))
    assert explain(tagged, tagged.jobs["third"]) == "task nodes needs 1 slots with tags gpu; there are 0"
    shared = after(joined("ab"), Configure(ClusterPolicy(scheduler=Scheduler.PERCENTAGE)))
    for name in ("one", "two"):
        asked = SubmitJob(name, name, shared.offset, "p", (TaskSpec("nodes"),), percentage=60)
        shared = after(shared, asked)
    assert explain(shared, shared.jobs["two"]) == "it asks for 60 %, and jobs submitted before it leave 40 %"
