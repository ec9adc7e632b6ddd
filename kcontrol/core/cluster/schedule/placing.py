"""From counts to places, with the fewest moves.

What is well placed stays, with its generation. Of fewer units the highest indices go; an index that is
missing takes the agent of one that goes. A node that has lost its place is given that of a standby of its job, and its
process. The rest is put where fewest of the same job are, then where most
room is. A unit that is well placed moves only if another could not be placed otherwise, which tags can bring
about; and a standby that is beside a node of its job, to where none is.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection, Mapping

from kcontrol.core.cluster.model import (
    LEFT_ROOM_LEVEL,
    STANDBY,
    Agent,
    Allocations,
    ClusterJob,
    Place,
    Replica,
    TaskSpec,
    Unit,
)
from kcontrol.core.cluster.schedule.room import Tags, tags_of

Missing = list[tuple[Unit, TaskSpec]]
_Preference = tuple[int, int, str]


class Placing:
    """Places while they are being found. offset: the generation of new ones."""

    def __init__(self, replica: Replica, offset: int) -> None:
        self.places: dict[Unit, Place] = {}
        self._replica = replica
        self._offset = offset
        self._agents = replica.usable()
        self.used = dict.fromkeys(self._agents, 0)
        self._tags = {name: tags_of(agent) for name, agent in self._agents.items()}
        self._by_job: dict[tuple[str, str], int] = {}
        self._given: dict[str, set[int]] = {}
        """By job, indices of standbys whose place a node has been given."""
        self._units: dict[str, set[Unit]] = {name: set() for name in self._agents}
        self._tasks = {(job.name, task.name): task for job in replica.active() for task in job.placed_tasks}

    # --- one unit ---------------------------------------------------------------------------------------

    def _may_run(self, unit: Unit, agent: str) -> bool:
        tags = self._tasks[unit[0], unit[1]].tags
        return self._tags[agent].issuperset(tags) and not self._replica.is_bad(unit, agent)

    def _has_room(self, agent: str) -> bool:
        return self.used[agent] < self._agents[agent].slots

    def _stays(self, unit: Unit, place: Place) -> bool:
        return (
            place.agent in self._agents and self._has_room(place.agent) and self._may_run(unit, place.agent)
        )

    def _put(self, unit: Unit, agent: str) -> None:
        self._hold(unit, Place(agent, self._offset))

    def _hold(self, unit: Unit, place: Place) -> None:
        agent = self.places.setdefault(unit, place).agent
        self.used[agent] += 1
        self._by_job[unit[0], agent] = self._by_job.get((unit[0], agent), 0) + 1
        self._units[agent].add(unit)

    def _take(self, unit: Unit) -> None:
        agent = self.places.pop(unit).agent
        self.used[agent] -= 1
        self._by_job[unit[0], agent] -= 1
        self._units[agent].discard(unit)

    # --- what is there ----------------------------------------------------------------------------------

    def keep(self, job: ClusterJob, counts: Mapping[str, int]) -> Missing:
        """Hold what is well placed; what is missing, lowest index first, all tasks in turn."""
        missing = [one for task in job.open_tasks for one in self._keep_task(job, task, counts[task.name])]
        return sorted(missing, key=lambda one: one[0][2])

    def keep_standbys(self, job: ClusterJob, count: int) -> list[Unit]:
        """Hold what is well placed, whichever its index, of those whose place no node has been given; what is missing."""
        kept = 0
        for index, place in enumerate(self._standbys(job)[: job.standbys]):
            if kept < count and place is not None and self._stays((job.name, STANDBY, index), place):
                self._hold((job.name, STANDBY, index), place)
                kept += 1
        units = [(job.name, STANDBY, index) for index in range(job.standbys)]
        return [unit for unit in units if unit not in self.places][: count - kept]

    def _standbys(self, job: ClusterJob) -> list[Place | None]:
        now = self._replica.allocations.get(job.name, {}).get(STANDBY, ()) if job.standbys else ()
        if not now:
            return []
        given = self._given.get(job.name, ())
        return [None if index in given else place for index, place in enumerate(now)]

    def _give(self, job: ClusterJob, unit: Unit, was: Place | None) -> bool:
        """The place and the process of a standby to a node that has lost its own. While a job is given another number of nodes
        its pipeline may have no such node, for which a standby can't wait."""
        if was is None or job.kept:
            return False
        for index, place in enumerate(self._standbys(job)):
            if place is not None and self._stays(unit, place):
                self._hold(unit, Place(place.agent, self._offset, index, place.generation))
                self._given.setdefault(job.name, set()).add(index)
                return True
        return False

    def _keep_task(self, job: ClusterJob, task: TaskSpec, count: int) -> Missing:
        now = self._replica.allocations.get(job.name, {}).get(task.name, ())
        holes = []
        for index in range(count):
            unit, place = (job.name, task.name, index), now[index] if index < len(now) else None
            if place is not None and self._stays(unit, place):
                self._hold(unit, place)
            elif not self._give(job, unit, place):
                holes.append(unit)
        spare = [place.agent for place in now[count:] if place is not None and place.agent in self._agents]
        return [(unit, task) for unit in holes if not self._take_over(unit, spare)]

    def _take_over(self, unit: Unit, spare: list[str]) -> bool:
        """The agent of an index that goes runs this one."""
        agent = next((one for one in spare if self._has_room(one) and self._may_run(unit, one)), None)
        if agent is None:
            return False
        spare.remove(agent)
        self._put(unit, agent)
        return True

    def linger(self, job: ClusterJob) -> None:
        """A job that can't run keeps what it has where nobody else needs it, so that less has to start when
        it can."""
        for task in job.open_tasks:
            for index, place in enumerate(self._replica.allocations.get(job.name, {}).get(task.name, ())):
                unit = (job.name, task.name, index)
                if place is not None and self._stays(unit, place) and (task.max is None or index < task.max):
                    self._hold(unit, place)

    # --- what is missing --------------------------------------------------------------------------------

    def fill(self, missing: Missing) -> bool:
        """Place what is missing of one job; False if agents that could not run it stand in the way."""
        heaps: dict[Tags, list[_Preference]] = {}
        for unit, task in missing:
            tags = tags_of(task)
            if tags not in heaps:
                heaps[tags] = [
                    self._preference(unit[0], agent) for agent in self._agents if tags <= self._tags[agent]
                ]
                heapq.heapify(heaps[tags])
            if not self._put_best(unit, heaps[tags]) and not self._make_room(unit):
                return False
        return True

    def fill_standbys(self, jobs: list[ClusterJob], missing: list[Unit]) -> None:
        """Where no node of the job is, if there is such room; else wherever there is room, or nowhere. What then is still free,
        as tags keep those from it that it was meant for, is for whoever may run there."""
        self._put_standbys(missing)
        for job in jobs:
            for index, place in enumerate(self._standbys(job)[: job.standbys]):
                unit = (job.name, STANDBY, index)
                if place is not None and unit not in self.places and self._stays(unit, place):
                    self._hold(unit, place)
        units = [(job.name, STANDBY, index) for job in jobs for index in range(job.standbys)]
        self._put_standbys(units)
        while any(self._moves_away(unit) for unit in sorted(self.places) if self._is_standby(unit)):
            pass  # It has left room, be it for another one. Each move leaves fewer beside a node, so this ends.
        if self._replica.level >= LEFT_ROOM_LEVEL:
            self._put_standbys(units)  # That only takes room, so nobody moves after it.

    def _put_standbys(self, units: list[Unit]) -> None:
        """Those that have no place."""
        for unit in [one for one in units if one not in self.places]:
            best = self._best_for_standby(unit)
            if best is not None:
                self._put(unit, best)

    def _moves_away(self, unit: Unit) -> bool:
        if not self._nodes_on(unit[0], self.places[unit].agent):
            return False
        best = self._best_for_standby(unit)
        if best is None or self._nodes_on(unit[0], best):
            return False
        self._take(unit)
        self._put(unit, best)
        return True

    def _best_for_standby(self, unit: Unit) -> str | None:
        fitting = [one for one in self._agents if self._has_room(one) and self._may_run(unit, one)]
        return min(
            fitting,
            key=lambda one: (self._nodes_on(unit[0], one) > 0, self._preference(unit[0], one)),
            default=None,
        )

    def _is_standby(self, unit: Unit) -> bool:
        return self._replica.jobs[unit[0]].stands_by(unit[1])

    def _nodes_on(self, job: str, agent: str) -> int:
        return sum(one[0] == job and not self._is_standby(one) for one in self._units[agent])

    def _preference(self, job: str, agent: str) -> _Preference:
        used = 1_000 * self.used[agent] // max(1, self._agents[agent].slots)
        return self._by_job.get((job, agent), 0), used, agent

    def _put_best(self, unit: Unit, heap: list[_Preference]) -> bool:
        refused = []
        found = False
        while heap and not found:
            preference = heapq.heappop(heap)
            agent = preference[2]
            now = self._preference(unit[0], agent)
            if preference != now:
                heapq.heappush(heap, now)
            elif self._has_room(agent):
                found = self._may_run(unit, agent)
                if found:
                    self._put(unit, agent)
                refused.append(agent)
        for agent in refused:
            heapq.heappush(heap, self._preference(unit[0], agent))
        return found

    def _make_room(self, unit: Unit) -> bool:
        """Move as few units that were there before as will do: 0-1 breadth first, units that are new move for
        nothing."""
        cost: dict[str, int] = {}
        came: dict[str, tuple[Unit, str | None]] = {}
        queue: deque[tuple[int, Unit, str | None]] = deque([(0, unit, None)])
        best: tuple[int, str] | None = None
        while queue:
            so_far, at, origin = queue.popleft()
            if best is not None and so_far >= best[0]:
                continue
            for agent in self._agents:
                if agent == origin or not self._may_run(at, agent):
                    continue
                if agent in cost and cost[agent] <= so_far:
                    continue
                cost[agent], came[agent] = so_far, (at, origin)
                if self._has_room(agent):
                    if best is None or so_far < best[0]:
                        best = (so_far, agent)
                    continue
                for other in sorted(self._units[agent]):
                    if self._moves_for_nothing(other):
                        queue.appendleft((so_far, other, agent))
                    else:
                        queue.append((so_far + 1, other, agent))
        if best is None:
            return False
        self._shift(came, best[1])
        return True

    def _moves_for_nothing(self, unit: Unit) -> bool:
        """It is new, and no process of it is ready; or no step waits for it."""
        place = self.places[unit]
        return self._is_standby(unit) or (place.generation == self._offset and not place.stood_by)

    def _shift(self, came: Mapping[str, tuple[Unit, str | None]], agent: str) -> None:
        at: str | None = agent
        while at is not None:
            unit, origin = came[at]
            if origin is not None:
                self._take(unit)
            self._put(unit, at)
            at = origin

    # --- the result -------------------------------------------------------------------------------------

    def allocations(self) -> Allocations:
        sizes: dict[tuple[str, str], int] = {}
        for job, task, index in self.places:
            sizes[job, task] = max(sizes.get((job, task), 0), index + 1)
        found: dict[str, dict[str, tuple[Place | None, ...]]] = {}
        for (job, task), size in sorted(sizes.items()):
            places = tuple(self.places.get((job, task, index)) for index in range(size))
            found.setdefault(job, {})[task] = places
        return found

    def free(self, taken: Collection[str]) -> list[Agent]:
        """Agents that are not among these, the least used first."""
        names = sorted((self.used[name], name) for name in self._agents if name not in taken)
        return [self._agents[name] for _, name in names]
