"""An agent sees to it that pipelines follow the size of the cluster, and users say between which numbers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from dataclasses import dataclass

from kcontrol.adapters.clock import SystemClock
from kcontrol.apps.agent.levels import need_level
from kcontrol.apps.agent.looking import ClusterView
from kcontrol.apps.agent.looks import side_by_side
from kcontrol.apps.pipeline_logs import pipeline_logs
from kcontrol.core.cluster.entries import SetBounds
from kcontrol.core.cluster.fit_wards import Fitting
from kcontrol.core.cluster.fitting import left_of_percentages
from kcontrol.core.cluster.model import BOUNDS_LEVEL, Bounds, ClusterJob, Replica, Scheduler
from kcontrol.errors import KcontrolError
from kcontrol.requests.fitting import FitSeen, fit_seen
from kcontrol.requests.record import NotNowError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.agents_facts import LoggedEntry

_log = logging.getLogger("kcontrol.agent")

TIMEOUT_S = 20.0
"""For one look at the logs of one pipeline."""
EVERY_MS = 10_000


# --- by the warden ------------------------------------------------------------------------------------------


class FitWarden:
    """Of one agent. every_ms: between two looks at a pipeline."""

    def __init__(self, settings: ClusterSettings, every_ms: int = EVERY_MS) -> None:
        self._settings, self._every_ms = settings, every_ms
        self._clock = SystemClock()
        self._next_ms: dict[str, int] = {}

    async def seen(self, fittings: Collection[Fitting]) -> list[tuple[Fitting, int, bool]]:
        """Those whose pipelines can have another number, with how many, and whether by beginning anew. What can't be looked at
        now is looked at again."""
        names = {one.job for one in fittings}
        self._next_ms = {job: at for job, at in self._next_ms.items() if job in names}
        found = zip(fittings, await side_by_side(self._look, fittings), strict=True)
        return [(one, seen.nodes, seen.anew) for one, seen in found if seen.nodes]

    async def _look(self, one: Fitting) -> FitSeen:
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_ms.get(one.job, now_ms):
            return FitSeen()
        self._next_ms[one.job] = now_ms + self._every_ms
        try:
            async with asyncio.timeout(TIMEOUT_S), pipeline_logs(self._settings, one.job) as logs:
                if not await logs.is_heard(self._clock):
                    return FitSeen()
                seen = fit_seen(logs, one.has, one.nodes, one.least, self._clock.now_ms())
        except (KcontrolError, TimeoutError) as error:
            seen = FitSeen(why=str(error) or "no answer")
        if seen.why:
            _log.info("job %s: the cluster has room for %d nodes: %s", one.job, one.nodes, seen.why)
        return seen


# --- by users -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Nodes:
    """How many nodes a job is to have: from `least` to `most`, by the size of the cluster; where both are equal, so many.
    most: None: as many as there is room for. percentage: of the cluster, where jobs are shared out by percentage."""

    least: int
    most: int | None
    percentage: int = 0

    @property
    def follows(self) -> bool:
        return self.least != self.most

    def to_begin_with(self, known: ClusterJob | None) -> int:
        """What it has, if that may stay; else as few as it may have, and more once it runs."""
        if known is None or not known.active or not known.resizable:
            return self.least
        return max(self.least, known.nodes if self.most is None else min(known.nodes, self.most))

    def are_those_of(self, job: ClusterJob) -> bool:
        bounds = Bounds(self.least, self.most) if self.follows else None
        return (job.bounds, job.percentage) == (bounds, self.percentage)


async def needs_bounds(view: ClusterView, job: str, nodes: Nodes) -> None:
    """Raise the level to that at which jobs follow the size of the cluster. Raises NotNowError: some agent's version does not
    know that, or other jobs leave less of the cluster; ClusterError."""
    left = left_of_percentages(await view.look(), job)
    if nodes.percentage > left:
        raise NotNowError(
            f"{nodes.percentage} % of the cluster is more than the {left} % that other jobs leave: kcontrol cluster jobs shows "
            "them. Nothing was changed"
        )
    await need_level(view, BOUNDS_LEVEL, "can't have a job follow the size of the cluster")


async def set_bounds(view: ClusterView, job: str, nodes: Nodes) -> LoggedEntry:
    """Raises what `ask` raises."""

    def wish(value: Replica, request: str) -> SetBounds:
        return SetBounds(job, request, value.offset, nodes.least, nodes.most, nodes.percentage)

    return await view.ask(wish)


def unused_percentage(value: Replica, nodes: Nodes) -> str:
    """That a percentage is no use, in words, or ''."""
    if not nodes.percentage or value.policy.scheduler is Scheduler.PERCENTAGE:
        return ""
    return (
        f"the scheduler of jobs is {value.policy.scheduler}, which does not look at percentages: kcontrol cluster configure "
        "--set scheduler=percentage"
    )
