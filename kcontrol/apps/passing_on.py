"""What a process keeps of both logs and of Spark when it goes on as another incarnation of its node, or as its first, for
which it may have stood by.

The next incarnation reads the control log on from where the last one stood, instead of once more from its beginning, and its
queries are opened as soon as those of the last one have stopped, which nothing else waits for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import reduce

from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.core.log.control_view import PipelineView, evolve


async def nothing_to_close() -> None:
    """Nobody was there before."""


@dataclass
class PassedOn:
    """Of one process. view: all that `control` has read. log_id: Kafka's id of the steps topic. closed: returns when the
    queries of the incarnation before have stopped, or are not waited for any more."""

    control: KafkaControlLog
    view: PipelineView
    log_id: str
    closed: Callable[[], Awaitable[None]] = nothing_to_close

    async def read_on(self, *, to_barrier: bool = False) -> None:
        """to_barrier: all that was acknowledged before the call, whatever a broker shows. Raises RetriableError."""
        control = self.control
        read = control.read_to_barrier(self.view.pipeline) if to_barrier else control.read_to_end()
        self.view = reduce(evolve, await read, self.view)

    async def close(self) -> None:
        """Nobody goes on."""
        await self.closed()
        await self.control.close()
