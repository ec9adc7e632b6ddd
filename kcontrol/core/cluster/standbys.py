"""Processes that stand by for the nodes of a job: as many as are asked for, placed where no node of it is if that can be.

A standby has everything ready but a number. Where a node loses its place, the value gives it the place and the process of
a standby (`schedule.placing`), with a new generation, as any place that is new; so nobody has to find out who the node is.
"""

from __future__ import annotations

from dataclasses import replace

from kcontrol.core.cluster.change import Change, EntryRejectedError, without
from kcontrol.core.cluster.entries import SetStandbys, TaskFailed
from kcontrol.core.cluster.jobs import active_job, up_to_date
from kcontrol.core.cluster.model import STANDBY, STANDBY_LEVEL, ClusterJob, bad_key


def on_set_standbys(change: Change, entry: SetStandbys) -> None:
    job = active_job(change, entry.job, STANDBY_LEVEL)
    up_to_date(change, entry)
    if not job.takes_standbys:
        raise EntryRejectedError("it has no number of nodes that is given")
    if not 0 <= entry.standbys <= change.replica.policy.job_nodes:
        raise EntryRejectedError("more standbys than a job may have nodes")
    change.put_job(
        replace(job, standbys=entry.standbys, error="", touched=change.offset, request=entry.request)
    )
    _forget_bad(change, job)
    change.reschedule = True


def standby_failed(change: Change, job: ClusterJob, entry: TaskFailed) -> None:
    """It is tried elsewhere, and at last given up: a job whose nodes run never fails by it."""
    key = bad_key((job.name, STANDBY, entry.index))
    bad = (*change.replica.bad.get(key, ()), entry.agent)
    if entry.useless or len(bad) >= change.replica.policy.bad_agents:
        where = ", ".join(bad)
        change.put_job(replace(job, standbys=0, error=f"a standby failed on {where}: {entry.error}"))
        _forget_bad(change, job)
    else:
        change.set(bad={**change.replica.bad, key: bad})
    change.reschedule = True


def _forget_bad(change: Change, job: ClusterJob) -> None:
    bad = change.replica.bad
    for key in [one for one in bad if one.startswith(f"{job.name}/{STANDBY}/")]:
        bad = without(bad, key)
    change.set(bad=bad)
