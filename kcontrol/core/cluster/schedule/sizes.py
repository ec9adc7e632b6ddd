"""Which jobs are admitted, and how many units each of their tasks gets.

Jobs are admitted in the order of their submission, each if the least that it needs fits beside those admitted
before it; one that does not fit is passed over. So a later job never takes what an earlier one needs. What is
left is shared by the scheduler's formula.
"""

from __future__ import annotations

from kcontrol.core.cluster.model import ClusterJob, Replica, Scheduler
from kcontrol.core.cluster.schedule.room import Room, Tags, supply_of, tags_of
from kcontrol.core.cluster.schedule.shares import Counts, least, level, shared_out


class Sizes:
    """counts: by admitted job, units by task. beyond: jobs that wait because percentages would be more than
    100 together."""

    def __init__(self, replica: Replica, passed_over: frozenset[str] = frozenset()) -> None:
        self.jobs: list[ClusterJob] = []
        self.counts: dict[str, Counts] = {}
        self.beyond: set[str] = set()
        self._scheduler = replica.policy.scheduler
        self._room = Room(supply_of(replica.usable().values()))
        self._caps: dict[str, Counts] = {}
        self._demand: dict[Tags, int] = {}
        self._admit_all([job for job in replica.active() if job.name not in passed_over and job.open_tasks])

    # --- admission --------------------------------------------------------------------------------------

    def _admit_all(self, jobs: list[ClusterJob]) -> None:
        percent = 0
        for job in jobs:
            if self._scheduler is Scheduler.PERCENTAGE and percent + job.percentage > 100:
                self.beyond.add(job.name)
            elif self._admit(job):
                percent += job.percentage
                if self._scheduler is Scheduler.GREEDY:
                    self._grow()
        if self._scheduler is not Scheduler.GREEDY:
            self._grow()

    def _admit(self, job: ClusterJob) -> bool:
        caps = {}
        for task in job.placed_tasks:
            eligible = self._room.eligible(tags_of(task))
            caps[task.name] = eligible if task.max is None else min(task.max, eligible)
        given = shared_out(job, least(job), caps)
        if given is None or any(given[name] > caps[name] for name in given):
            return False
        if not self._take({job.name: (job, given)}):
            return False
        self.jobs.append(job)
        self._caps[job.name] = caps
        return True

    def _take(self, changes: dict[str, tuple[ClusterJob, Counts]]) -> bool:
        """Other counts for some jobs, if everything still fits."""
        after = dict(self._demand)
        for name, (job, given) in changes.items():
            had = self.counts.get(name, {})
            for task in job.placed_tasks:
                tags, more = tags_of(task), given[task.name] - had.get(task.name, 0)
                after[tags] = after.get(tags, 0) + more
        if not self._room.fits(after):
            return False
        self._demand = after
        self.counts |= {name: given for name, (_, given) in changes.items()}
        return True

    # --- growth -----------------------------------------------------------------------------------------

    def _wanted(self) -> Counts:
        """By job, how many units it should have by the scheduler's formula, if tags don't forbid it."""
        has = {job.name: self._size(job) for job in self.jobs}
        most = {job.name: max(has[job.name], sum(self._caps[job.name].values())) for job in self.jobs}
        if self._scheduler is Scheduler.BALANCED:
            return level(has, most, [job.name for job in self.jobs], self._room.total)
        if self._scheduler is Scheduler.PERCENTAGE:
            shares = {job.name: self._room.total * job.percentage // 100 for job in self.jobs}
            self._fill(has, {name: min(most[name], shares[name]) for name in has})
        self._fill(has, most)
        return has

    def _fill(self, has: Counts, most: Counts) -> None:
        """Up to their most, in the order of precedence, as long as there is something left."""
        spare = self._room.total - sum(has.values())
        for job in self._in_order():
            more = max(0, min(spare, most[job.name] - has[job.name]))
            has[job.name] += more
            spare -= more

    def _in_order(self) -> list[ClusterJob]:
        if self._scheduler is Scheduler.PERCENTAGE:
            return sorted(self.jobs, key=lambda job: (-job.percentage, job.id))
        return self.jobs

    def _size(self, job: ClusterJob) -> int:
        return sum(self.counts[job.name].values())

    def _grow(self) -> None:
        wanted = self._wanted()
        changes = {}
        for job in self.jobs:
            given = shared_out(job, wanted[job.name], self._caps[job.name])
            if wanted[job.name] == self._size(job) or given is None:
                continue
            changes[job.name] = (job, given)
        if not self._take(changes):
            self._grow_one_by_one(wanted)

    def _grow_one_by_one(self, wanted: Counts) -> None:
        """Where tags stand in the way: in the same order, a unit at a time, each only if everything still
        fits."""
        order = {job.name: at for at, job in enumerate(self._in_order())}
        hungry = [job for job in self.jobs if sum(self._caps[job.name].values()) > self._size(job)]
        while hungry:
            if self._scheduler is Scheduler.BALANCED:
                job = min(hungry, key=lambda one: (self._size(one), order[one.name]))
            else:
                job = min(hungry, key=lambda one: (self._size(one) >= wanted[one.name], order[one.name]))
            if not self._grow_by_one(job):
                hungry.remove(job)

    def _grow_by_one(self, job: ClusterJob) -> bool:
        caps = self._caps[job.name]
        while (given := shared_out(job, self._size(job) + 1, caps)) is not None:
            if self._take({job.name: (job, given)}):
                return True
            for name, count in given.items():
                if count > self.counts[job.name][name]:
                    caps[name] = self.counts[job.name][name]
        return False
