"""A job is given another number of nodes while the others go on: what is placed, what is kept, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.cluster.canonical import canonical, digest
from kcontrol.core.cluster.diff import diff
from kcontrol.core.cluster.duties import Identity
from kcontrol.core.cluster.entries import ClusterEntry, JobResized, KillJob, Leave, ResizeJob, SubmitJob
from kcontrol.core.cluster.explain import explain, resizing
from kcontrol.core.cluster.model import RESIZE_LEVEL, RESUMED_LEVEL, Place, Replica, TaskSpec
from kcontrol.core.cluster.resize_wards import Resizing, resizings, to_be_said
from kcontrol.wire.cluster_snapshot import replica_of, snapshot_bytes
from tests.unit.core.cluster.made import after, incarnation, joined, rejection


def submit(value: Replica, nodes: int, job: str = "job", package: str = "p") -> SubmitJob:
    return SubmitJob(job, f"{job}-{value.offset}", value.offset, package, (TaskSpec("nodes", nodes, nodes),))


def resize(value: Replica, nodes: int) -> ResizeJob:
    return ResizeJob("job", f"to-{nodes}-{value.offset}", value.offset, nodes)


def seen(value: Replica, nodes: int) -> JobResized:
    """Its pipeline has so many."""
    return JobResized("job", value.jobs["job"].revision, value.offset, nodes)


def running(nodes: int, slots: int = 2) -> Replica:
    value = replace(joined("abc", slots=slots), level=RESIZE_LEVEL)
    return after(value, submit(value, nodes))


def places(value: Replica) -> tuple[Place | None, ...]:
    return value.allocations["job"]["nodes"]


def test_nodes_that_stay_are_left_alone_and_new_ones_are_placed_at_once() -> None:
    one = running(1)
    three = after(one, resize(one, 3))
    assert (len(places(three)), places(three)[0]) == (3, places(one)[0])
    assert three.jobs["job"].revision == one.jobs["job"].revision
    assert diff(one, three)[0] == "job job: 1 -> 3 nodes, once its pipeline's layout has them"
    made = after(three, seen(three, 3))
    assert places(made) == places(three)
    assert (made.jobs["job"].kept, diff(three, made)) == (0, ("job job: its pipeline has 3 nodes",))


def test_nodes_that_are_to_go_stay_until_the_layout_is_without_them() -> None:
    three = running(3)
    asked = after(three, resize(three, 1))
    assert places(asked) == places(three)
    gone = after(asked, seen(asked, 1))
    assert places(gone) == places(three)[:1]


def test_what_was_asked_for_and_taken_back_takes_nothing_away_that_may_have_come_about() -> None:
    one = running(1)
    three = after(one, resize(one, 3))
    back = after(three, resize(three, 1))
    assert places(back) == places(three), "the pipeline may have three by now"
    assert places(after(back, seen(back, 1))) == places(one)
    still = after(back, seen(back, 2))
    assert places(still) == places(three)[:2], "it has two, of which one is to go"


def test_one_that_can_not_be_placed_costs_the_job_nothing() -> None:
    value = replace(joined("a", slots=2), level=RESIZE_LEVEL)
    value = after(value, submit(value, 1))
    more = after(value, resize(value, 3))
    assert places(more)[0] == places(value)[0]
    assert (len(places(more)), explain(more, more.jobs["job"])) == (2, "")
    assert resizing(more, more.jobs["job"]) == "it is to have 3 nodes, and there is room for 2"
    back = after(more, resize(more, 1))
    assert (places(back), back.jobs["job"].kept) == (places(more), 1)
    assert places(after(back, seen(back, 1))) == places(value)


def test_other_code_does_not_take_away_what_the_layout_may_have() -> None:
    three = running(3)
    asked = after(three, resize(three, 1))
    newer = after(asked, submit(asked, 1, package="q"))
    assert len(places(newer)) == 3
    assert newer.jobs["job"].kept == 3


def killed(value: Replica) -> Replica:
    return after(value, KillJob("job", f"kill-{value.offset}", value.offset))


def test_a_job_that_ended_while_it_was_resized_is_looked_at_when_it_is_submitted_again() -> None:
    three = replace(running(3), level=RESUMED_LEVEL)
    asked = after(three, resize(three, 1))
    ended = killed(asked)
    again = after(ended, submit(ended, 3))
    job = again.jobs["job"]
    assert (job.kept, job.most, len(places(again))) == (3, 3, 3)
    [ward] = [one for name in "abc" for one in resizings(again, Identity(name, incarnation(name), 1))]
    assert (ward.nodes, ward.wish) == (3, job.revision), "what was asked for by older entries is made void"
    assert after(again, seen(again, 3)).jobs["job"].kept == 0
    came_about = after(again, seen(again, 1))
    assert len(places(came_about)) == 3, "it had one node by then, and is to have three"
    twice = killed(again)
    assert after(twice, submit(twice, 4)).jobs["job"].kept == 3
    older = replace(ended, level=RESIZE_LEVEL)
    assert after(older, submit(older, 3)).jobs["job"].kept == 0


def test_that_a_job_ended_while_it_was_resized_is_not_forgotten() -> None:
    three = replace(running(3), level=RESUMED_LEVEL)
    asked = after(three, resize(three, 1))
    for value, known in ((asked, {"job"}), (replace(asked, level=RESIZE_LEVEL), set())):
        now = killed(replace(value, policy=replace(value.policy, finished_jobs=1)))
        for name in "de":
            now = after(now, submit(now, 1, name))
            now = after(now, KillJob(name, f"kill-{name}", now.offset))
        assert set(now.jobs) == {"e"} | known


@pytest.mark.parametrize("level", [1, 2])
def test_before_its_level_it_is_no_entry(level: int) -> None:
    value = replace(running(1), level=level)
    assert rejection(value, resize(value, 3)) == rejection(value, seen(value, 3)) == "it needs level 3"


def test_what_does_not_fit_is_rejected() -> None:
    one = running(1)
    three = after(one, resize(one, 3))
    void: list[tuple[Replica, ClusterEntry, str]] = [
        (one, ResizeJob("other", "r", one.offset, 2), "no such job"),
        (one, resize(one, 0), "or none"),
        (one, resize(one, one.policy.job_nodes + 1), "more nodes than"),
        (three, resize(one, 2), "was changed since"),
        (one, seen(one, 1), "no such revision is given"),
        (three, replace(seen(three, 3), revision=1), "no such revision is given"),
        (three, replace(seen(three, 3), as_of=one.offset), "since its pipeline was looked at"),
        (three, replace(seen(three, 3), as_of=three.offset + 1), "since its pipeline was looked at"),
        (three, seen(three, 1), "that is known"),
    ]
    for value, entry, why in void:
        assert why in rejection(value, entry), entry
    elastic = replace(joined("a", slots=2), level=RESIZE_LEVEL)
    wide = SubmitJob("job", "r", elastic.offset, "p", (TaskSpec("nodes", 1, 2),))
    elastic = after(elastic, wide)
    assert "no number of nodes" in rejection(elastic, resize(elastic, 2))


def test_the_same_wish_again_changes_nothing() -> None:
    one = running(1)
    again = after(one, resize(one, 1))
    assert (places(again), again.jobs["job"].kept) == (places(one), 0)
    three = after(one, resize(one, 3))
    twice = after(three, resize(three, 3))
    assert (places(twice), twice.jobs["job"].kept) == (places(three), 1)


def test_its_warden_looks_until_the_value_says_what_the_pipeline_has() -> None:
    one = running(1)
    three = after(one, resize(one, 3))
    first = places(three)[0]
    assert first is not None

    def of(value: Replica, name: str) -> tuple[Resizing, ...]:
        return resizings(value, Identity(name, incarnation(name), 1))

    assert [name for name in "abc" if of(three, name)] == [first.agent]
    assert not any(of(one, name) for name in "abc")
    [ward] = of(three, first.agent)
    assert ward == Resizing(
        *("job", three.jobs["job"].revision, 3, three.offset, three.founded_ms),
        wish=three.jobs["job"].touched,
    )
    assert to_be_said(three, [ward.seen(1)]) == {}, "that is known"
    due = to_be_said(three, [ward.seen(3)])
    assert due == {"job": seen(three, 3)}
    made = after(three, due["job"])
    assert to_be_said(made, due.values()) == {}
    assert not any(of(made, name) for name in "abc")
    other = after(three, resize(three, 2))
    assert to_be_said(other, due.values()) == {}, "the job was changed since"
    assert to_be_said(after(three, KillJob("job", "k", three.offset)), due.values()) == {}
    left = after(three, Leave(first.agent, incarnation(first.agent), first.agent, incarnation(first.agent)))
    assert sum(len(of(left, name)) for name in "abc") == 1, "another one looks on"


def test_a_value_that_was_never_resized_has_the_digest_that_older_versions_compute() -> None:
    one = running(1)
    assert "kept" not in str(canonical(one))
    assert canonical(one.jobs["job"])[-1] == "", "the last that older versions know: the error"  # type: ignore[index]
    three = after(one, resize(one, 3))
    assert digest(three) != digest(replace(three, jobs={"job": replace(three.jobs["job"], kept=2)}))
    assert (three.jobs["job"].kept, three.jobs["job"].most) == (1, 3)


def test_snapshots_of_it_are_of_a_version_that_all_who_know_the_level_can_read() -> None:
    one = running(1)
    three = after(one, resize(one, 3))
    assert replica_of(snapshot_bytes(three)) == three
    before = replace(one, level=2)
    assert replica_of(snapshot_bytes(before)) == before
    assert snapshot_bytes(before)[2:10] != snapshot_bytes(three)[2:10], "another schema"
