"""An agent sees to it that pipelines whose jobs have ended are told to stop, so that their nodes end also where the agent that
has started them is dead; and whoever kills a job tells its pipeline at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass

from kcontrol.adapters.clock import SystemClock
from kcontrol.apps.agent.looking import ClusterView
from kcontrol.apps.pipeline_logs import PipelineLogs, pipeline_logs
from kcontrol.backoff import Backoff
from kcontrol.core.cluster.end_wards import EndedJob, ended_job
from kcontrol.core.cluster.entries import KillJob
from kcontrol.core.model import AgentPlacement
from kcontrol.errors import KcontrolError
from kcontrol.requests.endings import EndSeen, end_seen
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.agents_facts import LoggedEntry

_log = logging.getLogger("kcontrol.agent")

TIMEOUT_S = 20.0
"""For one look at the logs of one pipeline."""
AGAIN = Backoff(first_ms=2_000, longest_ms=300_000)
"""Between two looks at a pipeline that can't be told now, as nothing was submitted by its name, agents have started none of its
nodes, or somebody runs it himself."""


@dataclass
class _Telling:
    """next_ms: no look before. times: so often it was looked. told: no look any more."""

    next_ms: int
    times: int = 0
    told: bool = False


class EndTeller:
    """Of one agent. may_ask: whether what it knows of the cluster is new enough. again: between two looks."""

    def __init__(
        self, settings: ClusterSettings, may_ask: Callable[[], bool], again: Backoff = AGAIN
    ) -> None:
        self._settings, self._may_ask, self._again = settings, may_ask, again
        self._clock = SystemClock()
        self._all: dict[EndedJob, _Telling] = {}

    async def tell(self, ended: Collection[EndedJob]) -> None:
        """One pipeline at most: that which waits longest."""
        now_ms = self._clock.monotonic_ms()
        self._all = {one: self._all.get(one, _Telling(now_ms)) for one in ended}
        due = [one for one, known in self._all.items() if not known.told and known.next_ms <= now_ms]
        if not due or not self._may_ask():
            return
        one = min(due, key=lambda each: (self._all[each].next_ms, each))
        known = self._all[one]
        known.times += 1
        known.next_ms = now_ms + self._again.wait_ms(known.times)
        try:
            known.told = await tell_of_end(self._settings, one, self._may_ask)
        except (KcontrolError, TimeoutError) as error:
            _log.info("job %s has ended: its pipeline can't be told now: %s", one.job, error or "no answer")


async def tell_of_end(
    settings: ClusterSettings, one: EndedJob, may_ask: Callable[[], bool] = lambda: True
) -> bool:
    """Have a pipeline stopped whose job has ended; whether its log says so now. Raises KcontrolError, TimeoutError."""
    async with asyncio.timeout(TIMEOUT_S), pipeline_logs(settings, one.job) as logs:
        seen = await _look(logs, one)
        if seen.request is None or not may_ask():
            return seen.told
        await logs.control.append([seen.request])
        return True


async def _look(logs: PipelineLogs, one: EndedJob) -> EndSeen:
    if not await logs.is_there():
        return EndSeen(told=False)
    return end_seen(logs.view, AgentPlacement(one.founded_ms, one.wish))


async def kill(view: ClusterView, job: str) -> LoggedEntry:
    """End a job, and tell its pipeline; if that can't be done now, agents do it. Raises what `ask` raises."""
    made = await view.ask(lambda value, request: KillJob(job, request, value.offset))
    known = view.replica.jobs.get(job)
    if known is not None and not known.active:
        with suppress(KcontrolError, TimeoutError):
            await tell_of_end(view.settings, ended_job(view.replica, known))
    return made
