"""Why a job does not run: the first reason, in a sentence."""

from __future__ import annotations

from kcontrol.core.cluster.jobs import runs
from kcontrol.core.cluster.model import Agent, ClusterJob, Replica, Scheduler, TaskSpec
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
    if bad := _could_not_run(replica, job):
        return bad
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


def _could_not_run(replica: Replica, job: ClusterJob) -> str:
    """Of the first node that no other host could run, if there is one, else of the first."""
    found = []
    for unit, agents in sorted(replica.bad.items()):
        name, task, node = unit.rsplit("/", 2)
        if name != job.name or job.stands_by(task):
            continue
        fitting = {agent.name for one in job.tasks if one.name == task for agent in _fitting(replica, one)}
        failed = f"node {node} could not run on {', '.join(agents)}"
        if fitting <= set(agents):
            return f"{failed}, and no other host fits: kcontrol cluster retry {name} tries again, once it is put right there"
        found.append(f"{failed}, and nowhere else is room")
    return found[0] if found else ""


def _fitting(replica: Replica, task: TaskSpec) -> list[Agent]:
    return [agent for agent in replica.usable().values() if set(task.tags) <= set(agent.tags)]


def _lacks(replica: Replica, task: TaskSpec) -> str:
    fitting = _fitting(replica, task)
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
