"""Jobs: submitted, submitted again, killed, completed. A wish carries how far its author had read the
log, so that the same wish that arrives twice, or late, is void without anybody remembering it."""

from __future__ import annotations

from dataclasses import replace

from kcontrol.core.cluster.change import Change, EntryRejectedError
from kcontrol.core.cluster.entries import (
    CompleteTask,
    KillJob,
    ResizeJob,
    SetBounds,
    SetStandbys,
    SubmitJob,
)
from kcontrol.core.cluster.model import (
    FIRST_LEVEL,
    RESUMED_LEVEL,
    STANDBY,
    Bounds,
    ClusterJob,
    JobState,
    Place,
    Replica,
    TaskSpec,
)


def on_submit(change: Change, entry: SubmitJob) -> None:
    up_to_date(change, entry)
    _check(change, entry)
    known = change.replica.jobs.get(entry.job)
    job = ClusterJob(
        *(entry.job, change.offset, change.offset, change.offset, entry.request),
        *(entry.package, entry.tasks, entry.task_scheduler, entry.percentage),
    )
    if known is None or not known.active:
        most = change.replica.policy.jobs
        if len(change.replica.jobs) >= most and len(change.replica.active()) >= most:
            raise EntryRejectedError("as many jobs are active as may be")
        change.put_job(_resumed(known, job) if change.level >= RESUMED_LEVEL else job)
    elif _asks_the_same(known, entry):
        change.put_job(replace(known, touched=change.offset, request=entry.request))
        return
    else:
        job = _with_what_is_not_submitted(known, replace(_resumed(known, job), id=known.id))
        change.put_job(job)
        place_anew(change, job)
    forget_bad(change, entry.job)
    change.reschedule = True


def _with_what_is_not_submitted(known: ClusterJob, job: ClusterJob) -> ClusterJob:
    """Of an active job: wishes of their own, which another package leaves as they are."""
    standbys = known.standbys if job.takes_standbys else 0
    if known.bounds is None or not job.resizable or not within(known.bounds, job.nodes):
        return replace(job, standbys=standbys)
    return replace(job, standbys=standbys, bounds=known.bounds, percentage=known.percentage)


def within(bounds: Bounds, nodes: int) -> bool:
    return bounds.least <= nodes and (bounds.most is None or nodes <= bounds.most)


def _resumed(known: ClusterJob | None, job: ClusterJob) -> ClusterJob:
    """What was asked of its pipeline for the job before may have come about, or may come yet: its warden looks, and makes it
    void."""
    if known is None or not known.kept or not job.resizable:
        return job
    return replace(job, kept=known.kept, most=max(known.most, job.nodes))


def active_job(change: Change, name: str, level: int = FIRST_LEVEL) -> ClusterJob:
    """Raises EntryRejectedError: the cluster is below this level, or there is no such job."""
    if change.level < level:
        raise EntryRejectedError(f"it needs level {level}")
    job = change.replica.jobs.get(name)
    if job is None or not job.active:
        raise EntryRejectedError("no such job is active")
    return job


def up_to_date(change: Change, entry: SubmitJob | KillJob | ResizeJob | SetStandbys | SetBounds) -> None:
    """Raises EntryRejectedError for a wish that was made before the newest one about its job counted."""
    known = change.replica.jobs.get(entry.job)
    if entry.as_of < (change.replica.forgotten if known is None else known.touched):
        raise EntryRejectedError("the job was changed since this was asked for")
    if entry.as_of >= change.offset:
        raise EntryRejectedError("it says that it has read what comes after it")


def _check(change: Change, entry: SubmitJob) -> None:
    names = [task.name for task in entry.tasks]
    if not names or len(set(names)) != len(names):
        raise EntryRejectedError("no task, or two of one name")
    if any(task.min < 0 or (task.max is not None and task.max < max(1, task.min)) for task in entry.tasks):
        raise EntryRejectedError("a task's bounds make no sense")
    if sum(task.min for task in entry.tasks) > change.replica.policy.job_nodes:
        raise EntryRejectedError("more nodes than a job may have")
    if any(not 0 <= one <= 100 for one in (entry.percentage, *(task.percentage for task in entry.tasks))):
        raise EntryRejectedError("a percentage is from 0 to 100")
    if sum(task.percentage for task in entry.tasks) > 100:
        raise EntryRejectedError("the percentages of its tasks are more than 100 together")


def _asks_the_same(known: ClusterJob, entry: SubmitJob) -> bool:
    """What follows the size of the cluster has its percentage by a wish of its own."""
    percentage = entry.percentage if known.bounds is None else known.percentage
    return (known.package, known.tasks, known.task_scheduler, known.percentage) == (
        *(entry.package, entry.tasks, entry.task_scheduler, percentage),
    )


def place_anew(change: Change, job: ClusterJob) -> None:
    """A new revision runs where the one before does, as new processes."""

    def moved(task: TaskSpec) -> tuple[Place | None, ...]:
        old = change.replica.allocations.get(job.name, {}).get(task.name, ())
        return tuple(None if place is None else Place(place.agent, change.offset) for place in old)

    placed = (*job.tasks, *(task for task in job.placed_tasks if task.name == STANDBY))
    places = {task.name: found for task in placed if (found := moved(task))}
    change.set(allocations={**change.replica.allocations, job.name: places})


def on_kill(change: Change, entry: KillJob) -> None:
    job = active_job(change, entry.job)
    up_to_date(change, entry)
    finish(change, replace(job, state=JobState.KILLED, request=entry.request, error=""))


def finish(change: Change, job: ClusterJob) -> None:
    """It gets no place any more. The newest finished jobs are kept, and how far what was forgotten
    reached. Those that were given another number of nodes are not counted among them: it has to be known when they are
    submitted again."""
    change.put_job(replace(job, touched=change.offset))
    forget_bad(change, job.name)
    policy, all_kept = change.replica.policy, change.level >= RESUMED_LEVEL
    finished = sorted(
        (one for one in change.replica.jobs.values() if not one.active), key=lambda one: one.touched
    )
    resumable = [one for one in finished if all_kept and one.kept]
    others = [one for one in finished if one not in resumable]
    over = others[: max(0, len(others) - policy.finished_jobs)]
    for old in over + resumable[: max(0, len(resumable) - policy.jobs)]:
        change.drop_job(old.name)
        change.set(forgotten=max(change.replica.forgotten, old.touched))
    change.reschedule = True


def forget_bad(change: Change, job: str) -> None:
    """Where its units could not run says nothing any more."""
    kept = {key: agents for key, agents in change.replica.bad.items() if not key.startswith(f"{job}/")}
    change.set(bad=kept)


def on_complete(change: Change, entry: CompleteTask) -> None:
    job = change.replica.jobs.get(entry.job)
    if job is None or not job.active or job.revision != entry.revision:
        raise EntryRejectedError("no such revision is active")
    if entry.task not in [task.name for task in job.open_tasks]:
        raise EntryRejectedError("no such task is open")
    job = replace(job, done=(*job.done, entry.task))
    if job.open_tasks:
        change.put_job(job)
        change.reschedule = True
    else:
        finish(change, replace(job, state=JobState.COMPLETED, error=""))


def runs(replica: Replica, job: ClusterJob) -> bool:
    """Whether each open task has all that it needs at least, and the job at least one unit."""
    places = replica.allocations.get(job.name, {})
    enough = all(
        len(places.get(task.name, ())) >= task.min and all(places.get(task.name, ()))
        for task in job.open_tasks
    )
    return enough and any(places.values())
