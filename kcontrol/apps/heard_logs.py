"""The logs of a pipeline, read by somebody who waits, and for how long he has heard all that was said."""

from __future__ import annotations

import time
from collections.abc import Callable

from kcontrol.apps.pipeline_logs import PipelineLogs

PAUSED_S = 5.0
"""Who has not read on for so long has stood still himself, or did something else."""


class HeardLogs:
    """Reads both logs on, again and again. While Kafka is away nobody can be heard, and who is silent was only not heard;
    before there is a definition nobody can be a node, and who waits is not to count that against whoever submits it. Nor can
    anybody be heard by who stands still himself, as with the whole machine."""

    def __init__(self, logs: PipelineLogs, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._logs = logs
        self._monotonic_s = monotonic_s
        self._since: float | None = None
        self._read_s = 0.0
        """When it was last read."""

    @property
    def heard_ms(self) -> int:
        """For how long the logs, with a definition in them, have been read without a fault."""
        return 0 if self._since is None else round((self._monotonic_s() - self._since) * 1000)

    async def read(self) -> None:
        """Raises RetriableError."""
        since, self._since = self._since, None
        if self._monotonic_s() - self._read_s > PAUSED_S:
            since = None
        if await self._logs.is_there():
            await self._logs.read_steps_on()
        self._read_s = self._monotonic_s()
        if self._logs.view.spec() is not None:
            self._since = self._read_s if since is None else since
