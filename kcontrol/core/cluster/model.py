"""The replica as a value. Nothing in it is ever changed in place; integers, strings, tuples and mappings
only, so that it has one canonical form.

An *agent* is a process on a host that runs units of jobs in its *slots*; an *incarnation* is one life of it.
A *job* is a submitted pipeline, a *task* a named set of equal nodes of it (a pipeline has one, `nodes`), and
a *unit* one of them. A *place* says which agent runs a unit, and by which entry it was put there: its
*generation*, which fences processes of earlier places.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

from kcontrol.core.cluster.looked_up import carried_over, looked_up

FIRST_LEVEL = 1
LATEST_LEVEL = 10
RESIZE_LEVEL = 3
"""From here on a job can be given another number of nodes while it runs."""
RESUMED_LEVEL = 4
"""From here on one that ended meanwhile is given it still, once it is submitted again."""
AS_OF_LEVEL = 5
"""From here on what operators wish, too, says how far they had read, and so counts once."""
STANDBY_LEVEL = 6
"""From here on jobs may have standbys."""
BOUNDS_LEVEL = 7
"""From here on jobs may have as many nodes as the cluster has room for, between bounds."""
COORDINATOR_LEVEL = 8
"""From here on a coordinator that can't run on its agent's host is placed elsewhere."""
ANOTHER_LIFE_LEVEL = 9
"""From here on what could not run on an agent's host may be tried there again once the agent has begun another life."""
LEFT_ROOM_LEVEL = 10
"""From here on the room that a standby leaves is for one that has found none."""

STANDBY = "standby"
"""As the task of a unit: a process that has no number yet, and is given that of a node which loses its place."""

LEFT_OUT = "left out"
"""Of a field that came with a later level: what it is where it is no part of the canonical form."""

Unit = tuple[str, str, int]
"""Job, task, index."""
COORDINATOR: Unit = ("", "coordinator", 0)
"""The process of `kcontrol coordinator` on a host, which is of no job: an agent has one at most."""


class AgentStage(StrEnum):
    """How far an agent is in."""

    UNKNOWN = "unknown"
    COLLECTING = "collecting"
    """Not joining yet, but it may report the dead."""
    WAITING = "waiting"
    """It wants to join, and no member is free to be joined to."""
    PREPARED = "prepared"
    """It has been given whom it will watch."""
    ACCEPTED = "accepted"
    """It hears whom it will watch; its watcher has yet to hear it."""
    MEMBER = "member"


class Scheduler(StrEnum):
    """How slots are shared among jobs, or units among tasks of a job."""

    GREEDY = "greedy"
    BALANCED = "balanced"
    PERCENTAGE = "percentage"


class JobState(StrEnum):
    """Whether a job may have places, and if not any more, why."""

    ACTIVE = "active"
    KILLED = "killed"
    COMPLETED = "completed"
    FAILED = "failed"


_LEAST = {
    **dict.fromkeys(("coordinators", "finished_jobs"), 0),
    **dict.fromkeys(("beat_ms", "missing_after", "digest_every", "bad_agents", "collectors"), 1),
    **dict.fromkeys(("agents", "jobs", "job_nodes"), 1),
}


@dataclass(frozen=True, slots=True)
class ClusterPolicy:
    """What all agents must do alike, and so is in the value.

    coordinators: processes of `kcontrol coordinator` that are wanted. beat_ms: between two beats of an agent.
    silent_after: so many of one's own beats without one of another's make the other silent;
    silent_after_many: while most seem silent. missing_after: so many for one to count among the missing when
    it is looked whether most are. digest_every, snapshot_every: in entries. finished_jobs: how many of them
    are kept. bad_agents: so many agents that could not run a unit fail its job. collectors: how many there
    may be. What nobody has set is as here, in logs that were begun long ago, too: another default would be another level.
    """

    scheduler: Scheduler = Scheduler.BALANCED
    coordinators: int = 2
    beat_ms: int = 2_000
    silent_after: int = 5
    silent_after_many: int = 20
    missing_after: int = 3
    digest_every: int = 100
    snapshot_every: int = 1_000
    finished_jobs: int = 100
    bad_agents: int = 3
    collectors: int = 16
    agents: int = 10_000
    jobs: int = 1_000
    job_nodes: int = 1_000

    @property
    def makes_sense(self) -> bool:
        return not self.nonsense

    @property
    def nonsense(self) -> str:
        """What makes no sense in it; '' if all does."""
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                return f"{name} is at least {least}"
        if not self.missing_after <= self.silent_after <= self.silent_after_many:
            return "missing_after is at most silent_after, and that at most silent_after_many"
        if self.snapshot_every < self.digest_every or self.snapshot_every % self.digest_every:
            return "snapshot_every is a multiple of digest_every"
        return ""


