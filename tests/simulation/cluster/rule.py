"""A rule of the cluster that can be switched off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.simulation.breaking import Patches
from tests.simulation.cluster.faults import Fault
from tests.simulation.cluster.schedule import ClusterSchedule


@dataclass(frozen=True)
class ClusterRule:
    """A rule by what switches it off, the invariants of which one then breaks, the faults that lead there,
    and where to begin."""

    broken: Callable[[], Patches]
    invariants: tuple[str, ...]
    likely: tuple[Fault, ...] = ()
    begin: int = 0
    two_codes: bool = False
    resizes: bool = False
    ends: bool = False
    """Whether jobs are killed while they are resized."""
    as_of: bool = False
    stands: bool = False
    """Whether jobs have standbys, and so are resized as well."""
    fits: bool = False
    """Whether jobs follow the size of the cluster, and so are resized as well."""
    keeps: bool = False
    """Whether there are hosts where no coordinator can run, which is known at a level at which jobs are resized."""

    tries: bool = False
    """Whether what could not run somewhere is tried there again in another life of the agent, known at such a level."""

    refills: bool = False
    """Whether what standbys leave is for those that have found no room, and so jobs have standbys."""

    def schedule(self, seed: int) -> ClusterSchedule:
        stands = self.stands or self.refills
        resizes = self.resizes or stands or self.fits or self.keeps or self.tries
        more = self.two_codes, resizes, self.ends, self.as_of, stands, self.fits, self.keeps, self.tries
        return ClusterSchedule(seed, self.likely, *more, refills=self.refills)

    def __str__(self) -> str:
        return self.broken.__name__.strip("_")
