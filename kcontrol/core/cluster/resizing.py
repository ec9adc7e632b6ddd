"""Another number of nodes for a job whose other nodes go on.

How many processes are wanted, the cluster's log says; how many nodes there are, the log of the job's pipeline. Between the
two nothing is taken away that the pipeline's layout may have: new nodes are placed at once, and wait for it; nodes that are to
go keep their places until the layout is without them. Whoever is the job's warden asks the pipeline for the change, and says
here what its log holds once none is under way.
"""

from __future__ import annotations

from dataclasses import replace

from kcontrol.core.cluster.change import Change, EntryRejectedError
from kcontrol.core.cluster.entries import JobResized, ResizeJob
from kcontrol.core.cluster.jobs import active_job, forget_bad, up_to_date
from kcontrol.core.cluster.model import RESIZE_LEVEL, ClusterJob


def on_resize(change: Change, entry: ResizeJob) -> None:
    job = active_job(change, entry.job, RESIZE_LEVEL)
    up_to_date(change, entry)
    if not job.resizable:
        raise EntryRejectedError("it has no number of nodes that is given")
    if not 1 <= entry.nodes <= change.replica.policy.job_nodes:
        raise EntryRejectedError("more nodes than a job may have, or none")
    # Who says a number does not want it to follow the size of the cluster.
    asked = replace(job, touched=change.offset, request=entry.request, bounds=None)
    if entry.nodes == job.nodes:
        change.put_job(asked)
        return
    give_another_number(change, asked, entry.nodes)


def give_another_number(change: Change, job: ClusterJob, nodes: int) -> None:
    """Those that stay go on."""
    task = replace(job.tasks[0], min=nodes, max=nodes)
    # What was asked for before may have come about by now.
    most = max(job.most, job.nodes, nodes)
    change.put_job(replace(job, tasks=(task,), kept=job.kept or job.nodes, most=most))
    forget_bad(change, job.name)
    change.reschedule = True


def on_resized(change: Change, entry: JobResized) -> None:
    job = active_job(change, entry.job, RESIZE_LEVEL)
    if job.revision != entry.revision or not job.kept:
        raise EntryRejectedError("no such revision is given another number of nodes")
    if not job.touched <= entry.as_of < change.offset:
        raise EntryRejectedError("the job was changed since its pipeline was looked at")
    if not 1 <= entry.nodes <= change.replica.policy.job_nodes:
        raise EntryRejectedError("more nodes than a job may have, or none")
    if is_known(job, entry.nodes):
        raise EntryRejectedError("that is known")
    seen = replace(job, touched=change.offset, kept=entry.nodes, most=max(entry.nodes, job.nodes))
    change.put_job(replace(seen, kept=0, most=0) if entry.nodes == job.nodes else seen)
    change.reschedule = True


def is_known(job: ClusterJob, nodes: int) -> bool:
    """Whether it says nothing new that the pipeline has so many nodes, which are not those that are wanted."""
    return nodes == job.kept != job.nodes and job.most == max(job.kept, job.nodes)
