"""What a deliverer has to know of the log besides the step in hand: which log it is, and from where to where it goes."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

from kcontrol.adapters.kafka.client.background import client_for
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.core.log.resets import Resets, resets_in
from kcontrol.core.model import LoggedStep, StepBoundary
from kcontrol.core.step.following import LogFacts
from kcontrol.errors import TopicError
from kcontrol.sessions.retrying import follow, until_deadline
from kcontrol.settings.cluster import ClusterSettings

_log = logging.getLogger("kcontrol.deliver")

_NEWEST = 2**62
_LOOKS, _LOOK_AGAIN_S = 5, 1.0


class LogWatch:
    """Of one pipeline. Other threads may ask it at any time."""

    def __init__(
        self,
        settings: ClusterSettings,
        pipeline: str,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._settings, self._pipeline, self._clock_ms = settings, pipeline, clock_ms
        self._client = client_for(settings)
        self._tail = KafkaStepsLog(settings, pipeline)
        self._lock = threading.Lock()
        self._following: Future[None] | None = None
        self._last = self._delivered = 0
        self._oldest_ms: int | None = None

    def facts(self) -> LogFacts:
        """Read anew. Raises RetriableError, TopicError, DamagedRecordError, as logs are read."""
        read = until_deadline(self._facts, "reading where the log of steps begins and ends", _log)
        found = self._client.start(read).result()
        self._see(found.last, None)
        return found

    def with_resets(self, log: LogFacts) -> LogFacts:
        """The same, with all resets that are in it, for which it is read from its beginning to its end. Raises as `facts`."""
        read = until_deadline(
            partial(self._resets, log.log_id), "looking for resets in the log of steps", _log
        )
        return replace(log, resets=self._client.start(read).result())

    def begin(self) -> None:
        """Go on looking for new steps until `close`."""
        self._following = self._client.start(self._follow())

    def close(self) -> None:
        """Raises nothing."""
        if self._following is not None:
            self._following.cancel()
        self._client.start(self._tail.close()).result()

    @property
    def last(self) -> int:
        """The newest step, as far as is known."""
        return self._last

    def in_hand(self, boundary: StepBoundary) -> None:
        """The oldest step that was not delivered."""
        with self._lock:
            self._oldest_ms = boundary.committed_ms
            self._last = max(self._last, boundary.step)

    def delivered(self, step: int) -> None:
        """All up to this one."""
        with self._lock:
            self._delivered = step
            self._last = max(self._last, step)
            if step >= self._last:
                self._oldest_ms = None

    @property
    def given(self) -> int:
        """The last one that was delivered."""
        return self._delivered

    @property
    def lag_steps(self) -> int:
        """Committed and not delivered."""
        return max(0, self._last - self._delivered)

    @property
    def lag_s(self) -> float:
        """Since the commit of the oldest of them."""
        with self._lock:
            return 0.0 if self._oldest_ms is None else max(0, self._clock_ms() - self._oldest_ms) / 1000

    def _see(self, last: int, committed_ms: int | None) -> None:
        with self._lock:
            self._last = max(self._last, last)
            if self._oldest_ms is None and last > self._delivered:
                self._oldest_ms = committed_ms

    async def _facts(self) -> LogFacts:
        for _ in range(_LOOKS - 1):
            try:
                return await self._read_facts()
            except TopicError as error:
                # A broker that is behind may have named the topic of before, or none: whoever reads it finds out.
                _log.info("looking at the log of steps again: %s", error)
                await asyncio.sleep(_LOOK_AGAIN_S)
        return await self._read_facts()

    async def _read_facts(self) -> LogFacts:
        steps = KafkaStepsLog(self._settings, self._pipeline)
        try:
            steps.begin_at_start()
            first = next(iter(_boundaries(await steps.read_through(1))), None)
            await steps.begin_at_step(_NEWEST)
            last = max((each.step for each in _boundaries(await steps.read_to_end())), default=0)
            # Of the topic that was read, whatever metadata says by now.
            log_id = await steps.log_id()
        finally:
            await steps.close()
        return LogFacts(self._pipeline, log_id, first.step if first else 0, last)

    async def _resets(self, log_id: str) -> Resets:
        steps = KafkaStepsLog(self._settings, self._pipeline)
        try:
            steps.begin_at_start()
            found = resets_in(await steps.read_resets())
            # Those of another log say nothing of this one.
            return found if await steps.log_id() == log_id else ()
        finally:
            await steps.close()

    async def _follow(self) -> None:
        async def stand_at_the_end() -> None:
            await self._tail.begin_at_step(_NEWEST)

        await until_deadline(stand_at_the_end, "following the log of steps", _log, deadline_ms=_NEWEST)
        await follow(self._tail.tail, self._take, "following the log of steps", _log, deadline_ms=_NEWEST)

    def _take(self, chunk: list[LoggedStep]) -> None:
        for boundary in _boundaries(chunk):
            self._see(boundary.step, boundary.committed_ms)


def _boundaries(chunk: list[LoggedStep]) -> list[StepBoundary]:
    return [each.record for each in chunk if isinstance(each.record, StepBoundary)]
