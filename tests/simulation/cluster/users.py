"""What users ask of a cluster: jobs submitted, killed, hosts drained, another scheduler, another level, an old wish
again; and inputs that end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kcontrol.core.cluster.entries import (
    Configure,
    Drain,
    DrainAgent,
    KillJob,
    RaiseLevel,
    ResizeJob,
    SetBounds,
    SetPolicy,
    SetStandbys,
    SubmitJob,
)
from kcontrol.core.cluster.model import AS_OF_LEVEL, Scheduler, TaskSpec
from kcontrol.core.cluster.wards import Ward
from tests.simulation.cluster.layouts import TASK

if TYPE_CHECKING:
    from tests.simulation.cluster.schedule import ClusterSchedule

TAGS = ("gpu", "ssd")
JOBS = ("flights", "orders", "taxis", "waves")


class User:
    """All of them."""

    def __init__(self, schedule: ClusterSchedule) -> None:
        self._schedule = schedule
        self._requests = 0
        drawn = schedule.resizing.random() < 0.5
        self.ends = drawn if schedule.ends is None else schedule.ends
        """Whether jobs that are being given another number of nodes are killed."""

    def wishes(self) -> None:
        """One wish, as of what the log holds now."""
        s = self._schedule
        self._requests += 1
        request, as_of = f"q{self._requests}", len(s.world.log) - 1
        name, drawn = s.any_job(), s.random.random()
        if drawn < 0.55:
            s.say(self._submission(name, request, as_of))
        elif drawn < 0.67:
            s.say(KillJob(name, request, as_of))
        elif drawn < 0.75:
            self.end_input(name)
        elif drawn < 0.83:
            self._drain(s.any_host().name, s.random.random() < 0.4)
        elif drawn < 0.88:
            policy = s.world.truth.policy
            scheduler = s.random.choice(tuple(Scheduler))
            policy = replace(policy, scheduler=scheduler, coordinators=s.random.choice((1, 2, 3)))
            s.say(SetPolicy(policy, as_of) if s.world.truth.level >= AS_OF_LEVEL else Configure(policy))
        elif drawn < 0.93 and s.two_codes:
            s.say(RaiseLevel(2))
        else:
            self._again()

    def drains(self) -> None:
        """A host, or takes that back."""
        agent = self._schedule.world.truth.agents.get(self._schedule.any_host().name)
        if agent is not None:
            self._drain(agent.name, not agent.draining)

    def _drain(self, name: str, on: bool) -> None:
        s = self._schedule
        knows = s.world.truth.level >= AS_OF_LEVEL
        s.say(DrainAgent(name, on, len(s.world.log) - 1) if knows else Drain(name, on))

    def resizes(self) -> None:
        """Another number of nodes for a job that runs, or first the level that knows of it."""
        s = self._schedule
        self._requests += 1
        if s.world.truth.level < s.newest_level and s.resizing.random() < 0.7:
            s.say(RaiseLevel(s.world.truth.level + 1))
            return
        under_way = sorted(job.name for job in s.world.truth.active() if job.kept)
        again = under_way and s.resizing.random() < 0.6
        job, as_of = s.resizing.choice(under_way if again else JOBS), len(s.world.log) - 1
        nodes = s.resizing.randint(1, 4)
        if again and s.resizing.random() < 0.4:  # It is taken back.
            nodes = s.world.truth.jobs[job].kept
        s.say(ResizeJob(job, f"q{self._requests}", as_of, nodes))

    def stands(self) -> None:
        """So many standbys, mostly of a job that runs; or first the level that knows of them."""
        s = self._schedule
        self._requests += 1
        if s.world.truth.level < s.newest_level and s.standing.random() < 0.7:
            s.say(RaiseLevel(s.world.truth.level + 1))
            return
        active = [job.name for job in s.world.truth.active()]
        job = s.standing.choice(active if active and s.standing.random() < 0.8 else JOBS)
        s.say(
            SetStandbys(job, f"q{self._requests}", len(s.world.log) - 1, s.standing.choice((0, 1, 1, 1, 2)))
        )

    def bounds(self) -> None:
        """That a job, mostly one that runs, follows the size of the cluster, or does not; or first the level that knows of
        it. Sometimes it has another number of nodes than these bounds allow."""
        s = self._schedule
        self._requests += 1
        if s.world.truth.level < s.newest_level and s.fitting.random() < 0.7:
            s.say(RaiseLevel(s.world.truth.level + 1))
            return
        active = {job.name: job for job in s.world.truth.active()}
        name = s.fitting.choice(sorted(active) if active and s.fitting.random() < 0.9 else JOBS)
        nodes = active[name].nodes if name in active else 1
        least = s.fitting.randint(1, nodes + 1)
        most = s.fitting.choice((None, None, nodes, nodes + 1, nodes + 2))
        percentage = s.fitting.choice((0, 20, 40, 75))
        s.say(SetBounds(name, f"q{self._requests}", len(s.world.log) - 1, least, most, percentage))

    def ends_and_begins(self) -> None:
        """A job that is being given another number of nodes is killed; one that was is submitted again, mostly with the number
        that its pipeline has, so that processes begin with that."""
        s, as_of = self._schedule, len(self._schedule.world.log) - 1
        self._requests += 1
        request, drawn, layouts = f"q{self._requests}", s.resizing.random(), s.world.layouts
        jobs = [job for _, job in sorted(s.world.truth.jobs.items()) if job.kept and job.name in layouts]
        ended = [job.name for job in jobs if not job.active]
        under_way = [job.name for job in jobs if job.active]
        asked = [(job, layouts[job].under_way()) for job in under_way]
        fewer = [job for job, one in asked if one is not None and 0 < one.nodes < layouts[job].nodes]
        if under_way and drawn < (0.7 if fewer else 0.1):
            s.say(KillJob(s.resizing.choice(fewer or under_way), request, as_of))
        elif ended and drawn < 0.9:
            job = s.resizing.choice(ended)
            nodes = layouts[job].nodes or 1
            nodes = nodes if s.resizing.random() < 0.7 else s.resizing.randint(1, 4)
            s.say(SubmitJob(job, request, as_of, "package-1", (TaskSpec(TASK, nodes, nodes),)))

    def _submission(self, name: str, request: str, as_of: int) -> SubmitJob:
        random = self._schedule.random
        nodes, elastic = random.randint(1, 3), random.random() < 0.4
        most: int | None = nodes + (random.randint(0, 3) if elastic else 0)
        if elastic and random.random() < 0.5:
            most = None
        tags = tuple(tag for tag in TAGS if self._schedule.tagged and random.random() < 0.3)
        tasks = [TaskSpec("nodes", nodes, most, tags, random.choice((0, 50)))]
        if random.random() < 0.2:
            tasks.append(
                TaskSpec(
                    "side", random.randint(0, 1), random.choice((1, 2, None)), (), random.choice((0, 30))
                )
            )
        schedulers = (Scheduler.BALANCED, *Scheduler)
        return SubmitJob(
            *(name, request, as_of, f"package-{random.randint(1, 3)}", tuple(tasks)),
            *(random.choice(schedulers), random.choice((0, 20, 30, 40, 70))),
        )

    def end_input(self, name: str) -> None:
        """All that a task was to do is done, if a process of this revision has ever run."""
        world = self._schedule.world
        job = world.truth.jobs.get(name)
        if job is None or not job.open_tasks:
            return
        task = job.open_tasks[0].name
        newest = max(
            (one.generation for unit, one in world.rightful.items() if unit[:2] == (name, task)), default=-1
        )
        if newest >= job.revision:
            world.done.add(Ward(name, job.revision, task))

    def _again(self) -> None:
        before = [one for one in self._schedule.history if isinstance(one, SubmitJob | KillJob)]
        if before:
            self._schedule.say(self._schedule.random.choice(before))
