"""Random histories of a cluster: admission and movement against exhaustive search, one value whatever the way
that led to it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from random import Random, SystemRandom

import pytest

from kcontrol.core.cluster.canonical import digest
from kcontrol.core.cluster.entries import (
    ClusterEntry,
    Configure,
    Drain,
    KillJob,
    Leave,
    Notify,
    SubmitJob,
)
from kcontrol.core.cluster.jobs import runs
from kcontrol.core.cluster.model import (
    EMPTY,
    Agent,
    ClusterPolicy,
    Place,
    Replica,
    Scheduler,
    TaskSpec,
    Unit,
)
from kcontrol.core.cluster.replica import apply
from kcontrol.core.cluster.schedule.shares import least
from tests.support.patience import HANG_S
from tests.unit.core.cluster.made import incarnation, joined, prepare

HISTORIES = 40
STEPS = 14
Tags = frozenset[str]


def can_place(slots: tuple[tuple[Tags, int], ...], wants: list[Tags]) -> bool:
    """Whether every unit finds a slot with its tags at the same time: all ways are tried."""
    order = sorted(wants, key=lambda tags: (-len(tags), sorted(tags)))

    @cache
    def go(left: tuple[int, ...], at: int) -> bool:
        return at == len(order) or any(
            left[place] > 0 and order[at] <= has and go(_less(left, place), at + 1)
            for place, (has, _) in enumerate(slots)
        )

    return go(tuple(count for _, count in slots), 0)


def _less(left: tuple[int, ...], place: int) -> tuple[int, ...]:
    return (*left[:place], left[place] - 1, *left[place + 1 :])


def most_kept(agents: Mapping[str, Agent], wanted: Mapping[Unit, Tags], before: Mapping[Unit, Place]) -> int:
    """Over all placements of these units: how many can be where they were."""
    names, units = sorted(agents), sorted(wanted)

    @cache
    def go(left: tuple[int, ...], at: int) -> int:
        if at == len(units):
            return 0
        ways = [
            (units[at] in before and before[units[at]].agent == name) + go(_less(left, place), at + 1)
            for place, name in enumerate(names)
            if left[place] and wanted[units[at]] <= frozenset(agents[name].tags)
        ]
        return max(ways, default=-(10**6))

    return go(tuple(agents[name].slots for name in names), 0)


def histories(seed: int) -> Iterator[tuple[Replica, Replica]]:
    """Before and after each step of one."""
    random = Random(seed)
    tagged = random.random() < 0.6
    policy = ClusterPolicy(random.choice(tuple(Scheduler)), 1)
    replica, _ = apply(EMPTY, 0, Configure(policy))
    for step in range(STEPS):
        before, drawn = replica, random.random()
        if drawn < 0.3 or not replica.members:
            if len(replica.members) >= 5:
                continue
            tags = tuple(tag for tag in ("gpu", "ssd") if tagged and random.random() < 0.5)
            replica = joined([f"h{step}"], replica, random.randint(1, 3), tags)
        else:
            entry = _entry(random, replica, drawn, tagged)
            replica, _ = apply(replica, replica.offset + 1, entry)
        yield before, replica


def _entry(random: Random, replica: Replica, drawn: float, tagged: bool) -> ClusterEntry:
    if drawn < 0.42:
        gone = random.choice(replica.members)
        return Leave(gone, incarnation(gone), gone, incarnation(gone))
    if drawn < 0.5:
        return Drain(random.choice(replica.members), random.random() < 0.6)
    if drawn < 0.6:
        return KillJob(random.choice("ABC"), f"k{replica.offset}", replica.offset)
    least = random.randint(1, 3)
    tags = tuple(tag for tag in ("gpu", "ssd") if tagged and random.random() < 0.3)
    tasks = [TaskSpec("nodes", least, random.choice((least, least, least + 2, None)), tags)]
    if random.random() < 0.3:
        tags = ("gpu",) if tagged and random.random() < 0.4 else ()
        tasks.append(TaskSpec("side", 1, random.choice((1, 2)), tags))
    who = (random.choice("ABC"), f"s{replica.offset}", replica.offset, f"p{random.randint(0, 3)}")
    return SubmitJob(*who, tuple(tasks), percentage=random.choice((20, 40, 50, 70)))


def test_placing_is_exact_against_exhaustive_search() -> None:
    first = SystemRandom().randrange(10**6)
    print(f"histories from seed {first}")  # noqa: T201
    for seed in range(first, first + HISTORIES):
        for before, after in histories(seed):
            check_admission(after)
            check_least_movement(before, after)
            check_balance(after)


def check_admission(value: Replica) -> None:
    """A job runs if and only if the least that it needs fits beside those that were admitted before it."""
    slots = tuple((frozenset(agent.tags), agent.slots) for agent in value.usable().values())
    taken: list[Tags] = []
    percent = 0
    by_percentage = value.policy.scheduler is Scheduler.PERCENTAGE
    for job in value.active():
        mine = [frozenset(task.tags) for task in job.open_tasks for _ in range(task.min)]
        fits = can_place(slots, [*taken, *mine]) and not (by_percentage and percent + job.percentage > 100)
        if value.policy.scheduler is Scheduler.GREEDY and not runs(value, job):
            continue  # an earlier one may have taken all
        assert runs(value, job) == fits, (job.name, fits, value)
        if fits and value.policy.scheduler is Scheduler.GREEDY:
            sizes = {
                task.name: len(value.allocations[job.name].get(task.name, ())) for task in job.open_tasks
            }
            mine = [frozenset(task.tags) for task in job.open_tasks for _ in range(sizes[task.name])]
        if fits:
            taken += mine
            percent += job.percentage


def check_least_movement(before: Replica, after: Replica) -> None:
    """With these counts no placement keeps more units where they were."""
    now = after.places()
    same = {
        unit: place
        for unit, place in before.places().items()
        if unit in now and after.jobs[unit[0]].revision < after.offset
    }
    tags = {
        unit: frozenset(next(task.tags for task in after.jobs[unit[0]].tasks if task.name == unit[1]))
        for unit in now
        if runs(after, after.jobs[unit[0]])
    }
    kept = sum(unit in same and same[unit].agent == now[unit].agent for unit in tags)
    assert kept == most_kept(after.usable(), tags, same), (before, after)


def check_balance(value: Replica) -> None:
    """No job could have one more that another, with two more, would give it."""
    jobs = [job for job in value.active() if runs(value, job)]
    if value.policy.scheduler is not Scheduler.BALANCED or any(
        task.tags for job in value.active() for task in job.tasks
    ):
        return
    sizes = {job.name: sum(unit[0] == job.name for unit in value.places()) for job in jobs}
    for poor in jobs:
        places = value.allocations[poor.name]
        full = all(task.max is not None and len(places[task.name]) >= task.max for task in poor.open_tasks)
        for rich in jobs:
            gives = sizes[rich.name] > max(sizes[poor.name] + 1, least(rich))
            assert full or not gives, (sizes, poor.name, rich.name)


def test_a_value_is_the_same_whatever_point_it_was_saved_at() -> None:
    seed = SystemRandom().randrange(10**6)
    print(f"seed {seed}")  # noqa: T201
    entries: list[ClusterEntry] = [Configure(ClusterPolicy(coordinators=1))]
    random = Random(seed)
    for number in range(60):
        name = random.choice("abcde")
        entries.append(random.choice((prepare(name), Notify(name, incarnation(name)), Drain(name, True))))
        entries.append(SubmitJob("A", f"r{number}", number, f"p{number % 3}", (TaskSpec("nodes", 1, None),)))
    values = [EMPTY]
    for offset, entry in enumerate(entries):
        values.append(apply(values[-1], offset, entry)[0])
    for point in random.sample(range(len(entries)), 5):
        value = values[point]
        for offset, entry in enumerate(entries[point:], point):
            value, _ = apply(value, offset, entry)
        assert digest(value) == digest(values[-1])


@pytest.mark.parametrize("hash_seed", ["0", "4711"])
def test_no_digest_depends_on_the_hashes_of_a_process(hash_seed: str) -> None:
    code = (
        "from tests.property.core.test_cluster import histories; from kcontrol.core.cluster.canonical import digest;"
        "print([digest(after) for seed in range(3) for _, after in histories(seed)])"
    )
    here = str([digest(after) for seed in range(3) for _, after in histories(seed)])
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    there = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=True,
    )
    assert there.stdout.strip() == here
