"""Places of all units and of the coordinators: a function of the replica alone."""

from __future__ import annotations

from collections.abc import Collection

from kcontrol.core.cluster.model import STANDBY, Place, Replica
from kcontrol.core.cluster.schedule.board import Scheduled, board_of
from kcontrol.core.cluster.schedule.keepers import chosen
from kcontrol.core.cluster.schedule.placing import Placing
from kcontrol.core.cluster.schedule.sizes import Sizes


def schedule(replica: Replica, offset: int) -> Scheduled:
    """After an entry at `offset` has changed members, slots or jobs."""
    passed_over: frozenset[str] = frozenset()
    while True:
        sizes, placing = Sizes(replica, passed_over), Placing(replica, offset)
        stuck = _place(sizes, placing)
        if stuck is None:
            break
        passed_over |= {stuck}
    jobs = replica.active()
    for job in jobs:
        if job.name not in sizes.counts and job.name not in sizes.beyond:
            placing.linger(job)
    allocations = placing.allocations()
    board = None if passed_over else board_of(replica, jobs, allocations)
    return Scheduled(allocations, _coordinators(replica, placing, offset), board)


def _place(sizes: Sizes, placing: Placing) -> str | None:
    """The first job that agents which could not run it keep from being placed. All keep what they have before
    any takes more, and standbys come last."""
    missing = {job.name: placing.keep(job, sizes.counts[job.name]) for job in sizes.jobs}
    standing = {
        job.name: placing.keep_standbys(job, sizes.counts[job.name].get(STANDBY, 0)) for job in sizes.jobs
    }
    stuck = next((job.name for job in sizes.jobs if not placing.fill(missing[job.name])), None)
    if stuck is None:
        placing.fill_standbys(sizes.jobs, [one for job in sizes.jobs for one in standing[job.name]])
    return stuck


def _coordinators(replica: Replica, placing: Placing, offset: int) -> tuple[Place, ...]:

    def free(taken: Collection[str], most: int) -> list[str]:
        return [agent.name for agent in placing.free(taken)[:most]]

    return chosen(replica, replica.usable(), free, offset)
