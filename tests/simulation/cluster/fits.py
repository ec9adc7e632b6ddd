"""What must always hold of jobs that follow the size of the cluster, each by its name, after every entry; and at rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcontrol.core.cluster.entries import FitJob
from kcontrol.core.cluster.fitting import fitting
from kcontrol.core.cluster.jobs import runs
from kcontrol.core.cluster.model import Replica
from tests.simulation.cluster.layouts import KEEP_NOTHING, running_layouts
from tests.simulation.invariants import require

if TYPE_CHECKING:
    from tests.simulation.cluster.invariants import Applied
    from tests.simulation.cluster.schedule import ClusterSchedule

WITHIN_BOUNDS = (
    "a job that follows the size of the cluster has no fewer and no more nodes than its bounds say"
)
ONE_HOST_AWAY = "no job grows by itself beyond what has room with any one host away"
FOLLOWS = "only a job that follows the size of the cluster is given another number by an agent"
FITTED_ANEW = "who keeps nothing begins anew with another number, all of its nodes"


def check_fits(done: Applied) -> None:
    value, entry = done.after, done.entry
    for job in value.active():
        if job.bounds is not None:
            most = job.nodes if job.bounds.most is None else job.bounds.most
            require(job.bounds.least <= job.nodes <= most, WITHIN_BOUNDS, job)
    if not isinstance(entry, FitJob):
        return
    before, job = done.before.jobs[entry.job], value.jobs[entry.job]
    require(before.bounds is not None and job.nodes == entry.nodes, FOLLOWS, (before, entry))
    require((job.revision == done.offset) == entry.anew, FITTED_ANEW, (job, entry))
    if job.nodes > before.nodes:
        require(job.nodes <= _room(value), ONE_HOST_AWAY, (job, entry))


def _room(value: Replica) -> int:
    """Slots that are left when the largest host is away; of one host alone all."""
    slots = sorted(agent.slots for agent in value.usable().values())
    return sum(slots[:-1]) if len(slots) > 1 else sum(slots)


def not_fitted(s: ClusterSchedule) -> str | None:
    """Whoever can has as many nodes as the cluster has room for."""
    truth = s.world.truth
    room, layouts = fitting(truth), running_layouts(s.world)
    for name, nodes in sorted(room.items()):
        job = truth.jobs[name]
        if job.nodes == nodes or name not in layouts or not truth.members:
            continue
        grows_in_vain = job.kept and job.nodes > max(job.kept, nodes)
        if grows_in_vain or (not job.kept and (name in KEEP_NOTHING or runs(truth, job))):
            return f"{name} is to have {nodes} nodes, and has {job.nodes}"
    return None
