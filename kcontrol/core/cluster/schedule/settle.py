"""Places after an entry that changes little of a settled value, by what it changes alone.

Where all jobs have all that they can use, before and after, what is placed stays, except on an agent that is gone and of a
job that was changed; so only those are looked at. In any other case nothing is said, and `schedule` computes everything:
both come to the same, which a test compares after every entry of random histories.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterable

from kcontrol.core.cluster.model import Agent, Allocations, ClusterJob, Place, Replica, TaskSpec
from kcontrol.core.cluster.schedule.board import Board, Load, Scheduled, has_room_for_all, load
from kcontrol.core.cluster.schedule.keepers import chosen
from kcontrol.core.cluster.schedule.room import Tags, tags_of


class _NotSettledError(Exception):
    """It is not seen from a few changes what becomes of the places. Never leaves `settle`."""


def settle(
    board: Board, replica: Replica, offset: int, agents: Iterable[str], jobs: Iterable[str]
) -> Scheduled | None:
    """agents, jobs: names of those that are other than on the board, or may be. None: look at everything."""
    try:
        return _Settling(board, replica, offset).run(sorted(agents), sorted(jobs))
    except _NotSettledError:
        return None


class _Settling:
    """The board as it will be. Changed places first lie in `used` alone; `free` follows before anything is looked for in
    it."""

    def __init__(self, board: Board, replica: Replica, offset: int) -> None:
        self._replica, self._offset = replica, offset
        self._agents = dict(board.agents)
        self._used, self._jobs_on = dict(board.used), dict(board.jobs_on)
        self._free: dict[Tags, list[Load]] = {}
        self._board = board
        self._supply, self._demand = dict(board.supply), dict(board.demand)
        self._jobs, self._percent = dict(board.jobs), board.percent
        self._loads: dict[str, Load | None] = {}
        """How agents whose use has changed are in `free` still."""
        self._places: dict[str, dict[str, list[Place | None]]] = {}
        """By job that is looked at and task."""

    def run(self, agents: list[str], jobs: list[str]) -> Scheduled:
        hit = set(jobs)
        for name in agents:
            hit.update(self._look_at_agent(name))
        changed = [one for name in sorted(hit) if (one := self._look_at_job(name)) is not None]
        if not has_room_for_all(self._replica, self._supply, self._demand, self._percent):
            raise _NotSettledError
        changed.sort(key=lambda job: job.id)
        for job in changed:
            self._keep(job)
        self._tell_free()
        for job in changed:
            self._fill(job)
        free = {tags: tuple(loads) for tags, loads in self._free.items()}
        allocations = self._allocations(hit)
        board = Board(
            *(self._agents, self._used, self._jobs_on, allocations, {**self._board.free, **free}),
            *(self._supply, self._demand, self._jobs, self._percent),
        )
        return Scheduled(allocations, self._coordinators(), board)

    # --- what has changed -----------------------------------------------------------------------------------

    def _look_at_agent(self, name: str) -> tuple[str, ...]:
        """Jobs that have lost a place."""
        was, is_ = self._agents.get(name), self._usable(name)
        if was is not None and is_ is not None:
            if (was.slots, was.tags) != (is_.slots, is_.tags):
                raise _NotSettledError
            return ()
        if is_ is not None:
            self._agents[name], self._used[name] = is_, 0
            self._supply[tags_of(is_)] = self._supply.get(tags_of(is_), 0) + is_.slots
            self._loads[name] = None
        if was is None:
            return ()
        self._loads[name] = self._load(name)
        del self._agents[name]
        del self._used[name]
        self._supply[tags_of(was)] -= was.slots
        return self._jobs_on.pop(name, ())

    def _usable(self, name: str) -> Agent | None:
        agent = self._replica.agents.get(name)
        return None if agent is None or agent.draining or not self._replica.is_member(name) else agent

    def _look_at_job(self, name: str) -> ClusterJob | None:
        """Takes its units from the board. None if it is not active any more."""
        was, is_ = self._jobs.pop(name, None), self._replica.jobs.get(name)
        if was is not None:
            self._count(was, -1)
        self._take(name)
        if is_ is None or not is_.active:
            return None
        if is_.standbys:
            raise _NotSettledError
        self._count(is_, 1)
        self._jobs[name] = is_
        return is_

    def _count(self, job: ClusterJob, sign: int) -> None:
        self._percent += sign * job.percentage
        for task in job.open_tasks:
            tags = tags_of(task)
            self._demand[tags] = self._demand.get(tags, 0) + sign * _most(task)

    def _take(self, job: str) -> None:
        for places in self._board.allocations.get(job, {}).values():
            for place in places:
                if place is not None and place.agent in self._agents:
                    self._use(job, place.agent, -1)

    # --- use of agents --------------------------------------------------------------------------------------

    def _use(self, job: str, agent: str, sign: int) -> None:
        if agent not in self._loads:
            self._loads[agent] = self._load(agent)
        self._used[agent] += sign
        on = self._jobs_on.get(agent, ())
        self._jobs_on[agent] = (*on, job) if sign > 0 else _without(on, job)

    def _load(self, agent: str) -> Load | None:
        """None without room."""
        one = self._agents[agent]
        return load(self._used[agent], one) if self._used[agent] < one.slots else None

    def _loads_with(self, tags: Tags) -> list[Load]:
        found = self._free.get(tags)
        if found is None:
            found = self._free[tags] = list(self._board.free.get(tags, ()))
        return found

    def _tell_free(self) -> None:
        """From here on `free` is as `used` says."""
        for agent, was in self._loads.items():
            tags = tags_of(self._agents.get(agent) or self._board.agents[agent])
            if was is not None:
                _remove(self._loads_with(tags), was)
            if agent in self._agents and (now := self._load(agent)) is not None:
                insort(self._loads_with(tags), now)
        self._loads.clear()

    # --- what stays, and what is missing --------------------------------------------------------------------

    def _keep(self, job: ClusterJob) -> None:
        """As `Placing.keep`."""
        self._places[job.name] = {task.name: self._keep_task(job, task) for task in job.open_tasks}

    def _keep_task(self, job: ClusterJob, task: TaskSpec) -> list[Place | None]:
        now, count = self._replica.allocations.get(job.name, {}).get(task.name, ()), _most(task)
        places: list[Place | None] = [*now[:count], *[None] * (count - len(now))]
        for index, place in enumerate(places):
            if place is not None and self._may_run(task, place.agent):
                self._use(job.name, place.agent, 1)
            else:
                places[index] = None
        spare = [place.agent for place in now[count:] if place is not None]
        spare = [agent for agent in spare if self._may_run(task, agent)]
        for index in [at for at, place in enumerate(places) if place is None][: len(spare)]:
            places[index] = Place(spare[0], self._offset)
            self._use(job.name, spare.pop(0), 1)
        return places

    def _may_run(self, task: TaskSpec, agent: str) -> bool:
        has = self._agents.get(agent)
        return has is not None and (not task.tags or tags_of(task) <= tags_of(has))

    def _fill(self, job: ClusterJob) -> None:
        """As `Placing.fill`: where fewest of the same job are, then where most room is."""
        mine = Counter(
            place.agent for places in self._places[job.name].values() for place in places if place is not None
        )
        holes = [
            (index, at, task)
            for at, task in enumerate(job.open_tasks)
            for index, place in enumerate(self._places[job.name][task.name])
            if place is None
        ]
        for index, _, task in sorted(holes, key=lambda one: one[:2]):
            agent = self._best(mine, tags_of(task))
            self._places[job.name][task.name][index] = Place(agent, self._offset)
            mine[agent] += 1
            self._use(job.name, agent, 1)
            self._tell_free()

    def _best(self, mine: Counter[str], tags: Tags) -> str:
        others = [
            found
            for has in self._supply
            if tags <= has
            and (found := next((one for one in self._loads_with(has) if one[1] not in mine), None))
            is not None
        ]
        if others:
            return min(others)[1]
        with_some = [
            (count, room, agent)
            for agent, count in mine.items()
            if tags <= tags_of(self._agents[agent]) and (room := self._load(agent)) is not None
        ]
        if not with_some:
            raise _NotSettledError
        return min(with_some)[2]

    # --- the result -----------------------------------------------------------------------------------------

    def _allocations(self, hit: Iterable[str]) -> Allocations:
        found = dict(self._replica.allocations)
        for job in hit:
            found.pop(job, None)
        for job, tasks in self._places.items():
            if placed := {task: tuple(places) for task, places in sorted(tasks.items()) if places}:
                found[job] = placed
        return found

    def _coordinators(self) -> tuple[Place, ...]:
        """As `schedule` chooses them."""

        def free(taken: Collection[str], most: int) -> list[str]:
            others = ((used, name) for name, used in self._used.items() if name not in taken)
            return [name for _, name in heapq.nsmallest(most, others)]

        return chosen(self._replica, self._agents, free, self._offset)


def _most(task: TaskSpec) -> int:
    if task.max is None:
        raise _NotSettledError
    return task.max


def _without(jobs: tuple[str, ...], job: str) -> tuple[str, ...]:
    at = jobs.index(job)
    return jobs[:at] + jobs[at + 1 :]


def _remove(loads: list[Load], one: Load) -> None:
    at = bisect_left(loads, one)
    del loads[at]
