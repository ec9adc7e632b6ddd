"""Looks after every pipeline that lives in one assigned partition of the control topic.

A pipeline is looked after from the moment its definition is in the partition until that is deleted. Its
session may resign (somebody newer claimed) or crash (a bug, or Kafka away for too long); while the partition
stays assigned to this process, a new session follows after a back-off, because otherwise nobody would be in
charge. Nothing of that is silent. Only what Kafka does not allow ends it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from kcontrol.backoff import Backoff
from kcontrol.core.log.definitions import definitions
from kcontrol.core.model import Logged, PipelineSpec
from kcontrol.errors import AccessError
from kcontrol.sessions.coordinator import CoordinatorSession
from kcontrol.sessions.pausing import pause

RECLAIM_AFTER_MS = 10_000
"""Wait after a resignation: longer than the group's session timeout, so that whoever claimed
wrongly has lost the partition."""
RESTARTS = Backoff(first_ms=200, longest_ms=10_000)
"""Between sessions that crash. One that has lived longer than the longest wait crashes for the first time
again."""

OpenSession = Callable[[str], AbstractAsyncContextManager[CoordinatorSession]]
"""Opens the ports of a pipeline and a session on them; closes the ports afterwards."""


class PartitionKeeper:
    """The sessions of one partition. `start` when it is assigned, `stop` when it is revoked."""

    def __init__(
        self,
        partition: int,
        fold: Callable[[], Awaitable[list[Logged]]],
        open_session: OpenSession,
        denied: Callable[[AccessError], None],
        reclaim_after_ms: int = RECLAIM_AFTER_MS,
        monotonic_s: Callable[[], float] | None = None,
    ) -> None:
        """fold: reads the whole partition, from its beginning to its end. denied: told when Kafka does not
        let us work here; nothing is tried again then.
        """
        self._log = logging.getLogger(f"kcontrol.coordinator.partition-{partition}")
        self._fold = fold
        self._open_session = open_session
        self._denied = denied
        self._reclaim_after_ms = reclaim_after_ms
        self._monotonic_s = monotonic_s or (lambda: asyncio.get_running_loop().time())
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._sessions: dict[str, CoordinatorSession] = {}
        self._finding: asyncio.Task[None] | None = None
        self._confirmed, self._confirmed_s = asyncio.Event(), 0.0
        self._submitted: dict[str, int] = {}
        """By pipeline, the offset of the newest definition that has arrived."""

    def start(self) -> None:
        """Find the pipelines that are there, and look after them, in the background."""
        self._finding = asyncio.create_task(self._find())

    def confirm(self) -> None:
        """The group has assigned the partition to this process once more: who has
        resigned wrongly claims again at once."""
        confirmed, self._confirmed = self._confirmed, asyncio.Event()
        self._confirmed_s = self._monotonic_s()
        confirmed.set()

    def push(self, offset: int, logged: Logged | None) -> None:
        """A record of the partition has arrived (None: a record that is nobody's)."""
        for session in self._sessions.values():
            session.push(offset, logged)
        if logged is not None and isinstance(logged.record, PipelineSpec):
            self._submitted[logged.record.pipeline] = offset
            self._begin(logged.record.pipeline)

    def pipelines(self) -> list[str]:
        """Those that are looked after."""
        return list(self._tasks)

    async def stop(self) -> None:
        """End all sessions; returns when their ports are closed."""
        tasks = [*self._tasks.values(), *([self._finding] if self._finding else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()

    def _begin(self, pipeline: str) -> None:
        if pipeline not in self._tasks:
            self._tasks[pipeline] = asyncio.create_task(self._look_after(pipeline))

    async def _find(self) -> None:
        tries = RESTARTS.begin()
        while True:
            try:
                for pipeline in definitions(await self._fold()):
                    self._begin(pipeline)
                return
            except Exception as error:  # noqa: BLE001 - logged whole and tried again: an unread partition is undriven pipelines
                if (refusal := _refusal_in(error)) is not None:
                    self._denied(refusal)
                    return
                self._log.exception("reading the control partition failed; trying again")
                await tries.wait()

    async def _look_after(self, pipeline: str) -> None:
        tries = RESTARTS.begin()
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            confirmed = self._confirmed
            try:
                async with self._open_session(pipeline) as session:
                    self._sessions[pipeline] = session
                    reason = await session.run()
                if session.deleted_at >= 0:
                    if self._submitted.get(pipeline, -1) > session.deleted_at:
                        continue  # It was submitted again meanwhile.
                    self._log.info("pipeline %s: it was deleted; nobody looks after it any more", pipeline)
                    del self._tasks[pipeline]
                    return
                tries.succeeded()
                pause_ms = self._reclaim_after_ms
                self._log.warning("pipeline %s: resigned: %s", pipeline, reason)
            except Exception as error:  # noqa: BLE001 - logged whole; the next session starts from the logs, not from this one
                if (refusal := _refusal_in(error)) is not None:
                    self._denied(refusal)
                    return
                if loop.time() - began > RESTARTS.longest_ms / 1000:
                    tries.succeeded()
                pause_ms = tries.failed()
                self._log.exception(
                    "pipeline %s: the session crashed; claiming again in %d ms", pipeline, pause_ms
                )
            finally:
                self._sessions.pop(pipeline, None)
            if self._monotonic_s() - self._confirmed_s > self._reclaim_after_ms / 1000:
                # Before the other one's claim: who hung meanwhile has perhaps lost the partition, and learns of it in a moment.
                confirmed = self._confirmed
            await pause(pause_ms, confirmed)


def _refusal_in(error: BaseException) -> AccessError | None:
    """The first refusal in an exception or a group of them."""
    if isinstance(error, BaseExceptionGroup):
        return next((found for inner in error.exceptions if (found := _refusal_in(inner)) is not None), None)
    return error if isinstance(error, AccessError) else None
