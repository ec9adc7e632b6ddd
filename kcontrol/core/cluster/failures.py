"""What can't run where it is placed: it is tried elsewhere, and after some agents its job has failed."""

from __future__ import annotations

from dataclasses import replace

from kcontrol.core.cluster.change import Change, EntryRejectedError
from kcontrol.core.cluster.coordinators import coordinator_failed
from kcontrol.core.cluster.entries import TaskFailed
from kcontrol.core.cluster.jobs import finish
from kcontrol.core.cluster.model import COORDINATOR, JobState, bad_key
from kcontrol.core.cluster.standbys import standby_failed


def on_task_failed(change: Change, entry: TaskFailed) -> None:
    replica = change.replica
    change.author(entry.agent, entry.incarnation)
    unit = (entry.job, entry.task, entry.index)
    if unit == COORDINATOR:
        coordinator_failed(change, entry)
        return
    job = replica.jobs.get(entry.job)
    places = replica.allocations.get(entry.job, {}).get(entry.task, ())
    place = places[entry.index] if 0 <= entry.index < len(places) else None
    if job is None or not job.active or place is None or not place.is_of(entry.agent, entry.generation):
        raise EntryRejectedError("it is not placed so any more")
    if job.stands_by(entry.task):
        standby_failed(change, job, entry)
        return
    bad = (*replica.bad.get(bad_key(unit), ()), entry.agent)
    if entry.useless or len(bad) >= replica.policy.bad_agents:
        where = ", ".join(bad)
        error = f"node {entry.index} of task {entry.task} failed on {where}: {entry.error}"
        finish(change, replace(job, state=JobState.FAILED, error=error))
        return
    change.set(bad={**replica.bad, bad_key(unit): bad})
    change.reschedule = True
