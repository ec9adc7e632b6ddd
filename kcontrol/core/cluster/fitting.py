"""Jobs that follow the size of the cluster: how many nodes each is to have, by the formula of the scheduler of jobs.

A node that is lost has to have room elsewhere, or its pipeline stands still, and can't even be given fewer nodes: that
begins with what each node has saved. So a job has so many as the formula gives it when any one host is away. A cluster
that has become smaller or larger is followed by an entry of the job's warden, once that has lasted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from kcontrol.core.cluster.change import Change, EntryRejectedError
from kcontrol.core.cluster.entries import FitJob, SetBounds
from kcontrol.core.cluster.jobs import active_job, forget_bad, place_anew, runs, up_to_date, within
from kcontrol.core.cluster.looked_up import looked_up
from kcontrol.core.cluster.model import BOUNDS_LEVEL, Bounds, ClusterJob, Replica, Scheduler
from kcontrol.core.cluster.resizing import give_another_number
from kcontrol.core.cluster.schedule.sizes import Sizes


@looked_up("agents", "members", "jobs", "policy")
def fitting(replica: Replica) -> Mapping[str, int]:
    """By active job that follows the size of the cluster, so many nodes as it is to have."""
    bounded = {job.name: job.bounds for job in replica.active() if job.bounds is not None}
    if not bounded:
        return {}
    loose = {name: _between(replica.jobs[name], bounds) for name, bounds in bounded.items()}
    free = replica.but(jobs={**replica.jobs, **loose}, settled=None)
    found = [Sizes(one).counts for one in _with_any_one_away(free)]
    most = replica.policy.job_nodes
    return {
        name: max(bounds.least, min(most, *(sum(counts.get(name, {}).values()) for counts in found)))
        for name, bounds in bounded.items()
    }


def _between(job: ClusterJob, bounds: Bounds) -> ClusterJob:
    task = replace(job.tasks[0], min=bounds.least, max=bounds.most)
    return replace(job, tasks=(task,), kept=0, most=0, standbys=0)


def _with_any_one_away(replica: Replica) -> Iterator[Replica]:
    """With all hosts, and without one of each kind; a host that is alone can't be missed."""
    yield replica
    usable = replica.usable()
    kinds = {(agent.slots, agent.tags): name for name, agent in usable.items()} if len(usable) > 1 else {}
    for name in sorted(kinds.values()):
        away = replace(usable[name], draining=True)
        yield replica.but(agents={**replica.agents, name: away})


# --- entries ------------------------------------------------------------------------------------------------


def on_set_bounds(change: Change, entry: SetBounds) -> None:
    job = active_job(change, entry.job, BOUNDS_LEVEL)
    up_to_date(change, entry)
    if not job.resizable:
        raise EntryRejectedError("it is not one set of nodes")
    _check(change.replica, job, entry)
    bounds = None if entry.least == entry.most else Bounds(entry.least, entry.most)
    change.put_job(
        replace(job, bounds=bounds, percentage=entry.percentage, touched=change.offset, request=entry.request)
    )
    change.reschedule = True


def _check(replica: Replica, job: ClusterJob, entry: SetBounds) -> None:
    most = replica.policy.job_nodes
    highest = most if entry.most is None else entry.most
    if not 1 <= entry.least <= highest <= most:
        raise EntryRejectedError("the bounds of its nodes make no sense, or are more than a job may have")
    if not within(Bounds(entry.least, entry.most), job.nodes):
        raise EntryRejectedError(f"it has {job.nodes} nodes, which is not between these bounds")
    if not 0 <= entry.percentage <= 100:
        raise EntryRejectedError("a percentage is from 0 to 100")
    left = left_of_percentages(replica, job.name)
    if entry.percentage > left:
        raise EntryRejectedError(f"other jobs leave {left} %")


def left_of_percentages(replica: Replica, job: str) -> int:
    """What other active jobs leave to one of this name; 100 where jobs are not shared out by percentage."""
    if replica.policy.scheduler is not Scheduler.PERCENTAGE:
        return 100
    return max(0, 100 - sum(one.percentage for one in replica.active() if one.name != job))


def on_fit(change: Change, entry: FitJob) -> None:
    if change.level < BOUNDS_LEVEL:
        raise EntryRejectedError(f"it needs level {BOUNDS_LEVEL}")
    if entry.as_of >= change.offset:
        raise EntryRejectedError("it says that it has read what comes after it")
    if why := refused(change.replica, entry):
        raise EntryRejectedError(why)
    job = change.replica.jobs[entry.job]
    if not entry.anew:
        give_another_number(change, replace(job, touched=change.offset), entry.nodes)
        return
    task = replace(job.tasks[0], min=entry.nodes, max=entry.nodes)
    anew = replace(job, tasks=(task,), revision=change.offset, touched=change.offset)
    change.put_job(anew)
    place_anew(change, anew)
    forget_bad(change, job.name)
    change.reschedule = True


def refused(replica: Replica, entry: FitJob) -> str:
    """Why it does not count, or ''. Its author may have seen another cluster."""
    job = replica.jobs.get(entry.job)
    if job is None or not job.active or job.revision != entry.revision or job.bounds is None:
        return "no such revision follows the size of the cluster"
    if entry.as_of < job.touched:
        return "the job was changed since its pipeline was looked at"
    if not (entry.anew or job.kept or runs(replica, job)):
        return "its nodes do not all run, and a change begins with what each of them has saved"
    room = fitting(replica)[job.name]
    grows, shrinks = job.nodes < entry.nodes <= room, room < job.nodes > entry.nodes <= room
    if entry.nodes < job.bounds.least or not (grows or shrinks):
        return f"it is to have {room} nodes by now"
    if job.kept and not (shrinks and job.nodes > job.kept):
        return "it is being given another number of nodes"
    return ""
