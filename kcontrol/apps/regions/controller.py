"""A process that looks after regions: a session for each, which stands by where another process is in charge."""

from __future__ import annotations

import asyncio
import getpass
import logging
import os
import socket
import time
from collections.abc import Callable, Collection
from uuid import uuid4

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.hints import send_hints
from kcontrol.adapters.kafka.client.rights import Operation
from kcontrol.adapters.kafka.regions.asked import KafkaAskedRegions
from kcontrol.adapters.kafka.regions.log import KafkaRegionLog
from kcontrol.adapters.kafka.regions.topics import ensure_region_log, ensure_regions_topic
from kcontrol.apps.regions.members import PipelineMembers
from kcontrol.backoff import Backoff
from kcontrol.errors import AccessError, KcontrolError, RetriableError
from kcontrol.sessions.pausing import pause
from kcontrol.sessions.region import RegionSession, RegionTimes
from kcontrol.settings.cluster import ClusterSettings

_log = logging.getLogger("kcontrol.regions")

_LOOK_EVERY_MS = 2_000
_AGAIN = Backoff(first_ms=5_000, longest_ms=60_000)
"""After a session that a fault has ended."""


class RegionController:
    """regions: their names; (): all that are defined, and will be."""

    def __init__(
        self, cluster: ClusterSettings, regions: Collection[str] = (), times: RegionTimes | None = None
    ) -> None:
        self._cluster, self._regions, self._times = cluster, frozenset(regions), times or RegionTimes()
        self._sessions: dict[str, RegionSession] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """End once all sessions have."""
        self._stopping.set()
        for session in self._sessions.values():
            session.stop()

    async def run(self, ready: Callable[[], None]) -> None:
        """Until `stop`. ready: is called once regions are looked for. Raises TopicError, AccessError, ClusterError."""
        await asyncio.to_thread(ensure_regions_topic, self._cluster, (Operation.READ,))
        asked, tasks = KafkaAskedRegions(self._cluster), self._tasks
        try:
            ready()
            async with asyncio.TaskGroup() as group:
                while not self._stopping.is_set():
                    for name in await self._wanted(asked):
                        if name not in tasks:
                            tasks[name] = group.create_task(self._look_after(name))
                    await pause(_LOOK_EVERY_MS, self._stopping)
        finally:
            await asked.close()

    async def _wanted(self, asked: KafkaAskedRegions) -> list[str]:
        try:
            await asked.look()
        except RetriableError as error:
            _log.warning("looking for regions: %s; trying again", error)
        return [name for name in asked.definitions if not self._regions or name in self._regions]

    async def _look_after(self, region: str) -> None:
        """What ends a session by a fault, whatever it is, is said, and another begins: other regions do not suffer from it.
        Where there are none, a right that is missing ends the process."""
        tries = _AGAIN.begin()
        while not self._stopping.is_set():
            began_s = time.monotonic()
            try:
                await self._session(region)
            except Exception as error:
                if isinstance(error, AccessError) and len(self._tasks) == 1:
                    raise
                if time.monotonic() - began_s > _AGAIN.longest_ms / 1000:
                    tries.succeeded()
                again_ms, is_bug = tries.failed(), not isinstance(error, KcontrolError)
                told = f"{type(error).__name__}: {error}" if is_bug else error
                _log.error(
                    "region %s: %s; trying again in %g s", region, told, again_ms / 1000, exc_info=is_bug
                )
                await pause(again_ms, self._stopping)

    async def _session(self, region: str) -> None:
        await asyncio.to_thread(ensure_region_log, self._cluster, region)
        log, asked = KafkaRegionLog(self._cluster, region), KafkaAskedRegions(self._cluster)
        members = PipelineMembers(self._cluster, region)
        controller = f"{getpass.getuser()}@{socket.gethostname()} {os.getpid()} {uuid4().hex[:8]}"
        session = RegionSession(
            *(region, controller, log, asked, members, SystemClock(), self._times), hint=send_hints
        )
        self._sessions[region] = session
        try:
            if not self._stopping.is_set():
                await session.run()
        finally:
            del self._sessions[region]
            await asyncio.gather(log.close(), asked.close(), members.close())
