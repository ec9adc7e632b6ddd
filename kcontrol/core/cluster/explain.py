"""Why a job does not run: the first reason, in a sentence."""

from __future__ import annotations

from kcontrol.core.cluster.jobs import runs
from kcontrol.core.cluster.model import STANDBY, ClusterJob, Replica, Scheduler, TaskSpec
from kcontrol.core.cluster.schedule.shares import least


def explain(replica: Replica, job: ClusterJob) -> str:
    """'' if it runs, or has ended."""
    if not job.active or runs(replica, job):
        return ""
    if not replica.members:
        return "the cluster has no agents: start `kcontrol agent` on a host"
    for task in job.open_tasks:
        if lacking := _lacks(replica, task):
            return lacking
    if over := _beyond(replica, job):
        return over
    for unit, agents in sorted(replica.bad.items()):
        if unit.startswith(f"{job.name}/") and not (job.standbys and unit.split("/")[1] == STANDBY):
            return f"node {unit.rsplit('/', 1)[1]} could not run on {', '.join(agents)}, and nowhere else is room"
    earlier = [one.name for one in replica.active() if one.id < job.id and runs(replica, one)]
    total = sum(agent.slots for agent in replica.usable().values())
    need = f"it needs {least(job)} slots of {total}"
    return f"{need}; jobs submitted before it have them: {', '.join(earlier)}" if earlier else need


def resizing(replica: Replica, job: ClusterJob) -> str:
    """What another number of nodes waits for; '' if none was asked for."""
    if not job.active or not job.kept:
        return ""
    places = replica.allocations.get(job.name, {}).get(job.tasks[0].name, ())
    there = sum(place is not None for place in places)
    if there < job.nodes:
        return f"it is to have {job.nodes} nodes, and there is room for {there}"
    return f"it is to have {job.nodes} nodes: see kcontrol status {job.name} for how far its layout is"


def _lacks(replica: Replica, task: TaskSpec) -> str:
    fitting = [agent for agent in replica.usable().values() if set(task.tags) <= set(agent.tags)]
    slots = sum(agent.slots for agent in fitting)
    need = max(1, task.min)
    if slots >= need:
        return ""
    tags = f" with tags {', '.join(task.tags)}" if task.tags else ""
    where = f", on {', '.join(agent.name for agent in fitting)}" if fitting else ""
    return f"task {task.name} needs {need} slots{tags}; there are {slots}{where}"


def _beyond(replica: Replica, job: ClusterJob) -> str:
    if replica.policy.scheduler is not Scheduler.PERCENTAGE:
        return ""
    taken = sum(one.percentage for one in replica.active() if one.id < job.id and runs(replica, one))
    if taken + job.percentage <= 100:
        return ""
    return f"it asks for {job.percentage} %, and jobs submitted before it leave {100 - taken} %"
