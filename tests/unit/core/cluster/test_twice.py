"""Every kind of entry, twice in a row, as whoever wrote it may not know that it was heard: the second changes nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from kcontrol.core.cluster.canonical import digest
from kcontrol.core.cluster.entries import (
    Abort,
    Accept,
    ClusterEntry,
    CompleteTask,
    Configure,
    ConfirmSnapshot,
    Drain,
    DrainAgent,
    FitJob,
    JobResized,
    KillJob,
    Leave,
    Notify,
    PeerGc,
    Prepare,
    ProposeSnapshot,
    RaiseLevel,
    ResizeJob,
    SetBounds,
    SetPolicy,
    SetStandbys,
    SubmitJob,
    TaskFailed,
)
from kcontrol.core.cluster.model import LATEST_LEVEL, ClusterPolicy, Replica, TaskSpec
from kcontrol.core.cluster.replica import apply
from tests.unit.core.cluster.made import after, incarnation, joined, prepare

UNIT = ("job", "nodes", 0)


def members() -> Replica:
    return replace(joined("abc", slots=2), level=LATEST_LEVEL)


def submit(value: Replica, nodes: int = 1) -> SubmitJob:
    return SubmitJob("job", "r", value.offset, "p", (TaskSpec("nodes", nodes, nodes),))


def running() -> Replica:
    value = members()
    return after(value, submit(value))


def resize(value: Replica) -> ResizeJob:
    return ResizeJob("job", "to-3", value.offset, 3)


def prepared(entry: Prepare | None = None) -> tuple[Replica, Prepare]:
    """Before it is."""
    value = members()
    return value, replace(entry or prepare("d"), levels=(1, LATEST_LEVEL))


def joining(*more: ClusterEntry) -> Replica:
    value, entry = prepared()
    return after(value, entry, *more)


def proposed(value: Replica) -> ProposeSnapshot:
    return ProposeSnapshot("a", "a-1", value.offset - 1, "sha")


def failed(value: Replica) -> TaskFailed:
    place = value.places()[UNIT]
    return TaskFailed(*UNIT, place.generation, place.agent, incarnation(place.agent), "no Java")


def accepting() -> tuple[Replica, Accept]:
    value = joining(Notify("d", "d-1"))
    by = next(one for one, watched in value.pairs.items() if watched == value.accepted["d"])
    return value, Accept("d", "d-1", by, incarnation(by))


def resized() -> tuple[Replica, JobResized]:
    """Between the two numbers, so that the change goes on."""
    value = running()
    value = after(value, resize(value))
    return value, JobResized("job", value.jobs["job"].revision, value.offset, 2)


def bounded() -> tuple[Replica, FitJob]:
    """A job that follows the size of the cluster: 4 slots with any host away."""
    value = running()
    value = after(value, SetBounds("job", "bounds", value.offset, 1, None, 0))
    return value, FitJob("job", value.jobs["job"].revision, value.offset, 4, anew=False)


def completed() -> tuple[Replica, CompleteTask]:
    """One of two tasks, so that the job goes on."""
    value = members()
    tasks = (TaskSpec("load", 1, 1), TaskSpec("sum", 1, 1))
    value = after(value, SubmitJob("job", "r", value.offset, "p", tasks))
    return value, CompleteTask("job", value.jobs["job"].revision, "load")


def cases() -> list[tuple[Replica, ClusterEntry]]:
    """Each with the value in which it counts."""
    runs, stands, joins = running(), members(), joining()
    before = replace(runs, level=4)
    old = replace(stands, level=1, agents={
        name: replace(one, levels=(1, LATEST_LEVEL)) for name, one in stands.agents.items()
    })  # fmt: skip
    return [
        prepared(),
        prepared(Prepare("b", "b-2", "b-1")),
        prepared(Prepare("b", "b-2", "b-1", lost=True)),
        (joins, Notify("d", "d-1")),
        accepting(),
        (joins, Abort("d", "d-1", "d", "d-1")),
        (stands, Leave("b", "b-1", "b", "b-1", "asked to")),
        (stands, PeerGc("e", "e-1", (1, LATEST_LEVEL))),
        (stands, submit(stands)),
        (runs, submit(runs, 2)),
        (runs, replace(submit(runs), package="another")),
        (runs, replace(submit(runs), request="the same again")),
        (runs, KillJob("job", "k", runs.offset)),
        (runs, resize(runs)),
        resized(),
        (runs, SetStandbys("job", "stand", runs.offset, 1)),
        (runs, SetBounds("job", "bounds", runs.offset, 1, 3, 20)),
        bounded(),
        (bounded()[0], replace(bounded()[1], anew=True)),
        completed(),
        (runs, failed(runs)),
        (runs, replace(failed(runs), useless=True)),
        (before, Drain("b", True)),
        (before, Configure(ClusterPolicy(coordinators=1))),
        (runs, DrainAgent("b", True, runs.offset)),
        (runs, SetPolicy(ClusterPolicy(coordinators=1), runs.offset)),
        (old, RaiseLevel(2)),
        (stands, proposed(stands)),
        (after(stands, proposed(stands)), ConfirmSnapshot("b", "b-1", stands.offset - 1, "sha")),
    ]


CASES = cases()


@pytest.mark.parametrize(("value", "entry"), CASES, ids=[str(entry) for _, entry in CASES])
def test_an_entry_that_comes_twice_in_a_row_counts_once(value: Replica, entry: ClusterEntry) -> None:
    once = after(value, entry)
    assert once.but(offset=value.offset) != value, "it counts"
    twice, _ = apply(once, once.offset + 1, entry)
    assert twice.but(offset=once.offset) == once
    assert digest(twice.but(offset=once.offset)) == digest(once)


def test_every_kind_is_there() -> None:
    assert {type(entry) for _, entry in CASES} == set(get_args(ClusterEntry))
