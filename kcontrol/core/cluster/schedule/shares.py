"""A number of units shared out among the tasks of a job: greedy, balanced, or by percentage, each within its
bounds."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from kcontrol.core.cluster.model import STANDBY, ClusterJob, Scheduler, TaskSpec

Counts = dict[str, int]
"""Units, by name of a task or of a job."""


def least(job: ClusterJob) -> int:
    """So many units a job needs to run at all."""
    return max(1, sum(task.min for task in job.open_tasks)) if job.open_tasks else 0


def shared_out(job: ClusterJob, n: int, caps: Mapping[str, int]) -> Counts | None:
    """n units over the open tasks, each within its minimum and its cap; None if they can't be. What these can't use is for
    standbys."""
    tasks = job.open_tasks
    lowest = {task.name: task.min for task in tasks}
    highest = {task.name: max(caps[task.name], task.min) for task in tasks}
    beyond = max(0, n - sum(highest.values()))
    if n < sum(lowest.values()) or beyond > (caps[STANDBY] if job.standbys else 0):
        return None
    given = _nodes_shared_out(job, n - beyond, lowest, highest)
    return {**given, STANDBY: beyond} if job.standbys else given


def _nodes_shared_out(
    job: ClusterJob, n: int, lowest: Mapping[str, int], highest: Mapping[str, int]
) -> Counts:
    tasks = job.open_tasks
    match job.task_scheduler:
        case Scheduler.GREEDY:
            return _greedy(tasks, lowest, highest, n)
        case Scheduler.PERCENTAGE:
            return _by_percentage(tasks, lowest, highest, n)
        case Scheduler.BALANCED:
            return level(lowest, highest, [task.name for task in tasks], n)


def level(lowest: Mapping[str, int], highest: Mapping[str, int], order: Sequence[str], n: int) -> Counts:
    """One by one to whoever has least, the earlier first, up to its most: water that finds its level."""
    given, spare = dict(lowest), n - sum(lowest.values())
    heap = [(given[name], at, name) for at, name in enumerate(order) if given[name] < highest[name]]
    heapq.heapify(heap)
    while spare > 0 and heap:
        has, at, name = heapq.heappop(heap)
        given[name] = has + 1
        spare -= 1
        if given[name] < highest[name]:
            heapq.heappush(heap, (has + 1, at, name))
    return given


def _greedy(
    tasks: Sequence[TaskSpec], lowest: Mapping[str, int], highest: Mapping[str, int], n: int
) -> Counts:
    """All that is not needed elsewhere to the earliest task that is not complete."""
    given, spare = dict(lowest), n - sum(lowest.values())
    for task in tasks:
        more = min(spare, highest[task.name] - given[task.name])
        given[task.name] += more
        spare -= more
    return given


def _by_percentage(
    tasks: Sequence[TaskSpec], lowest: Mapping[str, int], highest: Mapping[str, int], n: int
) -> Counts:
    """By largest remainder (Hamilton). Who comes out beyond a bound is set to it, and the others share what
    is left by the same rule; of the two bounds the one that is missed by more is set first, so that the sum
    can still be met."""
    fixed: Counts = {}
    while len(fixed) < len(tasks):
        free = [task for task in tasks if task.name not in fixed]
        left = n - sum(fixed.values())
        if not sum(task.percentage for task in free):
            names = [task.name for task in free]
            rest = {name: lowest[name] for name in names}
            return fixed | level(rest, {name: highest[name] for name in names}, names, left)
        given = _by_remainder(free, left)
        below = {name: lowest[name] for name, count in given.items() if count < lowest[name]}
        above = {name: highest[name] for name, count in given.items() if count > highest[name]}
        if not below and not above:
            return fixed | given
        missing = sum(bound - given[name] for name, bound in below.items())
        beyond = sum(given[name] - bound for name, bound in above.items())
        fixed |= below if missing >= beyond else above
    return fixed


def _by_remainder(tasks: Sequence[TaskSpec], n: int) -> Counts:
    """floor(n * p / sum of p) each, then one more to those with the largest remainder, the earlier first."""
    total = sum(task.percentage for task in tasks)
    given = {task.name: n * task.percentage // total for task in tasks}
    by_rest = sorted(tasks, key=lambda task: -(n * task.percentage % total))
    for task in by_rest[: n - sum(given.values())]:
        given[task.name] += 1
    return given
