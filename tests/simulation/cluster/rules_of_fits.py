"""The rules by which jobs follow the size of the cluster, each as it is switched off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import patch

from kcontrol.core.cluster import fit_wards, fitting
from kcontrol.core.cluster import replica as replica_module
from kcontrol.core.cluster.change import Change
from kcontrol.core.cluster.entries import FitJob, SetBounds
from kcontrol.core.cluster.fit_wards import FitWards
from kcontrol.core.cluster.model import Replica
from tests.simulation.breaking import Patches
from tests.simulation.cluster import faults, fits
from tests.simulation.cluster import invariants as inv
from tests.simulation.cluster.rule import ClusterRule


def _all_hosts_are_counted_on() -> Patches:
    def with_all(replica: Replica) -> Iterator[Replica]:
        yield replica

    return (patch.object(fitting, "_with_any_one_away", with_all),)


def _what_was_due_for_an_older_value_counts() -> Patches:
    def refused(replica: Replica, entry: FitJob) -> str:
        job = replica.jobs.get(entry.job)
        known = job is not None and job.active and job.bounds is not None and job.revision == entry.revision
        return "" if known else "no such revision follows the size of the cluster"

    return (patch.object(fitting, "refused", refused), patch.object(fit_wards, "refused", refused))


def _nobody_follows() -> Patches:
    return (patch.object(FitWards, "due", lambda self, replica: []),)


def _jobs_have_bounds_at_any_level() -> Patches:
    return (patch.object(fitting, "BOUNDS_LEVEL", 1),)


def _bounds_need_not_hold_what_there_is() -> Patches:
    def on_set_bounds(change: Change, entry: SetBounds) -> None:
        wide = replace(entry, least=1, most=None)
        right(change, wide)
        job = change.replica.jobs[entry.job]
        if job.bounds is not None:
            change.put_job(replace(job, bounds=replace(job.bounds, least=entry.least, most=entry.most)))

    right = fitting.on_set_bounds
    return (patch.dict(replica_module.HANDLERS, {SetBounds: on_set_bounds}),)


COME_AND_GO = (faults.host_killed, faults.host_added)
RULES_OF_FITS = (
    ClusterRule(_all_hosts_are_counted_on, (fits.ONE_HOST_AWAY,), COME_AND_GO, fits=True),
    ClusterRule(
        _what_was_due_for_an_older_value_counts,
        (fits.ONE_HOST_AWAY, fits.WITHIN_BOUNDS, inv.KEEPS_LAYOUT, inv.COMES_TO_REST, inv.QUIET),
        COME_AND_GO,
        fits=True,
    ),
    ClusterRule(_nobody_follows, (inv.COMES_TO_REST,), fits=True),
    ClusterRule(
        _jobs_have_bounds_at_any_level, (inv.SAME_VALUE, inv.DIGESTS_AGREE), two_codes=True, fits=True
    ),
    ClusterRule(_bounds_need_not_hold_what_there_is, (fits.WITHIN_BOUNDS,), fits=True),
)
