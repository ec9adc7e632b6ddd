"""Places that are found by what an entry changes are those that are found by looking at everything."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random, SystemRandom
from typing import Any

import pytest

from kcontrol.core.cluster import replica as applying
from kcontrol.core.cluster.canonical import digest
from kcontrol.core.cluster.entries import (
    ClusterEntry,
    CompleteTask,
    Configure,
    Drain,
    KillJob,
    Leave,
    SubmitJob,
    TaskFailed,
)
from kcontrol.core.cluster.model import EMPTY, ClusterPolicy, Replica, Scheduler, TaskSpec
from kcontrol.core.cluster.replica import apply
from kcontrol.core.cluster.schedule.board import Scheduled
from tests.unit.core.cluster import made
from tests.unit.core.cluster.made import incarnation, joined, prepare

HISTORIES = 10
ENTRIES = 60
TAGS = ("gpu", "ssd")


def some_tags(random: Random, share: float) -> tuple[str, ...]:
    return tuple(tag for tag in TAGS if random.random() < share)


def an_entry(random: Random, value: Replica, tagged: float) -> ClusterEntry:
    """What happens next, mostly such that all jobs have room."""
    name = random.choice(value.members)
    match random.randrange(10):
        case 0 if len(value.members) > 3:
            return Leave(name, incarnation(name), name, incarnation(name), "silent")
        case 1:
            return Drain(name, not value.agents[name].draining)
        case 2:
            return KillJob(random.choice("ABCD"), "k", value.offset)
        case 3:
            return replace(
                prepare(name, value.agents[name].slots, value.agents[name].tags),
                incarnation=incarnation(name),
                previous=incarnation(name),
                lost=random.random() < 0.5,
            )
        case 4 if value.allocations:
            job = value.jobs[random.choice(sorted(value.allocations))]
            return CompleteTask(job.name, job.revision, random.choice(job.tasks).name)
        case 5 if random.random() < 0.1 and value.places():
            (job, task, index), place = random.choice(sorted(value.places().items()))
            return TaskFailed(job, task, index, place.generation, place.agent, incarnation(place.agent), "no")
        case _:
            tasks = [
                TaskSpec(
                    task,
                    random.randint(0, most),
                    None if random.random() < 0.02 else most,
                    some_tags(random, tagged),
                )
                for task in ("nodes", "side")[: random.choice((1, 1, 2))]
                if (most := random.randint(1, 5))
            ]
            who = random.choice("ABCD"), "s", value.offset, random.choice("pq")
            return SubmitJob(*who, tuple(tasks), random.choice(tuple(Scheduler)), random.choice((10, 20, 30)))


def both_ways(value: Replica, offset: int, entry: ClusterEntry) -> tuple[Replica, str]:
    """As `apply`, which says the same of a value of which nothing was looked up before."""
    after, why = apply(value, offset, entry)
    whole, reason = apply(replace(value, settled=None), offset, entry)
    assert (after, why) == (whole, reason), entry
    assert digest(after) == digest(whole)
    return after, why


def test_by_what_changes_is_as_by_looking_at_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    ways: Counter[bool] = Counter()
    settle = applying.settle

    def counted(*given: Any) -> Scheduled | None:
        found = settle(*given)
        ways[found is not None] += 1
        return found

    monkeypatch.setattr(applying, "settle", counted)
    monkeypatch.setattr(made, "apply", both_ways)
    first = SystemRandom().randrange(10**6)
    print(f"histories from seed {first}")  # noqa: T201
    for seed in range(first, first + HISTORIES):
        random = Random(seed)
        tagged = random.choice((0.0, 0.0, 0.2))
        policy = ClusterPolicy(random.choice(tuple(Scheduler)), random.randint(0, 3), job_nodes=50)
        value, _ = both_ways(EMPTY, 0, Configure(policy))
        for number in range(ENTRIES):
            if number < 6 or (random.random() < 0.1 and len(value.members) < 9):
                tags = some_tags(random, 0.5) if tagged else ()
                value = joined([f"h{number}"], value, random.randint(0, 5), tags)
            else:
                value, _ = both_ways(value, value.offset + 1, an_entry(random, value, tagged))
    assert min(ways[True], ways[False]) > HISTORIES, ways