@dataclass(frozen=True, slots=True)
class Agent:
    """One incarnation of an agent, whatever stage it is in.

    since: offset of the entry by which it began. levels: the first and the last level of the value that its
    code knows. once: it gives up where it would have to wait; otherwise it waits its turn. touched: offset of the entry by
    which it came, or was drained or not any more; -1: at a level that does not know.
    """

    name: str
    incarnation: str
    since: int
    slots: int
    tags: tuple[str, ...] = ()
    levels: tuple[int, int] = (FIRST_LEVEL, FIRST_LEVEL)
    once: bool = False
    draining: bool = False
    touched: int = field(default=-1, metadata={LEFT_OUT: -1})


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """So many equal nodes, from `min` to `max` (None: as many as there is room for), on agents with all of
    these tags.

    percentage: of the job's nodes, where its tasks are shared out by percentage.
    """

    name: str
    min: int = 1
    max: int | None = None
    tags: tuple[str, ...] = ()
    percentage: int = 0


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of the nodes of a job that follows the size of the cluster: from `least` to `most` (None: as many as there is room
    for)."""

    least: int
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Who runs a unit or a coordinator, and the offset of the entry that put it there.

    standby, stood: of a node that was given to a standby of its job, which index that had, and the generation by which
    it stood by; its process is the node from here on. -1: none.
    """

    agent: str
    generation: int
    standby: int = field(default=-1, metadata={LEFT_OUT: -1})
    stood: int = field(default=-1, metadata={LEFT_OUT: -1})

    @property
    def stood_by(self) -> bool:
        """Whether a process that stood by is to run it."""
        return self.standby >= 0

    def is_of(self, agent: str, generation: int) -> bool:
        return (self.agent, self.generation) == (agent, generation)


@dataclass(frozen=True)
class ClusterJob:
    """A submitted pipeline.

    id: offset of the submission that began it; the smaller has precedence. revision: offset of the newest
    submission. touched: offset of the newest entry of a user that counted; what somebody wished who had not
    read as far is void. request: of that entry. package: what is run, by a name that says its content. done:
    tasks that are complete. kept: while it is being given another number of nodes, so many are not taken
    away, because its pipeline's layout has them; 0: it is not; of an ended job: it was. most: so many it may have by now.
    standbys: so many processes are to stand by for its nodes. error: why it has failed, or why its standbys were given up.
    bounds: None: it has the number of nodes that was asked for, whatever the size of the cluster.
    """

    name: str
    id: int
    revision: int
    touched: int
    request: str
    package: str
    tasks: tuple[TaskSpec, ...]
    task_scheduler: Scheduler = Scheduler.BALANCED
    percentage: int = 0
    state: JobState = JobState.ACTIVE
    done: tuple[str, ...] = ()
    error: str = ""
    kept: int = field(default=0, metadata={LEFT_OUT: 0})
    most: int = field(default=0, metadata={LEFT_OUT: 0})
    standbys: int = field(default=0, metadata={LEFT_OUT: 0})
    bounds: Bounds | None = field(default=None, metadata={LEFT_OUT: None})

    @cached_property
    def open_tasks(self) -> tuple[TaskSpec, ...]:
        """With as many nodes as may be placed now."""
        tasks = tuple(task for task in self.tasks if task.name not in self.done) if self.done else self.tasks
        return tuple(replace(task, min=self.kept, max=self.most) for task in tasks) if self.kept else tasks

    @cached_property
    def placed_tasks(self) -> tuple[TaskSpec, ...]:
        """Whatever may be placed: its open tasks, and then its standbys, which it does not need to run."""
        tasks = self.open_tasks
        if not self.standbys or not tasks:
            return tasks
        return (*tasks, TaskSpec(STANDBY, 0, self.standbys, tasks[0].tags))

    @property
    def resizable(self) -> bool:
        """Whether it is one set of nodes, of a number that is given."""
        return len(self.tasks) == 1 and self.tasks[0].min == self.tasks[0].max

    @property
    def takes_standbys(self) -> bool:
        """Whether its nodes are told apart by their numbers alone."""
        return self.resizable and self.tasks[0].name != STANDBY

    def stands_by(self, task: str) -> bool:
        """Whether units of this task stand by for its nodes. A job that has no standbys may have a task of that name."""
        return task == STANDBY and self.standbys > 0

    @property
    def nodes(self) -> int:
        """How many are asked for, at least."""
        return sum(task.min for task in self.tasks)

    @property
    def active(self) -> bool:
        return self.state is JobState.ACTIVE


Allocations = Mapping[str, Mapping[str, tuple[Place | None, ...]]]
"""By job and task: the place of each index, or None."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What the value is at an offset, by its digest; none at -1."""

    offset: int = -1
    digest: str = ""


