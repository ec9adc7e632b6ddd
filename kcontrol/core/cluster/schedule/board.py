"""What is placed, by agent: looked up when an entry changes little, so that it costs what it changes and not what there
is.

There is a board of a *settled* value only: all active jobs have every unit that they can use, each is placed, and no
agent is known to be unable to run one. It follows from the replica and is no part of it: neither compared, nor in
digests, nor in snapshots, and where it is missing everything is computed whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kcontrol.core.cluster.model import Agent, Allocations, ClusterJob, Place, Replica, Scheduler
from kcontrol.core.cluster.schedule.room import Room, Tags, supply_of, tags_of

Load = tuple[int, str]
"""Of an agent with room: used slots in thousandths, and its name."""


@dataclass(frozen=True, slots=True)
class Board:
    """agents: usable ones, as they were when they became so. used: slots, by agent. jobs_on: names of jobs with a unit
    there, by agent, one for each unit. allocations: what it was made of. free: those with room, by their tags, the least
    used first. supply: slots, demand: units, both by tags. jobs: active ones. percent: of all jobs together.
    """

    agents: Mapping[str, Agent]
    used: Mapping[str, int]
    jobs_on: Mapping[str, tuple[str, ...]]
    allocations: Allocations
    free: Mapping[Tags, tuple[Load, ...]]
    supply: Mapping[Tags, int]
    demand: Mapping[Tags, int]
    jobs: Mapping[str, ClusterJob]
    percent: int


@dataclass(frozen=True, slots=True)
class Scheduled:
    """board: None if the value is not settled."""

    allocations: Allocations
    coordinators: tuple[Place, ...]
    board: Board | None


def load(used: int, agent: Agent) -> Load:
    return 1_000 * used // max(1, agent.slots), agent.name


def board_of(replica: Replica, jobs: Sequence[ClusterJob], allocations: Allocations) -> Board | None:
    """jobs: all active ones. None if the value is not settled, or a job has standbys, which move by other rules."""
    if any(job.standbys for job in jobs):
        return None
    agents = replica.usable()
    used = dict.fromkeys(agents, 0)
    jobs_on: dict[str, tuple[str, ...]] = {}
    demand: dict[Tags, int] = {}
    for job in jobs:
        for task in job.open_tasks:
            places = allocations.get(job.name, {}).get(task.name, ())
            if len(places) != task.max:
                return None
            for place in places:
                if place is None:
                    return None
                used[place.agent] += 1
                jobs_on[place.agent] = (*jobs_on.get(place.agent, ()), job.name)
            tags = tags_of(task)
            demand[tags] = demand.get(tags, 0) + task.max
    free: dict[Tags, list[Load]] = {}
    for name, agent in agents.items():
        if used[name] < agent.slots:
            free.setdefault(tags_of(agent), []).append(load(used[name], agent))
    board = Board(
        *(agents, used, jobs_on, allocations, {tags: tuple(sorted(loads)) for tags, loads in free.items()}),
        *(supply_of(agents.values()), demand, {job.name: job for job in jobs}),
        sum(job.percentage for job in jobs),
    )
    return board if has_room_for_all(replica, board.supply, board.demand, board.percent) else None


def has_room_for_all(
    replica: Replica, supply: Mapping[Tags, int], demand: Mapping[Tags, int], percent: int
) -> bool:
    """Whether every job gets as much as it can use, whichever the scheduler."""
    if replica.bad or (replica.policy.scheduler is Scheduler.PERCENTAGE and percent > 100):
        return False
    return Room(supply).fits(demand)


def known_board(replica: Replica) -> Board | None:
    """The board that was remembered, if nothing that it depends on was changed by anybody else."""
    match replica.settled:
        case (Board() as board, *seen) if all(
            one is now for one, now in zip(seen, _seen(replica), strict=True)
        ):
            return board
    return None


def remembered(board: Board | None, replica: Replica) -> object:
    """What `settled` of this replica is to be."""
    return None if board is None else (board, *_seen(replica))


def _seen(replica: Replica) -> tuple[object, ...]:
    return (
        *(replica.agents, replica.members, replica.jobs, replica.allocations),
        *(replica.policy, replica.bad),
    )
