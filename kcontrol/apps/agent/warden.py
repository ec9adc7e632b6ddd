"""An agent looks after tasks of which it is the warden: whether what they have to do is all done.

A pipeline whose inputs end is stopped once all of them are in committed steps, and its job is then said to be completed.
Everything follows from the logs, so an agent that becomes the warden later goes on where the one before was.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from contextlib import AsyncExitStack

from kcontrol.adapters.clock import SystemClock
from kcontrol.apps.agent.looks import side_by_side
from kcontrol.apps.pipeline_logs import PipelineLogs, pipeline_logs
from kcontrol.core.cluster.wards import Ward
from kcontrol.core.model import AgentPlacement
from kcontrol.errors import KcontrolError
from kcontrol.requests.endings import stop_of_completed
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.endings import Ending, ending_of, last_ends

_log = logging.getLogger("kcontrol.agent")

TIMEOUT_S = 20.0
"""For one look at the logs of one pipeline."""


class _Looked:
    """The logs of one job's pipeline, as far as they were read."""

    def __init__(self, ward: Ward) -> None:
        self.ward = ward
        self.stack = AsyncExitStack()
        self.logs: PipelineLogs | None = None
        self.next_ms = 0

    async def look(self, settings: ClusterSettings, since: AgentPlacement) -> Ending:
        if self.logs is None:
            self.logs = await self.stack.enter_async_context(pipeline_logs(settings, self.ward.job))
        if not await self.logs.is_there():
            return Ending.OPEN
        if last_ends(self.logs.spec()) is not None:
            await self.logs.read_steps_on()
        found = ending_of(self.logs, since)
        if found is Ending.COMMITTED:
            await self.logs.control.append([stop_of_completed(self.logs.view)])
        return found


class Warden:
    """Of one agent. every_ms: between two looks at a pipeline."""

    def __init__(self, settings: ClusterSettings, every_ms: int = 5_000) -> None:
        self._settings, self._every_ms = settings, every_ms
        self._clock = SystemClock()
        self._all: dict[Ward, _Looked] = {}

    async def done(self, wards: Collection[Ward], founded_ms: int) -> list[Ward]:
        """Those of which all is done and their pipelines stopped. What can't be looked at now is looked at again."""
        for gone in [ward for ward in self._all if ward not in wards]:
            await self._forget(gone)
        done = await side_by_side(lambda ward: self._is_done(ward, founded_ms), wards)
        return [ward for ward, is_done in zip(wards, done, strict=True) if is_done]

    async def _is_done(self, ward: Ward, founded_ms: int) -> bool:
        known = self._all.setdefault(ward, _Looked(ward))
        now_ms = self._clock.monotonic_ms()
        if now_ms < known.next_ms:
            return False
        known.next_ms = now_ms + self._every_ms
        try:
            async with asyncio.timeout(TIMEOUT_S):
                found = await known.look(self._settings, AgentPlacement(founded_ms, ward.revision))
        except (KcontrolError, TimeoutError) as error:
            _log.info("job %s: whether it is done can't be told now: %s", ward.job, error or "no answer")
            await self._forget(ward)
            self._all[ward] = _Looked(ward)
            self._all[ward].next_ms = known.next_ms
            return False
        return found is Ending.STOPPED

    async def _forget(self, ward: Ward) -> None:
        await self._all.pop(ward).stack.aclose()

    async def close(self) -> None:
        for ward in list(self._all):
            await self._forget(ward)