NO_MARK = Mark()


@dataclass(frozen=True, slots=True)
class Proposed:
    """A snapshot that another member has to confirm."""

    offset: int
    digest: str
    by: str


@dataclass(frozen=True)
class Replica:
    """All of it.

    level: of the function that is applied to it. offset: of the newest entry. founded_ms: when the first agent
    of all began, by its wall clock. agents: every known one, by name. members: in the order of joining;
    needed beside `pairs`, as none and one member look alike there. pairs: who watches whom, one ring of all
    members. prepared, accepted: joiner -> whom it will watch. waiting: joiners, the next first. forgotten:
    the newest `touched` of finished jobs that are not kept. bad: by unit, agents that could not run it, from
    a level on until they begin another life. unable: agents on whose
    hosts a coordinator could not run, and why, until they begin another life. base:
    offset and digest of the newest confirmed snapshot; what is before it may be deleted from the log. configured:
    offset of the newest policy; -1: at a level that does not know. settled: what
    was looked up in it already (`schedule.board`); it follows from all else, and says nothing of the value. known: as that, of
    all that is `looked_up`.
    """

    level: int = FIRST_LEVEL
    offset: int = -1
    founded_ms: int = 0
    policy: ClusterPolicy = field(default_factory=ClusterPolicy)
    agents: Mapping[str, Agent] = field(default_factory=dict)
    members: tuple[str, ...] = ()
    pairs: Mapping[str, str] = field(default_factory=dict)
    prepared: Mapping[str, str] = field(default_factory=dict)
    accepted: Mapping[str, str] = field(default_factory=dict)
    waiting: tuple[str, ...] = ()
    collectors: tuple[str, ...] = ()
    jobs: Mapping[str, ClusterJob] = field(default_factory=dict)
    forgotten: int = -1
    allocations: Allocations = field(default_factory=dict)
    bad: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    coordinators: tuple[Place, ...] = ()
    proposed: Proposed | None = None
    base: Mark = NO_MARK
    configured: int = field(default=-1, metadata={LEFT_OUT: -1})
    unable: Mapping[str, str] = field(default_factory=dict, metadata={LEFT_OUT: {}})
    settled: object = field(default=None, compare=False, repr=False)
    known: dict[object, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    def but(self, **parts: Any) -> Replica:
        """With other parts, as `dataclasses.replace`, in a tenth of the time; and with all that was looked up and does not
        follow from these. Raises TypeError for what is no part."""
        if not parts.keys() <= _PARTS:
            raise TypeError(f"no part of a replica: {sorted(parts.keys() - _PARTS)}")
        made = object.__new__(Replica)
        values = {**self.__dict__, **parts, "known": carried_over(self.known, parts)}
        object.__setattr__(made, "__dict__", values)
        return made

    def stage(self, name: str) -> AgentStage:
        if self.is_member(name):
            return AgentStage.MEMBER
        if name in self.prepared:
            return AgentStage.PREPARED
        if name in self.accepted:
            return AgentStage.ACCEPTED
        if name in self.waiting:
            return AgentStage.WAITING
        return AgentStage.COLLECTING if name in self.collectors else AgentStage.UNKNOWN

    def is_member(self, name: str) -> bool:
        """By the ring, which all members are in, if there are two."""
        return name in self.pairs if len(self.members) > 1 else name in self.members

    def joining(self, name: str) -> str | None:
        """Whom a joiner will watch, if it has been given somebody."""
        return self.prepared.get(name, self.accepted.get(name))

    @looked_up("jobs")
    def active(self) -> tuple[ClusterJob, ...]:
        """By precedence."""
        return tuple(sorted((job for job in self.jobs.values() if job.active), key=lambda job: job.id))

    @looked_up("agents", "members")
    def usable(self) -> Mapping[str, Agent]:
        """Members that may run units, by name."""
        return {name: self.agents[name] for name in sorted(self.members) if not self.agents[name].draining}

    def is_bad(self, unit: Unit, agent: str) -> bool:
        """Whether that agent could not run that unit."""
        return bool(self.bad) and agent in self.bad.get(bad_key(unit), ())

    @looked_up("allocations")
    def places(self) -> Mapping[Unit, Place]:
        """What is placed, by unit."""
        return {
            (job, task, index): place
            for job, tasks in self.allocations.items()
            for task, places in tasks.items()
            for index, place in enumerate(places)
            if place is not None
        }


_PARTS = {one.name for one in fields(Replica) if one.init}

EMPTY = Replica()


def bad_key(unit: Unit) -> str:
    return f"{unit[0]}/{unit[1]}/{unit[2]}"
