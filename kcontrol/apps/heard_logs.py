"""The logs of a pipeline, read by somebody who waits, and for how long he has heard all that was said."""

from __future__ import annotations

import time
from collections.abc import Callable

from kcontrol.apps.pipeline_logs import PipelineLogs


class HeardLogs:
    """Reads both logs on, again and again. While Kafka is away nobody can be heard, and who is silent was only not heard;
    before there is a definition nobody can be a node, and who waits is not to count that against whoever submits it."""

    def __init__(self, logs: PipelineLogs, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._logs = logs
        self._monotonic_s = monotonic_s
        self._since: float | None = None

    @property
    def heard_ms(self) -> int:
        """For how long the logs, with a definition in them, have been read without a fault."""
        return 0 if self._since is None else round((self._monotonic_s() - self._since) * 1000)

    async def read(self) -> None:
        """Raises RetriableError."""
        since, self._since = self._since, None
        if await self._logs.is_there():
            await self._logs.read_steps_on()
        if self._logs.view.spec() is not None:
            self._since = self._monotonic_s() if since is None else since
